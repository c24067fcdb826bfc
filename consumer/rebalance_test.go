package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fakekafka"
)

// A worker has read a partition whole and starts nothing of it before it gives
// it up: the next one runs all of it.
func TestWhatWasReadAndNotStartedIsAllTheNextOwners(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 1, Partitions: 2}}})
		var got starts
		hold := make(chan struct{})
		mux := consumer.NewMux()
		mux.HandleFunc("block", func(ctx context.Context, _ *ax.Task) error {
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		mux.HandleFunc("job", func(_ context.Context, task *ax.Task) error { got.add(task); return nil })
		keys := twoPartitions(b, "main")
		b.submit(ax.Task{Kind: "block", Key: keys[0], Timeout: time.Hour})
		w := newWorker(b, mux, consumer.WithSlots(1))
		run(t, w.Run)
		time.Sleep(time.Second)
		for i := range 100 {
			b.submit(ax.Task{ID: fmt.Sprintf("job-%d", i), Kind: "job", Key: keys[i%2]})
		}
		time.Sleep(time.Second)
		require.Greater(t, consumer.Buffered(w), 90)
		require.Empty(t, got.list())
		run(t, newWorker(b, mux, consumer.WithSlots(4)).Run) // it gets one of the two partitions
		time.Sleep(20 * time.Second)
		close(hold)
		time.Sleep(20 * time.Second)
		seen := map[string]int{}
		for _, s := range got.list() {
			seen[s.ID]++
		}
		require.Len(t, seen, 100)
		for id, n := range seen {
			require.Equal(t, 1, n, id)
		}
	})
}

// A breaker opens at one task, the partition moves, and the breaker closes: no
// commit may have passed the task before it was handled.
func TestATaskBehindAnOpenBreakerIsNotPassedByACommitWhenItsPartitionMoves(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]ax.Order{"it waits in place": ax.OrderKey, "it waits in a tier": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 1, Partitions: 2, Order: order}}})
				var mu sync.Mutex
				down, handled := true, map[string]int{}
				mux := consumer.NewMux()
				mux.HandleFunc("calls", func(_ context.Context, task *ax.Task) error {
					mu.Lock()
					defer mu.Unlock()
					if down {
						return ax.RetryAfter(time.Second, errors.New("connection refused"))
					}
					handled[task.ID]++
					return nil
				})
				b.mover()
				opts := []consumer.Option{consumer.WithBreaker(3, 5*time.Second)}
				first := begin(t, newWorker(b, mux, opts...).Run)
				for i := range 20 {
					b.submit(ax.Task{ID: fmt.Sprintf("call-%d", i), Kind: "calls", Key: fmt.Sprintf("k-%d", i%7), MaxAttempts: 50})
				}
				time.Sleep(8 * time.Second)
				run(t, newWorker(b, mux, opts...).Run)
				time.Sleep(5 * time.Second)
				require.NoError(t, first.stop())
				time.Sleep(5 * time.Second)
				mu.Lock()
				require.Empty(t, handled)
				down = false
				mu.Unlock()
				time.Sleep(2 * time.Minute)
				mu.Lock()
				defer mu.Unlock()
				require.Len(t, handled, 20)
				for id, n := range handled {
					require.Equal(t, 1, n, id)
				}
			})
		})
	}
}
