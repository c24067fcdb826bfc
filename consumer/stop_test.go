package consumer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

func TestAStopLetsRunningTasksFinishAndCommitsThem(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, t *ax.Task) error {
			got.add(t)
			time.Sleep(10 * time.Second)
			return nil
		})
		w := b.worker(mux, consumer.WithSlots(5))
		for range 20 {
			b.submit(ax.Task{Kind: "job"})
		}
		time.Sleep(5 * time.Second)
		began := time.Now()
		require.NoError(t, w.stop())
		require.Less(t, time.Since(began), 6*time.Second)
		first := got.list()
		require.Len(t, first, 4)
		b.worker(mux, consumer.WithSlots(20))
		time.Sleep(30 * time.Second)
		seen := map[string]int{}
		for _, s := range got.list() {
			seen[s.ID]++
		}
		require.Len(t, seen, 20)
		for id, n := range seen {
			require.Equal(t, 1, n, "task %s ran again after a clean stop", id)
		}
	})
}

// A deploy must not spend the attempt of what it interrupts.
func TestAStopInterruptsWhatOutlivesTheGraceWithoutSpendingAnAttempt(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		causes := make(chan error, 10)
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(ctx context.Context, t *ax.Task) error {
			got.add(t)
			if len(got.list()) <= 5 {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return ctx.Err()
			}
			return nil
		})
		b.submit(ax.Task{Kind: "job"}, producer.Attempts(1), producer.Timeout(time.Hour))
		for range 5 {
			w := b.worker(mux, consumer.WithGrace(3*time.Second))
			time.Sleep(2 * time.Second)
			began := time.Now()
			require.NoError(t, w.stop())
			require.InDelta(t, 3, time.Since(began).Seconds(), 0.5)
			require.ErrorIs(t, <-causes, ax.ErrShutdown)
		}
		b.worker(mux)
		time.Sleep(2 * time.Second)
		list := got.list()
		require.Len(t, list, 6)
		for _, s := range list {
			require.Equal(t, 1, s.Attempt)
		}
		require.Empty(t, c.Records(t, b.r.Dead()))
	})
}

func TestAHandlerThatIgnoresItsContextIsReportedAndDoesNotHoldUpTheStop(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		release := make(chan struct{})
		mux := consumer.NewMux()
		mux.HandleFunc("deaf", func(context.Context, *ax.Task) error { <-release; return nil })
		w, err := consumer.New(b.domain, mux, consumer.WithKafka(c.Opts()...), consumer.WithGrace(time.Second))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		b.submit(ax.Task{Kind: "deaf"})
		time.Sleep(2 * time.Second)
		began := time.Now()
		cancel()
		require.ErrorContains(t, <-done, "1 handlers did not return")
		require.Less(t, time.Since(began), 20*time.Second)
		close(release)
		require.ErrorIs(t, w.Run(t.Context()), ax.ErrClosed)
	})
}

// Tasks that finish out of order: what failed below them must come back.
func TestTheCommitNeverPassesAnUnfinishedTask(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "normal", Weight: 1, Partitions: 1}}})
		hang := true
		var mu sync.Mutex
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(ctx context.Context, t *ax.Task) error {
			got.add(t)
			mu.Lock()
			stuck := hang && string(t.Payload) == "5"
			mu.Unlock()
			if stuck {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		for i := range 20 {
			b.submit(ax.Task{Kind: "job", Payload: fmt.Append(nil, i)}, producer.Timeout(time.Hour))
		}
		w := b.worker(mux, consumer.WithGrace(time.Second))
		time.Sleep(5 * time.Second)
		require.Len(t, got.list(), 20)
		b.requireCommitted("normal", 5)
		require.NoError(t, w.stop())
		b.requireCommitted("normal", 5)
		mu.Lock()
		hang = false
		mu.Unlock()
		b.worker(mux)
		time.Sleep(5 * time.Second)
		b.requireCommitted("normal", 20)
		require.Equal(t, "5", string(got.list()[20].Payload))
	})
}

// Members come and go; every task runs, and at clean stops none runs twice.
func TestWorkersAndMoversThatComeAndGoLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		var mu sync.Mutex
		seen := map[string]int{}
		early := 0
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, t *ax.Task) error {
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if time.Now().Before(t.Due) {
				early++
			}
			seen[t.ID]++
			return nil
		})
		workers := []*running{b.worker(mux, consumer.WithSlots(8))}
		movers := []*running{b.mover()}
		const n = 600
		for i := range n {
			b.submit(ax.Task{Kind: "job", Lane: []string{"critical", "high", "normal", "low"}[i%4]},
				producer.After(time.Duration(i%5)*3*time.Second))
			time.Sleep(30 * time.Millisecond)
			switch i {
			case 50, 350:
				workers = append(workers, b.worker(mux, consumer.WithSlots(8)))
			case 150, 450:
				movers = append(movers, b.mover())
			case 250, 500:
				require.NoError(t, workers[0].stop())
				workers = workers[1:]
			case 300, 550:
				require.NoError(t, movers[0].stop())
				movers = movers[1:]
			}
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, seen, n)
		require.Zero(t, early)
		twice := 0
		for _, k := range seen {
			if k > 1 {
				twice++
			}
		}
		require.Zero(t, twice, "repeats at clean stops and rebalances")
	})
}

func TestClosingAMoverReleasesNothingEarly(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", got.handler(nil))
		b.worker(mux)
		due := map[string]time.Time{}
		for _, d := range []time.Duration{3 * time.Second, 10 * time.Second, 40 * time.Second} {
			r := b.submit(ax.Task{Kind: "job"}, producer.After(d))
			due[r.ID] = r.Due
		}
		for range 12 {
			m := b.mover(delay.WithCommitEvery(50 * time.Millisecond))
			time.Sleep(5 * time.Second)
			require.NoError(t, m.stop())
		}
		list := got.list()
		require.Len(t, list, 3)
		for _, s := range list {
			require.False(t, s.at.Before(due[s.ID]))
			require.Less(t, s.at.Sub(due[s.ID]), time.Second)
		}
	})
}
