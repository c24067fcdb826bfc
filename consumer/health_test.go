package consumer_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/idempotency"
	"github.com/axtasks/ax/internal/fakekafka"
)

// within returns how long it takes until check holds, at most a minute and a
// half.
func within(check func() bool) time.Duration {
	began := time.Now()
	for !check() && time.Since(began) < 90*time.Second {
		time.Sleep(time.Second)
	}
	return time.Since(began)
}

func newWorker(b *bench, mux *consumer.Mux, opts ...consumer.Option) *consumer.Worker {
	b.t.Helper()
	w, err := consumer.New(b.domain, mux, append([]consumer.Option{consumer.WithKafka(b.c.Opts()...), consumer.WithLogger(testLog(b.t))}, opts...)...)
	require.NoError(b.t, err)
	return w
}

func TestHealthFollowsTheWorkersLife(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		release := make(chan struct{})
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(context.Context, *ax.Task) error { <-release; return nil })
		w := newWorker(b, mux, consumer.WithSlots(2))
		require.ErrorIs(t, w.Ready(), ax.ErrNotRunning)
		require.ErrorIs(t, w.Healthy(), ax.ErrNotRunning)
		r := run(t, w.Run)
		require.Less(t, within(func() bool { return w.Ready() == nil }), 5*time.Second)
		for range 10 {
			b.submit(ax.Task{Kind: "job", Timeout: time.Hour})
		}
		// All slots busy for long is no fault.
		time.Sleep(5 * time.Minute)
		require.NoError(t, w.Healthy())
		require.NoError(t, w.Ready())
		s := w.Status()
		require.Equal(t, 1, s.Busy) // the reserve of the critical lane is kept
		rec := httptest.NewRecorder()
		consumer.HealthHandler(w.Ready).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		require.Equal(t, http.StatusOK, rec.Code)
		close(release)
		require.NoError(t, r.stop())
		require.ErrorIs(t, w.Ready(), ax.ErrNotRunning)
		rec = httptest.NewRecorder()
		consumer.HealthHandler(w.Ready).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		require.Equal(t, http.StatusServiceUnavailable, rec.Code)
	})
}

// What stands still shows within a bound, with the reason, and goes away by
// itself.
func TestAStallShowsWithinABoundAndSaysWhy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault kfake.Fault
		says  string
	}{
		"commits fail":     {kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed}, "commits fail"},
		"records not read": {kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed}, "owned and not read, though"},
		"dead unwritable":  {kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders.dead", Err: kerr.TopicAuthorizationFailed}, "topic orders.dead: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Domain{})
				mux := consumer.NewMux()
				mux.HandleFunc("job", func(context.Context, *ax.Task) error { return nil })
				mux.HandleFunc("bad", func(context.Context, *ax.Task) error { return ax.Permanent(errors.New("no")) })
				w := newWorker(b, mux)
				run(t, w.Run)
				within(func() bool { return w.Ready() == nil })
				test.fault.Count = -1
				fault := c.Kfake().Fault(test.fault)
				for range 20 {
					b.submit(ax.Task{Kind: "job"})
					b.submit(ax.Task{Kind: "bad"})
				}
				time.Sleep(20 * time.Second)
				require.NoError(t, w.Healthy(), "too soon")
				require.Less(t, within(func() bool { return w.Healthy() != nil }), 40*time.Second)
				err := w.Healthy()
				require.ErrorIs(t, err, ax.ErrStalled)
				require.ErrorContains(t, err, test.says)
				require.ErrorIs(t, w.Ready(), ax.ErrStalled)
				fault.Remove()
				require.Less(t, within(func() bool { return w.Healthy() == nil }), 30*time.Second)
			})
		})
	}
}

// failing is a store that fails on demand.
type failing struct {
	idempotency.Store
	fails atomic.Bool
}

func (f *failing) Claim(ctx context.Context, key string, lease time.Duration) (idempotency.Claim, error) {
	if f.fails.Load() {
		return idempotency.Claim{}, errors.New("no connection")
	}
	return f.Store.Claim(ctx, key, lease)
}

func TestAStoreThatFailsShowsInHealth(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(context.Context, *ax.Task) error { return nil })
		store := &failing{Store: idempotency.NewMemory()}
		store.fails.Store(true)
		w := newWorker(b, mux, consumer.WithStore(store))
		run(t, w.Run)
		b.submit(ax.Task{Kind: "job"})
		time.Sleep(40 * time.Second)
		require.ErrorContains(t, w.Healthy(), "no connection")
		store.fails.Store(false)
		time.Sleep(2 * time.Second)
		require.NoError(t, w.Healthy())
	})
}

// A lane that has no room isn't read, and that is no stall, however long the
// tasks run that fill it.
func TestAWorkerThatIsFullIsHealthy(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		release := make(chan struct{})
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(context.Context, *ax.Task) error { <-release; return nil })
		w := newWorker(b, mux, consumer.WithSlots(2), consumer.WithBuffer(10, 1<<20), consumer.WithKafka(smallFetches()...))
		run(t, w.Run)
		for range 90 {
			b.submit(ax.Task{Kind: "job", Timeout: time.Hour})
		}
		for range 60 {
			time.Sleep(5 * time.Second)
			require.NoError(t, w.Healthy())
		}
		close(release)
		time.Sleep(time.Minute)
		require.NoError(t, w.Healthy())
	})
}
