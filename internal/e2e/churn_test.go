//go:build kafka

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
)

// Workers come and go all the time, each of them cleanly, while tasks come in:
// partitions move with each step. Every task is done, none of them twice, and
// no commit is below the one before it.
func TestWorkersThatComeAndGoUnderLoadDoEachTaskOnce(t *testing.T) {
	t.Parallel()
	load(t)
	for _, protocol := range []string{ax.Classic, ax.Consumer} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			churn(t, protocol)
		})
	}
}

func churn(t *testing.T, protocol string) {
	const places, length, batch = 3, 25 * time.Second, 40
	r := newDomain(t, func(d *ax.Domain) {
		d.Kafka.GroupProtocol = protocol
		d.Lanes = []ax.Lane{{Name: "main", Weight: 1, Partitions: 6}}
	})
	d := r.Domain()
	commits := watchCommits(t, admin(t), r.LaneGroup("main"))
	var got journal
	mux := consumer.NewMux()
	mux.HandleFunc("job", func(ctx context.Context, task *ax.Task) error {
		select {
		case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
		case <-ctx.Done():
		}
		return got.handle(ctx, task)
	})
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var lives int
	var mu sync.Mutex
	var group sync.WaitGroup
	for range places {
		group.Go(func() {
			for ctx.Err() == nil {
				life, end := context.WithTimeout(ctx, time.Duration(300+rand.IntN(2500))*time.Millisecond)
				if err := runWorker(life, d, mux); err != nil {
					t.Errorf("a worker that was stopped: %v", err)
				}
				end()
				mu.Lock()
				lives++
				mu.Unlock()
			}
		})
	}
	c := client(t, d)
	n := 0
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		submit(t, c, jobs(fmt.Sprintf("batch-%d", n), batch)...)
		n += batch
	}
	group.Wait()
	stop := work(t, func(ctx context.Context) error { return runWorker(ctx, d, mux) })
	eventually(t, time.Minute, func() (bool, string) {
		ran := len(got.list())
		return ran >= n, fmt.Sprintf("%d of %d tasks have run", ran, n)
	})
	stop()
	runs := map[string]int{}
	for _, s := range got.list() {
		runs[s.ID]++
	}
	require.Len(t, runs, n)
	eventually(t, 30*time.Second, func() (bool, string) { return total(commits) == int64(n), "the last commits have to be seen" })
	back := backwards(commits)
	t.Logf("%s: %d tasks, %d lives of workers, %d runs too many, %d commits", protocol, n, lives, len(got.list())-n, len(commits.list()))
	require.Empty(t, back, "commits that went backwards")
	require.Len(t, got.list(), n, "a task ran twice")
}

func runWorker(ctx context.Context, d ax.Domain, mux *consumer.Mux) error {
	w, err := consumer.New(d, mux)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// total returns the sum of the last commits.
func total(l *ledger) (sum int64) {
	last := map[int32]int64{}
	for _, c := range l.list() {
		sum += c.at - last[c.partition]
		last[c.partition] = c.at
	}
	return sum
}

// backwards returns the commits that are below the one before them.
func backwards(l *ledger) (back []commit) {
	last := map[int32]int64{}
	for _, c := range l.list() {
		if c.at < last[c.partition] {
			back = append(back, c)
		}
		last[c.partition] = c.at
	}
	return back
}
