package producer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func orders() ax.Domain {
	return ax.Domain{
		Name:  "orders",
		Kinds: map[string]ax.Kind{"order.close": {Lane: "high"}, "brief": {Expires: time.Minute}},
		Delay: ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Hour}},
	}
}

// open provisions the domain and returns a client of it, which is closed at
// the test's end.
func open(t *testing.T, c *fakekafka.Cluster, d ax.Domain, opts ...producer.Option) (*producer.Client, *router.Router) {
	t.Helper()
	r := c.Provision(t, d)
	return client(t, r.Domain(), append([]producer.Option{producer.WithKafka(c.Opts()...)}, opts...)...), r
}

func client(t *testing.T, d ax.Domain, opts ...producer.Option) *producer.Client {
	t.Helper()
	cl, err := producer.New(d, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = cl.Close(ctx)
	})
	return cl
}

// mute makes the brokers take produce requests and not answer them, until it
// is set to false.
func mute(c *fakekafka.Cluster) *atomic.Bool {
	var silent atomic.Bool
	silent.Store(true)
	c.Kfake().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		return nil, nil, silent.Load()
	})
	return &silent
}

func decode(t *testing.T, r *kgo.Record) *ax.Task {
	t.Helper()
	task, err := ax.Decode(r, [16]byte{})
	require.NoError(t, err)
	return task
}

// total returns how many records all topics of the domain hold.
func total(t *testing.T, c *fakekafka.Cluster, r *router.Router) (n int) {
	t.Helper()
	for _, topic := range r.Topics() {
		n += len(c.Records(t, topic))
	}
	return n
}

func requireTaskError(t *testing.T, err error) *ax.TaskError {
	t.Helper()
	var task *ax.TaskError
	require.ErrorAs(t, err, &task)
	require.Equal(t, "submit", task.Op)
	require.NotContains(t, err.Error(), "\n", "an error is one line of a log")
	return task
}
