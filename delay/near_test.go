package delay_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
)

// The near tier's records stand in any order and leave in that of their due
// instants.
func TestTheNearTierLeavesInDueOrderWhateverTheOrderOfTheLog(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		rng := rand.New(rand.NewPCG(1, 2))
		all := tasks("t", 2000, "low", func(int) time.Time {
			return time.Now().Add(100*time.Millisecond + time.Duration(rng.Int64N(int64(5*time.Second))))
		})
		b.put(b.r.Near(), 0, all...)
		m := b.mover()
		time.Sleep(10 * time.Second)
		b.requireOnTime(0, all...)
		require.True(t, slices.IsSortedFunc(b.arrived(), func(a, b arrival) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) }))
		for _, a := range b.arrived() {
			// A tenth of the lead is for moving some together.
			late := a.at.Sub(a.Due.Add(-b.lead))
			require.True(t, late >= 0 && late <= b.lead/10, "a task leaves %s after its lead before it is due", late)
		}
		require.NoError(t, m.stop())
		require.EqualValues(t, 2000, b.committed(b.r.Near(), 0))
	})
}

// A partition with more than the buffer is paused, which may make late what
// stands behind, and loses nothing.
func TestANearPartitionAboveItsBufferIsPausedAndLosesNothing(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Buffer: 500})
		rng := rand.New(rand.NewPCG(3, 4))
		began := time.Now()
		all := tasks("t", 5000, "low", func(i int) time.Time {
			return began.Add(2*time.Second + time.Duration(i)*time.Millisecond + time.Duration(rng.Int64N(int64(500*time.Millisecond))))
		})
		m := b.mover(smallFetches())
		time.Sleep(time.Second)
		for chunk := range slices.Chunk(all, 1000) {
			b.put(b.r.Near(), 0, chunk...)
		}
		most, pauses := 0, 0
		for range 160 {
			time.Sleep(50 * time.Millisecond)
			n, paused := delay.Held(m.m, b.r.Near(), 0)
			most = max(most, n)
			if paused {
				pauses++
			}
		}
		require.Greater(t, pauses, 20)
		require.Less(t, most, 1000, "the buffer and one poll")
		b.requireOnTime(time.Second, all...)
	})
}

// Very many are due at one instant, in one lane; those of another lane keep
// theirs, and no more is held or on its way than may be.
func TestABurstThatIsDueAtOneInstantMakesNoOtherLaneLate(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{NearPartitions: 2})
		began := time.Now()
		at := began.Add(3 * time.Second)
		burst := tasks("burst", 15_000, "low", always(at))
		urgent := tasks("urgent", 200, "high", func(i int) time.Time { return at.Add(time.Duration(i-100) * 10 * time.Millisecond) })
		for p := range int32(2) {
			b.put(b.r.Near(), p, burst[p*7500:(p+1)*7500]...)
			b.put(b.r.Near(), p, urgent[p*100:(p+1)*100]...)
		}
		m := b.mover()
		time.Sleep(2500 * time.Millisecond)
		for range 500 {
			for p := range int32(2) {
				n, _ := delay.Held(m.m, b.r.Near(), p)
				require.LessOrEqual(t, n, b.domain.Delay.Buffer)
			}
			n, bytes, _ := delay.OnTheWay(m.m, b.r.Lane("low"))
			require.LessOrEqual(t, n, delay.MaxOpen)
			require.LessOrEqual(t, bytes, delay.MaxOpenBytes)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		b.requireOnTime(time.Second, append(burst, urgent...)...)
		for _, a := range b.arrived() {
			if a.Lane == "high" {
				require.LessOrEqual(t, a.at.Sub(a.Due), time.Duration(0), a.ID)
			}
		}
		require.NoError(t, m.stop())
	})
}

// A foreign producer may write anything anywhere.
func TestATaskThatIsNotNearGoesBackToTheFarTiers(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		all := tasks("t", 3, "low", func(i int) time.Time { return time.Now().Add(time.Duration(i+1) * time.Minute) })
		b.put(b.r.Near(), 0, all...)
		b.mover()
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 3, b.committed(b.r.Near(), 0))
		time.Sleep(4 * time.Minute)
		b.requireOnTime(0, all...)
	})
}

// Producers' clocks that are off, forged and absent claims: nothing is early,
// nothing waits longer than its tier, and nothing goes round in circles.
func TestNoClaimOfAProducerMakesATaskEarlyStuckOrCircle(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, 30 * time.Second}})
		tier := b.r.Tiers()[1]
		b.mover()
		time.Sleep(time.Second)
		began := time.Now()
		honest := began.Add(tier.Wait)
		claims := map[string]time.Time{
			"fast": honest.Add(5 * time.Minute), "slow": honest.Add(-5 * time.Minute), "first": time.Unix(0, 0),
			"last": time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), "none": {}, "honest": honest,
		}
		var all, early []*ax.Task
		for _, name := range []string{"last", "fast", "none", "first", "slow", "honest"} { // the worst heads the partition
			on := leaving(claims[name], tasks(name, 3, "low", func(i int) time.Time { return began.Add(time.Duration(i+1) * 31 * time.Second) })...)
			soon := leaving(claims[name], tasks("soon-"+name, 1, "high", always(began.Add(10*time.Second)))...)
			b.put(tier.Topic, 0, append(on, soon...)...)
			all, early = append(all, on...), append(early, soon...)
		}
		time.Sleep(3 * time.Minute)
		late := b.domain.Delay.Window
		for _, a := range b.arrived() {
			if a.Lane == "high" { // due before the tier's wait is over
				require.LessOrEqual(t, a.at.Sub(began), tier.Wait+late, a.ID)
			}
		}
		b.requireOnTime(tier.Wait, append(all, early...)...)
		for _, a := range b.arrived() {
			if a.Lane == "low" {
				require.LessOrEqual(t, a.at.Sub(a.Due), time.Duration(0), a.ID)
			}
		}
		copies := b.count(tier.Topic) + b.count(b.r.Tiers()[0].Topic) + b.count(b.r.Near())
		require.LessOrEqual(t, copies, int64(8*len(all)), "tasks go round")
	})
}

// skew shifts the broker's clock as a reader sees it.
type skew time.Duration

// OnFetchRecordBuffered implements kgo.HookFetchRecordBuffered.
func (s skew) OnFetchRecordBuffered(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(time.Duration(s)) }

// A broker whose clock is behind by more than a tier's wait would bound each
// claim into the past: every task would circle in its tier as fast as the
// broker can.
func TestABrokerWithAWrongClockMakesNothingLateAndNothingCircle(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-5 * time.Minute, -10 * time.Second, 10 * time.Second, 5 * time.Minute} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, 30 * time.Second}})
				b.mover(delay.WithKafka(kgo.WithHooks(skew(off))))
				time.Sleep(time.Second)
				// The second record that is read as it is written tells the clock.
				all := tasks("first", 2, "high", always(time.Now().Add(time.Second)))
				for _, task := range all {
					b.put(b.r.Near(), 0, task)
				}
				hops := len(all)
				for i := range 10 {
					wait := time.Duration(i+1) * 11 * time.Second
					task := tasks(fmt.Sprint("t", i), 1, "low", always(time.Now().Add(wait)))[0]
					b.put(b.r.Next(task, time.Now(), time.Now()), 0, task)
					all = append(all, task)
					hops += len(b.r.Hops(wait))
					time.Sleep(700 * time.Millisecond)
				}
				time.Sleep(3 * time.Minute)
				b.requireOnTime(0, all...)
				require.EqualValues(t, hops, b.count(b.r.Tiers()[0].Topic)+b.count(b.r.Tiers()[1].Topic)+b.count(b.r.Near()))
			})
		})
	}
}
