//go:build synctests

package delay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/fakekafka"
)

// A wall clock that jumps ahead makes due what it passes, within the time after
// which each timer looks; one that jumps back makes tasks wait for it again.
// Nothing is early by it, nothing stands still and nothing goes round. It can't
// run beside other tests: all of this process have the same clock.
func TestAWallClockThatJumpsMakesNothingEarlyStuckOrCircle(t *testing.T) {
	for name, jumps := range map[string][]time.Duration{
		"ahead":          {time.Hour},
		"back":           {-10 * time.Minute},
		"ahead and back": {5 * time.Minute, 0},
		"back and ahead": {-5 * time.Minute, 0},
		"to and fro":     {time.Hour, -time.Hour, 90 * time.Second, -2 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			defer clock.Shift(0)
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}})
				b.mover()
				got := b.worker()
				time.Sleep(2 * time.Second)
				began := time.Now()
				var all []*ax.Task
				for i := range 30 {
					wait := time.Duration(i+1) * 11 * time.Second
					task := tasks(fmt.Sprint("t", i), 1, "low", always(began.Add(wait)))[0]
					b.put(b.r.Next(task, began, began), 0, task)
					all = append(all, task)
				}
				time.Sleep(20 * time.Second)
				left := map[string]*ax.Task{}
				for _, task := range all {
					left[task.ID] = task
				}
				started := func() {
					for len(got.starts) > 0 {
						task := <-got.starts
						require.Contains(t, left, task.ID, "it ran twice")
						delete(left, task.ID)
					}
				}
				for _, to := range jumps {
					clock.Shift(to)
					// A far hop, the near tier and the worker's gate look one
					// after the other.
					time.Sleep(3*clock.Longest + time.Second)
					started()
					for id, task := range left {
						require.Greater(t, task.Due.Sub(clock.Now()), -3*clock.Longest, "task %s is overdue", id)
					}
				}
				time.Sleep(max(-jumps[len(jumps)-1], 0) + 6*time.Minute)
				started()
				require.Empty(t, left)
				var writes int64
				for _, topic := range b.r.Topics() {
					writes += b.count(topic)
				}
				// Each jump may send on what waits once more, into whatever
				// tiers its wait takes then.
				require.Less(t, writes, int64(len(all)*(8+4*len(jumps))), "tasks go round")
			})
		})
	}
}
