package producer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// blackhole returns a client of a broker that forgets what it is sent. The
// broker is in this process, so its share is in all figures: compare them.
func blackhole(b *testing.B) (*producer.Client, *fakekafka.Cluster) {
	b.Helper()
	c := fakekafka.Start(b, fakekafka.With(kfake.BlackholeProduce()))
	r := c.Provision(b, ax.Domain{Name: "orders", Durability: ax.Fast})
	cl, err := producer.New(r.Domain(), producer.WithKafka(c.Opts()...))
	require.NoError(b, err)
	b.Cleanup(func() { _ = cl.Close(context.Background()) })
	_, err = cl.Submit(b.Context(), ax.Task{Kind: "k"})
	require.NoError(b, err)
	b.ReportAllocs()
	return cl, c
}

const together = 500

// Divide by 500 for the cost of a task.
func BenchmarkSubmitMany(b *testing.B) {
	cl, _ := blackhole(b)
	payload := make([]byte, 100)
	tasks := make([]ax.Task, together)
	for i := range tasks {
		tasks[i] = ax.Task{Kind: "order.close", Payload: payload}
	}
	for b.Loop() {
		for _, r := range cl.SubmitMany(b.Context(), tasks) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
}

// The control: what the bare client takes for such records.
func BenchmarkProduceSync(b *testing.B) {
	_, c := blackhole(b)
	cl, err := kgo.NewClient(append(c.Opts(), kgo.DefaultProduceTopic("orders.lane.normal"), kgo.ProducerLinger(0),
		kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())...)
	require.NoError(b, err)
	defer cl.Close()
	task := ax.Task{ID: "0190c0de-7a1b-7000-8000-000000000001", Kind: "order.close", Lane: "normal", Payload: make([]byte, 100), Submitted: time.Now()}
	for b.Loop() {
		rs := make([]*kgo.Record, together)
		for i := range rs {
			rs[i] = ax.Encode(&task)
		}
		if err := cl.ProduceSync(b.Context(), rs...).FirstErr(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSubmit(b *testing.B) {
	cl, _ := blackhole(b)
	task := ax.Task{Kind: "order.close", Payload: make([]byte, 100)}
	for b.Loop() {
		if _, err := cl.Submit(b.Context(), task); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSubmitAsync(b *testing.B) {
	cl, _ := blackhole(b)
	task := ax.Task{Kind: "order.close", Payload: make([]byte, 100)}
	var open sync.WaitGroup
	for b.Loop() {
		open.Add(1)
		cl.SubmitAsync(b.Context(), task, func(_ ax.Receipt, err error) {
			if err != nil {
				b.Error(err)
			}
			open.Done()
		})
	}
	open.Wait()
}
