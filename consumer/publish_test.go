package consumer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// While what follows a task can't be written, its record stays unfinished, other
// tasks go on, and no attempt is spent.
func TestAFailedPublishLeavesItsRecordUnfinishedAndCostsNoAttempt(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{
			Lanes: []ax.Lane{{Name: "normal", Weight: 1, Partitions: 1}},
			Kinds: map[string]ax.Kind{"fail": {Attempts: 2, Backoff: ax.Backoff{Delays: []time.Duration{2 * time.Second}}}},
		})
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("fail", got.handler(errors.New("no")))
		mux.HandleFunc("ok", got.handler(nil))
		b.worker(mux)
		b.mover()
		near := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: b.r.Near(), Err: kerr.TopicAuthorizationFailed, Count: -1})
		dead := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: b.r.Dead(), Err: kerr.TopicAuthorizationFailed, Count: -1})
		b.submit(ax.Task{Kind: "fail"})
		for range 5 {
			b.submit(ax.Task{Kind: "ok"})
		}
		time.Sleep(30 * time.Second)
		require.Len(t, got.list(), 6, "it ran once, and the others behind it ran")
		b.requireCommitted("normal", 0)
		near.Remove()
		time.Sleep(30 * time.Second)
		list := got.list()
		require.Len(t, list, 7)
		require.Equal(t, 2, list[6].Attempt)
		b.requireCommitted("normal", 6) // the retry is the seventh record, and its death can't be written
		dead.Remove()
		time.Sleep(30 * time.Second)
		require.Len(t, got.list(), 7)
		require.Len(t, c.Records(t, b.r.Dead()), 1)
		b.requireCommitted("normal", 7)
	})
}

// A worker that lost the partition while what follows a task could not be
// written must not write it later: the next owner has run the task again.
func TestAWorkerThatLostThePartitionDoesNotPublishItsCopy(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "normal", Weight: 1, Partitions: 2}}})
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("bad", got.handler(ax.Permanent(errors.New("no"))))
		first := b.worker(mux, consumer.WithGrace(time.Second))
		time.Sleep(2 * time.Second)
		dead := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: b.r.Dead(), Err: kerr.TopicAuthorizationFailed, Count: -1})
		for range 20 {
			b.submit(ax.Task{Kind: "bad"}, producer.Attempts(1))
		}
		time.Sleep(2 * time.Second)
		b.worker(mux, consumer.WithGrace(time.Second))
		time.Sleep(10 * time.Second) // one partition has moved, and its tasks have run again
		require.Greater(t, len(got.list()), 20)
		dead.Remove()
		time.Sleep(20 * time.Second)
		require.Len(t, c.Records(t, b.r.Dead()), 20, "one death each")
		b.requireCommitted("normal", 20)
		require.NoError(t, first.stop())
	})
}
