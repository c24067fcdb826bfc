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
	"github.com/axtasks/ax/internal/fakekafka"
)

// Hand-back stops at once and returns what was read and not finished; together
// with what was done that is all, and another worker runs exactly the rest.
func TestHandBackReturnsWhatNeverStartedAndWhatWasInterrupted(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 1, Partitions: 2, Order: ax.OrderKey}}})
		var got starts
		var mu sync.Mutex
		done := map[string]bool{}
		end := func(task *ax.Task) {
			mu.Lock()
			done[task.ID] = true
			mu.Unlock()
		}
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(ctx context.Context, task *ax.Task) error {
			got.add(task)
			select {
			case <-time.After(time.Minute):
				end(task)
				return nil
			case <-ctx.Done():
				require.ErrorIs(t, context.Cause(ctx), ax.ErrShutdown)
				return ctx.Err()
			}
		})
		mux.HandleFunc("quick", func(_ context.Context, task *ax.Task) error { end(task); return nil })
		for i := range 10 {
			b.submit(ax.Task{ID: fmt.Sprintf("quick-%d", i), Kind: "quick"})
		}
		w := newWorker(b, mux, consumer.WithSlots(3), consumer.WithGrace(time.Hour))
		r := run(t, w.Run)
		time.Sleep(time.Second)
		for i := range 10 {
			b.submit(ax.Task{ID: fmt.Sprintf("job-%d", i), Kind: "job", Key: "k", Payload: []byte{byte(i)}, Timeout: time.Hour})
			b.submit(ax.Task{ID: fmt.Sprintf("free-%d", i), Kind: "job", Timeout: time.Hour, Due: time.Now().Add(time.Duration(i%2) * 200 * time.Millisecond)})
		}
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		tasks, err := w.HandBack(t.Context())
		require.NoError(t, err)
		require.Less(t, time.Since(began), 5*time.Second)
		require.NoError(t, r.stop(), "Run returns nil for a stop that was asked for")
		ids := map[string]bool{}
		mu.Lock()
		for _, task := range tasks {
			require.False(t, ids[task.ID], "twice")
			require.False(t, done[task.ID])
			ids[task.ID] = true
		}
		mu.Unlock()
		require.Len(t, ids, 20-countDelayed(b))
		require.Equal(t, []byte{7}, tasks[indexOf(tasks, "job-7")].Payload)

		again, err := w.HandBack(t.Context())
		require.NoError(t, err)
		require.Equal(t, tasks, again)
		require.NoError(t, w.Shutdown(t.Context()))
		require.ErrorIs(t, w.Run(t.Context()), ax.ErrClosed)

		b.mover()
		run(t, newWorker(b, mux, consumer.WithSlots(30)).Run)
		time.Sleep(15 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, done, 30)
		for _, s := range got.list() {
			require.Equal(t, 1, s.Attempt, "an interrupted task has spent an attempt")
		}
	})
}

// countDelayed returns how many tasks wait in the near tier, unread by workers.
func countDelayed(b *bench) int { return len(b.c.Records(b.t, b.r.Near())) }

func indexOf(tasks []ax.Task, id string) int {
	for i := range tasks {
		if tasks[i].ID == id {
			return i
		}
	}
	return -1
}

func TestShutdownDrainsWithinItsDeadlineAndMayBeCalledAgain(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(ctx context.Context, _ *ax.Task) error {
			select {
			case <-time.After(10 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		w := newWorker(b, mux, consumer.WithGrace(time.Hour))
		r := run(t, w.Run)
		at := b.submit(ax.Task{Kind: "job", Timeout: time.Hour})
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(t, w.Shutdown(t.Context()))
		require.InDelta(t, 9, time.Since(began).Seconds(), 1, "it waits for what runs")
		require.NoError(t, w.Shutdown(t.Context()))
		require.NoError(t, r.stop())
		require.Equal(t, at.Offset+1, committedAt(b, b.domain.DefaultLane, at.Partition))

		// A deadline that is shorter than the work interrupts it.
		w = newWorker(b, mux, consumer.WithGrace(time.Hour))
		r = run(t, w.Run)
		b.submit(ax.Task{Kind: "job", Timeout: time.Hour})
		time.Sleep(time.Second)
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		require.NoError(t, w.Shutdown(ctx))
		require.InDelta(t, 2, time.Since(began).Seconds(), 1)
		require.NoError(t, r.stop())

		// One that never ran never will, and nothing is wrong with that.
		w = newWorker(b, mux)
		require.NoError(t, w.Shutdown(t.Context()))
		tasks, err := w.HandBack(t.Context())
		require.NoError(t, err)
		require.Empty(t, tasks)
		require.ErrorIs(t, w.Run(t.Context()), ax.ErrClosed)
	})
}
