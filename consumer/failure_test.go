package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fakekafka"
)

func TestATimeoutIsDeadAtOnceWhereItsKindSaysSo(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {Timeout: time.Second, OnTimeout: ax.Dead}}})
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(ctx context.Context, t *ax.Task) error {
			got.add(t)
			if string(t.Payload) == "fails" {
				return errors.New("no timeout: it is tried again")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		b.worker(mux)
		b.submit(ax.Task{Kind: "job", ID: "slow"})
		b.submit(ax.Task{Kind: "job", ID: "failing", Payload: []byte("fails")})
		time.Sleep(30 * time.Second)
		dead := c.Records(t, b.r.Dead())
		require.Len(t, dead, 1)
		require.Equal(t, "slow", header(dead[0], ax.HeaderID))
		require.Equal(t, string(ax.ReasonTimeout), header(dead[0], ax.HeaderDeadReason))
		require.Equal(t, "1", header(dead[0], ax.HeaderDeadAttempt))
	})
}

// What a stop interrupts runs again under the same attempt, is dead, or is
// dropped, as its kind says.
func TestWhatAStopInterruptsGoesWhereItsKindSays(t *testing.T) {
	t.Parallel()
	for policy, want := range map[ax.Then]struct {
		again int
		dead  int
	}{"": {1, 0}, ax.Requeue: {1, 0}, ax.Dead: {0, 1}, ax.Drop: {0, 0}} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {Timeout: time.Hour, OnInterrupt: policy}}})
				var first, second starts
				mux := func(got *starts) *consumer.Mux {
					m := consumer.NewMux()
					m.HandleFunc("job", func(ctx context.Context, t *ax.Task) error {
						got.add(t)
						select {
						case <-ctx.Done():
							return ctx.Err()
						case <-time.After(10 * time.Minute):
							return nil
						}
					})
					return m
				}
				w := b.worker(mux(&first), consumer.WithGrace(5*time.Second))
				b.submit(ax.Task{Kind: "job"})
				time.Sleep(5 * time.Second)
				require.NoError(t, w.stop())
				w = b.worker(mux(&second), consumer.WithGrace(5*time.Second))
				time.Sleep(time.Minute)
				require.Len(t, first.list(), 1)
				require.Len(t, second.list(), want.again)
				for _, s := range second.list() {
					require.Equal(t, 1, s.Attempt)
				}
				dead := c.Records(t, b.r.Dead())
				require.Len(t, dead, want.dead)
				for _, d := range dead {
					require.Equal(t, string(ax.ReasonInterrupted), header(d, ax.HeaderDeadReason))
				}
				time.Sleep(10 * time.Minute)
				require.NoError(t, w.stop())
			})
		})
	}
}

// A handler that returns at the instant of its deadline, or a few milliseconds
// before or after it, has either succeeded or failed, and never both.
func TestARunThatEndsAtItsDeadlineIsSettledOnce(t *testing.T) {
	t.Parallel()
	const tasks = 10_000
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {Timeout: time.Second, Attempts: 2, Backoff: ax.Backoff{Delays: []time.Duration{time.Minute}}}}})
		var mu sync.Mutex
		runs, succeeded, all := map[string]int{}, map[string]int{}, 0
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(ctx context.Context, task *ax.Task) error {
			mu.Lock()
			runs[task.ID]++
			all++
			n := all
			mu.Unlock()
			time.Sleep(time.Second + time.Duration(n%11-5)*time.Millisecond)
			err := ctx.Err()
			if n%3 == 0 {
				err = nil // it does not look, or has done its work already
			}
			if err == nil {
				mu.Lock()
				succeeded[task.ID]++
				mu.Unlock()
			}
			return err
		})
		b.worker(mux, consumer.WithSlots(500), consumer.WithBreaker(0, time.Second), consumer.WithLogger(nil))
		b.mover()
		b.flood("job", tasks)
		time.Sleep(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, runs, tasks)
		failed := 0
		for id, n := range runs {
			if succeeded[id] > 0 {
				require.Equal(t, 1, succeeded[id])
			} else {
				require.Equal(t, 2, n)
				failed++
			}
			require.LessOrEqual(t, n, 2)
		}
		require.Len(t, c.Records(t, b.r.Dead()), failed, "each ends in one place")
		require.Greater(t, failed, 100)
		require.Greater(t, len(succeeded), 100)
	})
}

// Ten thousand tasks fail together, as when what they need goes away for a
// moment. They come back at the rate of their budget, each within its attempts, and
// another kind does not notice.
func TestManyThatFailTogetherComeBackWithinTheirBudget(t *testing.T) {
	t.Parallel()
	const tasks, perSecond = 10_000, 50
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {
			Backoff: ax.Backoff{Base: time.Second, Max: 2 * time.Second}, RetryBudget: ax.RetryBudget{PerSecond: perSecond, Ratio: -1},
		}}})
		var mu sync.Mutex
		began := time.Now()
		perS, most := map[int]int{}, time.Duration(0)
		retries, others := 0, 0
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, task *ax.Task) error {
			if task.Attempt == 1 {
				return errors.New("away")
			}
			mu.Lock()
			defer mu.Unlock()
			retries++
			perS[int(time.Since(began).Seconds())]++
			return nil
		})
		mux.HandleFunc("other", func(_ context.Context, task *ax.Task) error {
			mu.Lock()
			defer mu.Unlock()
			others++
			most = max(most, time.Since(task.Submitted))
			return nil
		})
		b.flood("job", tasks)
		w := b.start(mux, consumer.WithSlots(16), consumer.WithBreaker(0, time.Second), consumer.WithLogger(nil))
		b.mover()
		for range 240 {
			time.Sleep(time.Second)
			b.submit(ax.Task{Kind: "other"})
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, tasks, retries)
		for second, n := range perS {
			require.LessOrEqual(t, n, 2*perSecond, "in second %d", second)
		}
		require.Equal(t, 240, others)
		require.Less(t, most, 500*time.Millisecond)
		for _, k := range w.Status().Kinds {
			if k.Kind == "job" {
				require.Greater(t, k.OverBudget, int64(tasks-perSecond*20))
				require.Empty(t, k.Breaker)
			}
		}
	})
}

// What succeeds pays for retries; and what asks for an exact wait gets it, whatever
// the budget.
func TestSuccessesPayForRetriesAndExactWaitsAreExact(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		budget := ax.RetryBudget{PerSecond: 1, Ratio: 1}
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{
			"job": {RetryBudget: budget}, "exact": {RetryBudget: budget, Backoff: ax.Backoff{Delays: []time.Duration{10 * time.Second}}},
		}})
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, t *ax.Task) error {
			if t.Attempt == 1 && string(t.Payload) == "fails" {
				return errors.New("away")
			}
			return nil
		})
		mux.HandleFunc("exact", func(_ context.Context, t *ax.Task) error {
			if t.Attempt == 1 {
				return errors.New("away")
			}
			got.add(t)
			return nil
		})
		w := b.start(mux, consumer.WithLogger(nil), consumer.WithBreaker(0, time.Second))
		b.mover()
		over := func(kind string) int64 {
			for _, k := range w.Status().Kinds {
				if k.Kind == kind {
					return k.OverBudget
				}
			}
			return -1
		}
		time.Sleep(5 * time.Second)
		for range 30 {
			b.submit(ax.Task{Kind: "job", Payload: []byte("fails")})
		}
		time.Sleep(10 * time.Millisecond)
		require.EqualValues(t, 29, over("job"))
		b.flood("job", 60)
		time.Sleep(10 * time.Millisecond)
		b.submit(ax.Task{Kind: "job", Payload: []byte("fails")})
		time.Sleep(10 * time.Millisecond)
		require.EqualValues(t, 29, over("job"), "it is paid for")

		began := time.Now()
		b.flood("exact", 100)
		time.Sleep(time.Minute)
		require.Len(t, got.list(), 100)
		for _, s := range got.list() {
			require.WithinDuration(t, began.Add(10*time.Second), s.at, 50*time.Millisecond)
		}
		require.Zero(t, over("exact"))
	})
}

// A record that was dead before, and fails again, doesn't carry both deaths; a
// hundred retries leave the headers as long as the first.
func TestHeadersStayAsLongHoweverOftenATaskComesBack(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {Attempts: 100, Backoff: ax.Backoff{Delays: []time.Duration{time.Second}}}}})
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(context.Context, *ax.Task) error { return errors.New("again") })
		b.worker(mux, consumer.WithBreaker(0, time.Second), consumer.WithLogger(nil))
		b.mover()
		b.submit(ax.Task{Kind: "job", Headers: []ax.Header{{Name: "mine", Value: []byte("v")}}})
		time.Sleep(5 * time.Minute)
		records := c.Records(t, b.r.Lane("normal"))
		require.Len(t, records, 100)
		size := func(r *kgo.Record) (n int) {
			names := map[string]int{}
			for _, h := range r.Headers {
				n += len(h.Key) + len(h.Value)
				if names[h.Key]++; names[h.Key] > 1 {
					t.Errorf("header %s is there twice", h.Key)
				}
			}
			return n
		}
		least, most := 1<<20, 0
		for _, r := range records {
			if header(r, ax.HeaderAttempt) != "" { // it came back
				least, most = min(least, size(r)), max(most, size(r))
			}
		}
		require.LessOrEqual(t, most-least, 4, "the digits of the attempt and of the instant")
		require.Len(t, c.Records(t, b.r.Dead()), 1)
	})
}

// An operator holds a kind's breaker open, for as long as what it needs is
// repaired, or closed, and lets it go again.
func TestAnOperatorHoldsABreakerOpenAndClosed(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{0, 2} {
		t.Run(fmt.Sprint("opens after ", failures), func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) { holdBreaker(t, c, failures) })
		})
	}
}

func holdBreaker(t *testing.T, c *fakekafka.Cluster, failures int) {
	b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {Attempts: 3, Backoff: ax.Backoff{Delays: []time.Duration{time.Second}}}}})
	var got starts
	var away atomic.Bool
	mux := consumer.NewMux()
	mux.HandleFunc("job", func(_ context.Context, t *ax.Task) error {
		got.add(t)
		if away.Load() {
			return errors.New("the ledger is away")
		}
		return nil
	})
	mux.HandleFunc("other", func(context.Context, *ax.Task) error { return nil })
	w := b.start(mux, consumer.WithLogger(nil), consumer.WithBreaker(failures, 10*time.Second))
	b.mover()
	status := func() consumer.KindStatus { return w.Status().Kinds[0] }
	hold := func(h consumer.Hold) {
		b.change(w, func(s *consumer.Settings) { s.Kind("job").Breaker = h })
	}
	time.Sleep(5 * time.Second)
	hold(consumer.HoldOpen)
	require.Equal(t, "held open", status().Breaker)
	b.flood("job", 5)
	time.Sleep(time.Minute)
	require.Empty(t, got.list(), "nothing starts")
	hold(consumer.Auto)
	time.Sleep(time.Minute)
	require.Len(t, got.list(), 5)
	for _, s := range got.list() {
		require.Equal(t, 1, s.Attempt, "no attempt was spent")
		require.Equal(t, 3, s.Limit)
	}

	hold(consumer.HoldClosed)
	away.Store(true)
	b.flood("job", 5)
	time.Sleep(time.Minute)
	require.Len(t, got.list(), 5+15, "each runs as often as it may, however much fails")
	require.Equal(t, "held closed", status().Breaker)
	require.Len(t, c.Records(t, b.r.Dead()), 5)
	hold(consumer.Auto)
	if failures == 0 {
		require.Empty(t, status().Breaker)
		return
	}
	require.Equal(t, "the ledger is away", status().LastFailure)
	require.Contains(t, []string{"open", "half-open"}, status().Breaker, "it has counted")
	away.Store(false)
	b.flood("job", 5)
	time.Sleep(2 * time.Minute)
	require.Len(t, got.list(), 25)
	require.Equal(t, "closed", status().Breaker)
	require.Zero(t, status().Failures)
}
