package delay_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/router"
)

// without takes a tier out of the bench's domain, as an edit of its file does.
func (b *bench) without(t *testing.T, tier time.Duration) (lost router.Tier) {
	t.Helper()
	for _, have := range b.r.Tiers() {
		if have.Delay == tier {
			lost = have
		}
	}
	require.NotEmpty(t, lost.Topic)
	b.domain.Delay.Tiers = slices.DeleteFunc(slices.Clone(b.domain.Delay.Tiers), func(d time.Duration) bool { return d == tier })
	r, err := router.New(b.domain)
	require.NoError(t, err)
	b.r = r
	return lost
}

func TestATierThatWasTakenOutIsDrainedAndItsTasksComeOutWhenDue(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute, 6 * time.Minute}, Partitions: 2})
		began := time.Now()
		long := b.r.Tiers()[2]
		var all []*ax.Task
		for p := range int32(2) {
			in := leaving(began.Add(long.Wait), tasks("in"+string('a'+p), 50, "low", func(i int) time.Time {
				return began.Add(long.Wait + time.Second + time.Duration(i)*20*time.Millisecond)
			})...)
			b.put(long.Topic, p, in...)
			far := leaving(began.Add(long.Wait), tasks("far"+string('a'+p), 20, "high", always(began.Add(10*time.Minute)))...)
			b.put(long.Topic, p, far...) // another wait follows, in the tiers that are left
			all = append(all, append(in, far...)...)
		}
		first := b.mover()
		time.Sleep(2 * time.Minute)
		require.NoError(t, first.stop())
		require.Empty(t, b.arrived())

		lost := b.without(t, 6*time.Minute)
		m := b.mover(delay.WithTrim())
		time.Sleep(9 * time.Minute)
		b.requireOnTime(0, all...)
		require.EqualValues(t, 70, b.committed(lost.Topic, 0))
		require.EqualValues(t, 70, b.committed(lost.Topic, 1))
		require.EqualValues(t, 70, b.start(lost.Topic, 0), "trimmed as well")

		// What an old producer still writes there comes out too.
		late := tasks("late", 3, "low", always(time.Now().Add(long.Wait+time.Second)))
		b.put(lost.Topic, 1, late...)
		time.Sleep(9 * time.Minute)
		b.requireOnTime(0, append(all, late...)...)
		require.NoError(t, m.stop())
	})
}

// The operator deletes what is empty while movers run. On real ports: the
// client asks for what is gone as fast as it can, and no virtual time passes.
func TestALeftoverTierThatIsDeletedIsForgotten(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute, time.Hour}})
	lost := b.without(t, time.Hour)
	m := b.new()
	delay.LookEvery(m, 50*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	fetches := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Observe: true, Count: -1})
	require.Eventually(t, func() bool { return fetches.Hits() > 10 }, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, c.Kfake().DeleteTopic(lost.Topic))

	quiet := func() bool { // for 300 ms
		before := fetches.Hits()
		timer := time.NewTimer(300 * time.Millisecond)
		<-timer.C
		return fetches.Hits()-before < 100
	}
	require.Eventually(t, quiet, 20*time.Second, 10*time.Millisecond)
	b.put(b.r.Near(), 0, tasks("near", 3, "low", always(time.Now()))...)
	b.put(b.r.Tiers()[0].Topic, 0, leaving(time.Now(), tasks("far", 3, "low", always(time.Now()))...)...)
	require.Eventually(t, func() bool { return len(b.arrived()) == 6 }, 20*time.Second, 10*time.Millisecond)
	stop()
	require.NoError(t, <-done)
}

// Another domain's tiers, whatever its name, are none of a mover's business.
func TestAMoverDrainsNobodyElsesTiers(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second}})
		var foreign []string
		for _, name := range []string{"orders-eu", "orders.delay", "orders.lane.x", "eu.orders"} {
			r := c.Provision(t, ax.Domain{Name: name, Delay: ax.Delay{Tiers: []time.Duration{5 * time.Second, 10 * time.Second}, Partitions: 1, NearPartitions: 1, Rate: 1}})
			for _, topic := range r.Topics() {
				if !strings.Contains(topic, ".lane.") || name == "orders.lane.x" {
					foreign = append(foreign, topic)
				}
			}
		}
		foreign = append(foreign, "orders.lane.gone") // the workers drain it
		require.NoError(t, c.Kfake().CreateTopic("orders.lane.gone", 1, nil))
		for _, topic := range foreign {
			b.put(topic, 0, tasks("theirs", 1, "low", always(time.Now()))...)
		}
		b.mover()
		time.Sleep(time.Minute)
		require.Empty(t, b.arrived())
		for _, topic := range foreign {
			require.EqualValues(t, -1, b.committed(topic, 0), topic)
		}
	})
}
