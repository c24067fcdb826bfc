package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fakekafka"
)

func orderedLane(partitions int) ax.Domain {
	return ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 1, Partitions: partitions, Order: ax.OrderKey}}}
}

// A task that fails in place must not begin at its first attempt again because
// its worker was stopped, nor start before its wait is over.
func TestTheAttemptsOfATaskThatWaitsInPlaceSurviveItsWorker(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*running, *fakekafka.Process){
		"a clean stop": func(r *running, _ *fakekafka.Process) { _ = r.stop() },
		"a kill":       func(r *running, p *fakekafka.Process) { p.Kill(); _ = r.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, orderedLane(1))
				var got starts
				mux := consumer.NewMux()
				mux.HandleFunc("job", func(_ context.Context, task *ax.Task) error {
					got.add(task)
					if task.ID == "first" {
						return ax.RetryAfter(30*time.Second, errors.New("not yet"))
					}
					return nil
				})
				b.submit(ax.Task{ID: "first", Kind: "job", Key: "k", MaxAttempts: 5})
				b.submit(ax.Task{ID: "second", Kind: "job", Key: "k"})
				for range 12 {
					p := c.Process()
					w := newWorker(b, mux, consumer.WithKafka(p.Opts()...))
					r := begin(t, w.Run)
					time.Sleep(14 * time.Second)
					end(r, p)
				}
				run(t, newWorker(b, mux).Run)
				time.Sleep(5 * time.Minute)
				var attempts []int
				var last time.Time
				for _, s := range got.list() {
					if s.ID == "second" {
						require.Len(t, attempts, 5, "the key is held until its first task has ended")
						continue
					}
					attempts = append(attempts, s.Attempt)
					if !last.IsZero() {
						require.GreaterOrEqual(t, s.at.Sub(last), 30*time.Second, "attempt %d starts before its wait is over", s.Attempt)
					}
					last = s.at
				}
				require.Equal(t, []int{1, 2, 3, 4, 5}, attempts)
				require.Equal(t, "second", got.list()[5].ID)
				require.Len(t, c.Records(t, b.r.Dead()), 1)
			})
		})
	}
}

// One key that fails and has a long queue behind it must not slow down the
// others, in its own partition or in another.
func TestAKeyThatFailsHoldsUpNoOtherKey(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, orderedLane(2))
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, task *ax.Task) error {
			if task.Key == "bad" {
				return ax.RetryAfter(5*time.Minute, errors.New("not yet"))
			}
			got.add(task)
			return nil
		})
		w := newWorker(b, mux, consumer.WithKafka(smallFetches()...))
		run(t, w.Run)
		send := func(key string, n int) {
			tasks := make([]ax.Task, n)
			for i := range tasks {
				tasks[i] = ax.Task{Kind: "job", Key: key}
			}
			for _, r := range b.client.SubmitMany(t.Context(), tasks) {
				require.NoError(t, r.Err)
			}
		}
		send("bad", 300) // less than stops the partition
		time.Sleep(time.Second)
		var slowest time.Duration
		for i := range 100 {
			sent := time.Now()
			send(fmt.Sprintf("good-%d", i), 1)
			time.Sleep(100 * time.Millisecond)
			all := got.list()
			require.Len(t, all, i+1)
			slowest = max(slowest, all[i].at.Sub(sent))
		}
		require.Less(t, slowest, 50*time.Millisecond)

		// So many that their partition is not read on: the other one flows.
		for range 10 {
			send("bad", 500) // a batch comes whole, whatever the fetch's bound
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(20 * time.Second)
		require.Greater(t, w.Status().Lanes[0].Lag, int64(2000), "the partition is read on though all waits for one key")
		other := otherPartition(b, "bad")
		time.Sleep(time.Second)
		before := len(got.list())
		for range 50 {
			send(other, 1)
		}
		time.Sleep(time.Second)
		require.Len(t, got.list(), before+50)
	})
}

// otherPartition returns a key that is not in the partition of the key.
func otherPartition(b *bench, key string) string {
	at := b.submit(ax.Task{Kind: "job", Key: key})
	for i := 0; ; i++ {
		other := fmt.Sprintf("other-%d", i)
		if b.submit(ax.Task{Kind: "job", Key: other}).Partition != at.Partition {
			return other
		}
	}
}

// Per key, the first starts follow the log, whatever fails, moves and dies.
func TestPerKeyNewStartsFollowTheLogUnderFailuresRebalancesAndKills(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, orderedLane(4))
		var mu sync.Mutex
		firsts, ended := map[string][]int{}, map[string]int{}
		dice := rand.New(rand.NewPCG(3, 7))
		f := newFleet(b, 3, func(f *fleet, p *fakekafka.Process, m *consumer.Mux) {
			m.HandleFunc("job", func(ctx context.Context, task *ax.Task) error {
				n := int(task.Payload[0])<<8 | int(task.Payload[1])
				mu.Lock()
				if !slices.Contains(firsts[task.Key], n) {
					firsts[task.Key] = append(firsts[task.Key], n)
					if n != ended[task.Key] {
						t.Errorf("key %s: task %d starts while %d have ended", task.Key, n, ended[task.Key])
					}
				}
				mu.Unlock()
				if err := sleep(ctx, p, 50*time.Millisecond); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				if task.Attempt == 1 && dice.IntN(4) == 0 {
					return ax.RetryAfter(300*time.Millisecond, errors.New("not yet"))
				}
				ended[task.Key] = max(ended[task.Key], n+1)
				return nil
			})
		})
		const keys, each = 30, 150
		go func() {
			for n := range each {
				for k := range keys {
					b.submit(ax.Task{Kind: "job", Key: fmt.Sprintf("key-%d", k), Payload: []byte{byte(n >> 8), byte(n)}})
				}
				time.Sleep(400 * time.Millisecond)
			}
		}()
		for i := range 12 {
			time.Sleep(10 * time.Second)
			f.mu.Lock()
			p := f.procs[(i*2)%len(f.procs)]
			f.mu.Unlock()
			p.Kill()
		}
		time.Sleep(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, ended, keys)
		for key, n := range ended {
			require.Equal(t, each, n, key)
			require.True(t, slices.IsSorted(firsts[key]), "%s: %v", key, firsts[key])
			require.Len(t, firsts[key], each)
		}
	})
}
