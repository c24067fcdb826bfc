package delay_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
)

// A backlog that may not leave for long costs the memory of one queue, and the
// other partition of its tier goes on.
func TestAFarBacklogCostsOneQueueAndLeavesOnTimeWhileOtherPartitionsFlow(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, 5 * time.Minute}, Partitions: 2, NearPartitions: 2})
		tier := b.r.Tiers()[1]
		const n = 20_000
		leave := time.Now().Add(tier.Wait)
		all := leaving(leave, tasks("far", n, "low", func(i int) time.Time {
			return leave.Add(b.domain.Delay.Window + time.Duration(i/200)*30*time.Millisecond)
		})...)
		b.put(tier.Topic, 0, all...)
		m := b.mover(smallFetches())
		time.Sleep(10 * time.Second)
		generation := c.Kfake().GroupInfo(b.r.FarGroup()).Epoch
		for i := range 9 {
			held, paused := delay.Held(m.m, tier.Topic, 0)
			require.True(t, paused)
			require.Positive(t, held)
			require.Less(t, held, 1000, "what one fetch brings")
			other := leaving(time.Now(), tasks(fmt.Sprint("other", i), 10, "high", always(time.Now().Add(3*time.Second)))...)
			b.put(tier.Topic, 1, other...)
			all = append(all, other...)
			time.Sleep(30 * time.Second)
			require.Len(t, b.arrived(), 10*(i+1))
		}
		time.Sleep(30 * time.Second)
		b.requireOnTime(0, all...)
		require.Equal(t, generation, c.Kfake().GroupInfo(b.r.FarGroup()).Epoch)
		require.EqualValues(t, n, b.committed(tier.Topic, 0))
	})
}

// Pausing is not a stop: the member stays in its group however long the head
// waits.
func TestATierThatIsPausedForHoursKeepsItsMember(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, 3 * time.Hour}})
		tier := b.r.Tiers()[1]
		due := time.Now().Add(3 * time.Hour)
		all := leaving(time.Now().Add(tier.Wait), tasks("far", 1200, "low", always(due))...)
		b.put(tier.Topic, 0, all...)
		m := b.mover(smallFetches(), patient())
		time.Sleep(time.Hour)
		before := c.Kfake().GroupInfo(b.r.FarGroup())
		_, paused := delay.Held(m.m, tier.Topic, 0)
		require.True(t, paused)
		time.Sleep(time.Hour)
		after := c.Kfake().GroupInfo(b.r.FarGroup())
		require.Equal(t, before.Epoch, after.Epoch)
		require.Equal(t, before.Members, after.Members)
		require.Empty(t, b.arrived())
		time.Sleep(90 * time.Minute)
		b.requireOnTime(2*time.Minute, all...) // a wait of a patient fetch in each of two hops
	})
}

// The Kafka client keeps a pause over a rebalance, so a partition that went
// and came back could stay silent for ever.
func TestAPausedPartitionThatGoesAndComesBackLeavesWhenDue(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]struct{ from, to time.Duration }{
		"back before due":                     {10 * time.Second, 20 * time.Second},
		"back after due":                      {30 * time.Second, 80 * time.Second},
		"away longer than a session":          {5 * time.Second, 45 * time.Second},
		"gone when due and never back":        {30 * time.Second, 2 * time.Minute},
		"given away at the instant it is due": {58500 * time.Millisecond, 70 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}, Partitions: 2, NearPartitions: 2})
				tier := b.r.Tiers()[1]
				began := time.Now()
				var all []*ax.Task
				for p := range int32(2) {
					far := tasks(fmt.Sprint("far", p), 1100, "low", func(i int) time.Time {
						return began.Add(time.Minute + time.Duration(i/60)*100*time.Millisecond)
					})
					b.put(tier.Topic, p, leaving(began.Add(tier.Wait), far...)...)
					all = append(all, far...)
				}
				first := b.mover(smallFetches())
				time.Sleep(away.from)
				for p := range int32(2) {
					_, paused := delay.Held(first.m, tier.Topic, p)
					require.Equal(t, away.from < tier.Wait-2*time.Second, paused)
				}
				second := b.mover(smallFetches())
				time.Sleep(away.to - away.from)
				require.Len(t, c.Kfake().GroupInfo(b.r.FarGroup()).Members, 2)
				require.Equal(t, 1, delay.Sources(first.m, tier.Topic), "what it lost is forgotten")
				require.LessOrEqual(t, delay.Sources(second.m, tier.Topic), 1)
				require.NoError(t, second.stop())
				time.Sleep(time.Until(began.Add(3 * time.Minute)))
				// A rebalance takes its time, where it falls on the due instant.
				b.requireOnTime(time.Second, all...)

				again := leaving(time.Now(), tasks("again", 10, "high", always(time.Now().Add(time.Second)))...)
				for p := range int32(2) {
					b.put(tier.Topic, p, again[5*p:5*p+5]...)
				}
				time.Sleep(5 * time.Second)
				b.requireOnTime(0, append(all, again...)...)
			})
		})
	}
}

func TestAStopReleasesNothingEarlyAndTheHeadIsThereAfterwards(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{10 * time.Second, time.Minute}})
		near, far := b.r.Near(), b.r.Tiers()[1]
		began := time.Now()
		all := tasks("near", 5, "low", always(began.Add(9*time.Second)))
		b.put(near, 0, all...)
		waits := leaving(began.Add(far.Wait), tasks("far", 5, "low", always(began.Add(time.Minute)))...)
		b.put(far.Topic, 0, waits...)
		for range 3 {
			m := b.mover()
			time.Sleep(2 * time.Second)
			require.NoError(t, m.stop())
		}
		require.Empty(t, b.arrived())
		require.EqualValues(t, 5, b.count(near), "what was not due was moved")
		require.EqualValues(t, 5, b.count(far.Topic))
		b.mover()
		time.Sleep(2 * time.Minute)
		b.requireOnTime(0, append(all, waits...)...)
	})
}

// Counted from the clock instead of the nominal instant, the 300 ms that each
// hop is late would add up, and change the hops that are left.
func TestHopsCountFromTheNominalInstantHoweverLateTheMoverIs(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{10 * time.Second}})
		tier := b.r.Tiers()[0]
		const wait = 65 * time.Second
		began := time.Now()
		task := tasks("t", 1, "low", always(began.Add(wait)))[0]
		b.put(b.r.Next(task, began, began), 0, task)
		hops := b.r.Hops(wait)
		require.Len(t, hops, 8)
		for i := 1; i < len(hops); i++ {
			nominal := began.Add(time.Duration(i) * tier.Wait)
			rs := c.Records(t, tier.Topic)
			last, err := ax.Decode(rs[len(rs)-1], [16]byte{})
			require.NoError(t, err)
			require.Equal(t, nominal.UTC(), last.Leave, "hop %d", i)
			time.Sleep(time.Until(nominal.Add(300 * time.Millisecond)))
			m := b.mover()
			time.Sleep(500 * time.Millisecond)
			require.NoError(t, m.stop())
		}
		require.EqualValues(t, len(hops)-1, b.count(tier.Topic))
		b.mover()
		time.Sleep(time.Minute)
		b.requireOnTime(0, task)
	})
}

func TestWhatIsDueAlreadyIsMovedAtOnce(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}})
		b.mover()
		time.Sleep(time.Second)
		now := time.Now()
		var all []*ax.Task
		for i, ago := range []time.Duration{-time.Millisecond, 0, time.Millisecond, time.Hour, 400 * 24 * time.Hour} {
			for _, topic := range []string{b.r.Near(), b.r.Tiers()[0].Topic, b.r.Tiers()[1].Topic} {
				task := leaving(now.Add(-ago), tasks(fmt.Sprint(topic, i), 1, "low", always(now.Add(-ago)))...)
				b.put(topic, 0, task...)
				all = append(all, task...)
			}
		}
		time.Sleep(time.Second)
		require.Len(t, b.arrived(), len(all))
		for _, a := range b.arrived() {
			require.LessOrEqual(t, a.at.Sub(now), 200*time.Millisecond, a.ID)
		}
	})
}

// The near tier has a client and a group of its own. In one client a fetch ends
// only when all of it was answered and polled: a far tier whose broker is busy,
// or that brings a burst, would make late what is due in a moment.
func TestAFarTierThatIsStuckDoesNotHoldUpTheNearTier(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}})
		details, err := c.Admin(t).ListTopics(t.Context(), b.r.Tiers()[0].Topic, b.r.Tiers()[1].Topic)
		require.NoError(t, err)
		far := map[[16]byte]bool{}
		for _, d := range details {
			far[d.ID] = true
		}
		var slow atomic.Bool
		slow.Store(true)
		c.Kfake().ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.Kfake().KeepControl()
			for _, topic := range req.(*kmsg.FetchRequest).Topics {
				if slow.Load() && far[topic.TopicID] {
					c.Kfake().SleepControl(func() { time.Sleep(8 * time.Second) })
					break
				}
			}
			return nil, nil, false
		})
		m := b.mover(delay.WithKafka(kgo.DisableFetchSessions())) // each fetch names its topics
		time.Sleep(2 * time.Second)
		var all []*ax.Task
		for i := range 100 {
			some := tasks(fmt.Sprint("near", i), 1, "low", always(time.Now().Add(time.Second)))
			b.put(b.r.Near(), 0, some...)
			all = append(all, some...)
			if i%10 == 0 {
				b.put(b.r.Tiers()[1].Topic, 0, leaving(time.Now(), tasks(fmt.Sprint("far", i), 1, "high", always(time.Now().Add(time.Second)))...)...)
			}
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(30 * time.Second)
		near := 0
		var worst time.Duration
		for _, a := range b.arrived() {
			late := a.at.Sub(a.Due)
			if a.Lane == "high" {
				worst = max(worst, late)
				continue
			}
			near++
			require.LessOrEqual(t, late, time.Duration(0), a.ID)
		}
		require.Greater(t, worst, time.Second, "the far tier was not stuck")
		require.Len(t, all, near)
		slow.Store(false)
		require.NoError(t, m.stop())
		time.Sleep(10 * time.Second)
	})
}
