package delay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
)

// copies returns how many records of each task are in the lanes.
func (b *bench) copies() map[string]int {
	out := map[string]int{}
	for _, a := range b.arrived() {
		out[a.ID]++
	}
	return out
}

// A mover that is killed after a publish and before its commit repeats what it
// had not committed, and loses nothing.
func TestAKilledMoverRepeatsOnlyWhatItHadNotCommitted(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, 30 * time.Second}})
		near, tier := b.r.Near(), b.r.Tiers()[1]
		began := time.Now()
		all := tasks("near", 100, "low", func(i int) time.Time { return began.Add(time.Duration(i+1) * 40 * time.Millisecond) })
		b.put(near, 0, all...)
		far := tasks("far", 100, "high", func(i int) time.Time { return began.Add(30*time.Second + time.Duration(i)*time.Millisecond) })
		b.put(tier.Topic, 0, leaving(began.Add(tier.Wait), far...)...)

		first := b.mover(delay.WithCommitEvery(100 * time.Millisecond))
		time.Sleep(2 * time.Second)
		// From here on nothing that it does is known to the group.
		unheard := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownServerError, Count: -1})
		committed := b.committed(near, 0)
		require.Greater(t, committed, int64(40))
		time.Sleep(time.Second)
		moved := len(b.arrived())
		_ = first.stop()
		unheard.Remove()
		require.Equal(t, committed, b.committed(near, 0))
		open := moved - int(committed)
		require.Greater(t, open, 20)

		b.mover()
		time.Sleep(2 * time.Minute)
		twice := 0
		copies := b.copies()
		for _, task := range slices.Concat(all, far) {
			require.Positive(t, copies[task.ID], task.ID)
			twice += copies[task.ID] - 1
		}
		require.InDelta(t, open, twice, 2, "copies beyond what was not committed")
		require.Equal(t, b.count(near), b.committed(near, 0))
		for _, f := range far {
			require.Equal(t, 1, copies[f.ID])
		}
	})
}

// The near tier finishes out of order: what stands above the lowest unfinished
// record travels in the commit's metadata, and is not moved again.
func TestARestartSkipsWhatIsFinishedAboveTheCommit(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		began := time.Now()
		last := tasks("last", 1, "low", always(began.Add(5*time.Second)))
		soon := tasks("soon", 500, "low", func(i int) time.Time { return began.Add(time.Second + time.Duration(i)*4*time.Millisecond) })
		b.put(b.r.Near(), 0, slices.Concat(last, soon)...)
		first := b.mover()
		time.Sleep(2 * time.Second)
		require.NoError(t, first.stop())
		n := len(b.arrived())
		require.Greater(t, n, 200)
		require.Less(t, n, 300)
		require.Zero(t, b.committed(b.r.Near(), 0))
		require.NotEmpty(t, c.Kfake().GroupInfo(b.r.NearGroup()).Commits[b.r.Near()][0].Metadata)
		b.mover()
		time.Sleep(10 * time.Second)
		b.requireOnTime(0, slices.Concat(last, soon)...)
		require.EqualValues(t, 501, b.committed(b.r.Near(), 0))
	})
}

// Movers come and go at random; at clean stops each task comes exactly once,
// and where commits fail, at least once.
func TestMoversThatComeAndGoAtRandomLoseNothing(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]bool{"clean stops": false, "failing commits": true} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				t.Parallel()
				fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
					b := newBench(t, c, ax.Delay{Tiers: []time.Duration{3 * time.Second, 10 * time.Second}, Partitions: 2, NearPartitions: 3})
					rng := rand.New(rand.NewPCG(seed, 0))
					var all []*ax.Task
					movers := []*running{b.mover()}
					var fault *kfake.FaultHandle
					for i := range 120 {
						for j := range 5 {
							wait := time.Duration(rng.Int64N(int64(25 * time.Second)))
							task := tasks(fmt.Sprint(i, "-", j), 1, []string{"high", "low"}[j%2], always(time.Now().Add(wait)))[0]
							topic := b.r.Next(task, time.Now(), time.Now())
							parts := len(c.Kfake().PartitionInfos(topic))
							b.put(topic, rng.Int32N(int32(parts)), task)
							all = append(all, task)
						}
						if i%6 == 0 {
							if k := rng.IntN(3); k < len(movers) && len(movers) > 1 {
								require.NoError(t, movers[k].stop())
								movers = slices.Delete(movers, k, k+1)
							} else if len(movers) < 3 {
								movers = append(movers, b.mover())
							}
						}
						if faults && i%20 == 10 {
							fault = c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownServerError, Count: -1})
						} else if fault != nil && i%20 == 15 {
							fault.Remove()
						}
						time.Sleep(250 * time.Millisecond)
					}
					time.Sleep(time.Minute)
					for _, m := range movers {
						require.NoError(t, m.stop())
					}
					if !faults {
						b.requireOnTime(2*time.Second, all...)
						return
					}
					copies := b.copies()
					for _, task := range all {
						require.Positive(t, copies[task.ID], task.ID)
					}
					for _, a := range b.arrived() {
						require.False(t, a.at.Before(a.Due.Add(-b.lead)), a.ID)
					}
				})
			})
		}
	}
}

// A broker forgets what a group has committed that long ago, and an operator
// may delete it. A mover that has nothing to move says again where it stands, so
// that the next one doesn't begin at the log's start.
func TestThePositionOfATierThatIsIdleIsCommittedAgain(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		near, began := b.r.Near(), time.Now()
		last := tasks("last", 1, "low", always(began.Add(4*time.Second)))
		b.put(near, 0, append(last, tasks("soon", 50, "low", always(began.Add(time.Second)))...)...)
		first := b.mover()
		time.Sleep(2 * time.Second)
		require.NoError(t, first.stop())

		// Of what is finished above the commit nothing may be forgotten.
		was := c.Kfake().GroupInfo(b.r.NearGroup()).Commits[near][0]
		held := b.new()
		require.NoError(t, held.Pause("near"))
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- held.Run(ctx) }()
		time.Sleep(25 * time.Minute)
		is := c.Kfake().GroupInfo(b.r.NearGroup()).Commits[near][0]
		require.Equal(t, was.Metadata, is.Metadata)
		require.Equal(t, was.Offset, is.Offset)
		stop()
		require.NoError(t, <-done)

		second := b.mover()
		time.Sleep(10 * time.Second)
		require.NoError(t, second.stop())

		var mu sync.Mutex
		var commits []string
		c.Kfake().ControlKey(kmsg.OffsetCommit.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.Kfake().KeepControl()
			mu.Lock()
			defer mu.Unlock()
			for _, topic := range req.(*kmsg.OffsetCommitRequest).Topics {
				for _, p := range topic.Partitions {
					commits = append(commits, fmt.Sprint(p.Offset, " ", *p.Metadata))
				}
			}
			return nil, nil, false
		})
		heard := func() []string {
			mu.Lock()
			defer mu.Unlock()
			all := commits
			commits = nil
			return all
		}
		found := c.Kfake().GroupInfo(b.r.NearGroup()).Commits[near][0]
		third := b.mover()
		time.Sleep(9 * time.Minute)
		require.Empty(t, heard())
		time.Sleep(22 * time.Minute)
		all := heard()
		require.Len(t, all, 3, "nothing was read, and it is committed again")
		for _, c := range all {
			require.Equal(t, fmt.Sprint("51 ", found.Metadata), c)
		}
		require.NoError(t, third.stop())
	})
}
