package delay_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
)

// inspected returns the state of one tier, as the cluster tells it.
func (b *bench) inspected(watch time.Duration, name string) delay.TierState {
	b.t.Helper()
	states, err := delay.Inspect(context.Background(), b.domain, watch, b.c.Opts()...)
	require.NoError(b.t, err)
	for _, s := range states {
		if s.Tier == name {
			return s
		}
	}
	require.Fail(b.t, "no tier "+name)
	return delay.TierState{}
}

// Without any mover's help it can be told what waits, and that nobody moves it.
func TestTheClusterTellsWhatWaitsWhenItLeavesAndHowFast(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}, Partitions: 2, NearPartitions: 2})
		require.Equal(t, delay.TierState{Tier: "1m", Topic: b.r.Tiers()[1].Topic}, b.inspected(time.Second, "1m"))

		far, began := b.r.Tiers()[1], time.Now()
		leave := began.Add(far.Wait)
		b.put(far.Topic, 0, leaving(leave, tasks("a", 30, "low", always(began.Add(time.Minute)))...)...)
		b.put(far.Topic, 1, leaving(leave.Add(-10*time.Second), tasks("b", 10, "low", always(began.Add(50*time.Second)))...)...)
		b.put(b.r.Near(), 0, tasks("last", 1, "low", always(began.Add(4*time.Second)))...)
		b.put(b.r.Near(), 0, tasks("soon", 50, "low", func(i int) time.Time { return began.Add(2*time.Second + time.Duration(i)*10*time.Millisecond) })...)
		got := b.inspected(time.Second, "1m")
		require.EqualValues(t, 40, got.Depth)
		require.Equal(t, leave.Add(-10*time.Second-b.domain.Delay.Window/10).UTC(), got.Next.UTC())
		require.Zero(t, got.Rate)
		require.Zero(t, got.Members)
		time.Sleep(time.Until(began.Add(time.Second)))
		m := b.mover()
		time.Sleep(500 * time.Millisecond)
		got = b.inspected(time.Second, "near")
		require.Equal(t, 1, got.Members)
		require.InDelta(t, 50, got.Rate, 15, "50 in a second, as the commits tell")
		time.Sleep(time.Until(began.Add(3 * time.Second)))
		got = b.inspected(100*time.Millisecond, "near")
		require.EqualValues(t, 1, got.Depth, "what is finished above the commit doesn't wait")
		require.Equal(t, began.Add(4*time.Second-b.lead).UTC(), got.Next.UTC())
		time.Sleep(2 * time.Minute)
		require.Zero(t, b.inspected(100*time.Millisecond, "1m").Depth)

		require.NoError(t, m.stop())
		b.put(b.r.Near(), 1, tasks("late", 1, "low", always(time.Now().Add(time.Second)))...)
		time.Sleep(time.Minute)
		got = b.inspected(time.Second, "near")
		require.Zero(t, got.Members)
		require.Less(t, time.Until(got.Next), -59*time.Second, "overdue")
	})
}

func TestTiersThatDontExistAreAnError(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		d := c.Domain(ax.Domain{Name: "orders"})
		_, err := delay.Inspect(context.Background(), d, time.Second, c.Opts()...)
		require.ErrorContains(t, err, "tiers of domain orders")
		_, err = delay.Inspect(context.Background(), ax.Domain{}, time.Second, c.Opts()...)
		require.ErrorContains(t, err, "domain: is required")
	})
}
