package consumer_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

// bench is a domain on a fake Kafka with all roles at hand.
type bench struct {
	t      *testing.T
	c      *fakekafka.Cluster
	r      *router.Router
	domain ax.Domain
	client *producer.Client
}

func newBench(t *testing.T, c *fakekafka.Cluster, d ax.Domain) *bench {
	t.Helper()
	if d.Name == "" {
		d.Name = "orders"
	}
	r := c.Provision(t, d)
	b := &bench{t: t, c: c, r: r, domain: r.Domain()}
	client, err := producer.New(b.domain, producer.WithKafka(c.Opts()...))
	require.NoError(t, err)
	b.client = client
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	return b
}

func (b *bench) submit(task ax.Task, opts ...producer.SubmitOption) ax.Receipt {
	b.t.Helper()
	r, err := b.client.Submit(context.Background(), task, opts...)
	require.NoError(b.t, err)
	return r
}

// running is a role that was started; stop ends it and returns what Run did.
type running struct {
	cancel context.CancelFunc
	done   chan error
	once   sync.Once
	err    error
}

func (r *running) stop() error {
	r.once.Do(func() {
		r.cancel()
		r.err = <-r.done
	})
	return r.err
}

func run(t *testing.T, f func(context.Context) error) *running {
	r := begin(t, f)
	t.Cleanup(func() { require.NoError(t, r.stop()) })
	return r
}

// begin is run for one that the test stops itself.
func begin(t *testing.T, f func(context.Context) error) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- f(ctx) }()
	t.Cleanup(func() { _ = r.stop() })
	return r
}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// patient makes hours of virtual time cheap: idle clients ask less often. It
// changes nothing that a task could see.
func patient() []kgo.Opt {
	return []kgo.Opt{kgo.DisableClientMetrics(), kgo.FetchMaxWait(time.Minute), kgo.SessionTimeout(5 * time.Minute), kgo.HeartbeatInterval(time.Minute), kgo.MetadataMaxAge(time.Hour)}
}

// smallFetches lets one poll return little.
func smallFetches() []kgo.Opt {
	return []kgo.Opt{kgo.FetchMaxBytes(64 << 10), kgo.FetchMaxPartitionBytes(64 << 10)}
}

func (b *bench) worker(mux *consumer.Mux, opts ...consumer.Option) *running {
	b.t.Helper()
	w, err := consumer.New(b.domain, mux, append([]consumer.Option{consumer.WithKafka(b.c.Opts()...), consumer.WithLogger(testLog(b.t))}, opts...)...)
	require.NoError(b.t, err)
	return run(b.t, w.Run)
}

func (b *bench) mover(opts ...delay.Option) *running {
	b.t.Helper()
	m, err := delay.New(b.domain, append([]delay.Option{delay.WithKafka(b.c.Opts()...), delay.WithLogger(testLog(b.t))}, opts...)...)
	require.NoError(b.t, err)
	return run(b.t, m.Run)
}

// start is one start of a handler.
type start struct {
	ax.Task
	at time.Time
}

// starts records the starts of handlers.
type starts struct {
	mu  sync.Mutex
	all []start
}

func (s *starts) add(t *ax.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, start{*t, time.Now()})
}

func (s *starts) list() []start {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]start(nil), s.all...)
}

func (s *starts) handler(result error) func(context.Context, *ax.Task) error {
	return func(_ context.Context, t *ax.Task) error {
		s.add(t)
		return result
	}
}

func TestATaskReachesItsHandlerAtOnceAndADelayedOneExactlyWhenDue(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("order.close", got.handler(nil))
		b.worker(mux, consumer.WithKafka(patient()...))
		b.mover(delay.WithKafka(patient()...))
		b.submit(ax.Task{Kind: "order.close", Payload: []byte("now")})
		due := map[string]time.Time{}
		for _, d := range []time.Duration{20 * time.Millisecond, time.Second, 5 * time.Second, 31 * time.Second, 3 * time.Minute, time.Hour, 6 * time.Hour} {
			r := b.submit(ax.Task{Kind: "order.close", Payload: []byte(d.String())}, producer.After(d))
			due[r.ID] = r.Due
		}
		time.Sleep(7 * time.Hour)
		list := got.list()
		require.Len(t, list, 8)
		for _, s := range list {
			if at, delayed := due[s.ID]; delayed {
				require.Equal(t, at.UTC(), s.at.UTC(), "%s", s.Payload)
			}
		}
		for _, topic := range b.r.Topics() {
			t.Log(topic, len(c.Records(t, topic)))
		}
	})
}

func TestAFailingTaskIsTriedUntilItsAttemptsAreSpentAndEndsDead(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"fail": {Attempts: 3}}})
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("fail", got.handler(errors.New("no")))
		b.worker(mux)
		b.mover()
		b.submit(ax.Task{Kind: "fail", Payload: []byte("x"), Key: "k"})
		time.Sleep(time.Minute)
		list := got.list()
		require.Len(t, list, 3)
		for i, s := range list {
			require.Equal(t, i+1, s.Attempt)
		}
		dead := c.Records(t, b.r.Dead())
		require.Len(t, dead, 1)
		task, err := ax.Decode(dead[0], [16]byte{})
		require.NoError(t, err)
		require.Equal(t, "x", string(task.Payload))
		require.Equal(t, 3, task.Attempt)
	})
}

// requireCommitted requires that the lane's group has committed n records in
// all.
func (b *bench) requireCommitted(lane string, n int64) {
	b.t.Helper()
	commits, err := b.c.Admin(b.t).FetchOffsets(context.Background(), b.r.LaneGroup(lane))
	require.NoError(b.t, err)
	sum := int64(0)
	commits.Each(func(o kadm.OffsetResponse) { sum += max(o.At, 0) })
	require.Equal(b.t, n, sum, "committed in lane %s", lane)
}
