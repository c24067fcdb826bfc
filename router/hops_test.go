package router_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/router"
)

const day = 24 * time.Hour

// epoch is when each simulation begins.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// ways says how a simulated task is delayed on its way.
type ways struct {
	late    func() time.Duration // from when a record may leave to when the mover routes it
	publish func() time.Duration // from there to the broker's append
	maxHops int
}

// travel routes a task from now until it is in its lane. It returns the topics
// on the way and when the lane's record was appended. The far mover obeys
// LeaveAt, and the near one publishes the lead before the due instant.
func travel(t require.TestingT, r *router.Router, task *ax.Task, now time.Time, w ways) (hops []string, arrived time.Time) {
	d := r.Domain().Delay
	at := now
	for {
		topic := r.Next(task, at, now)
		appended := now.Add(w.publish())
		if _, ok := r.LaneOf(topic); ok {
			require.True(t, task.Leave.IsZero())
			return hops, appended
		}
		hops = append(hops, topic)
		require.LessOrEqual(t, len(hops), w.maxHops, "hops %v", hops[max(0, len(hops)-5):])
		if topic == r.Near() {
			require.True(t, task.Leave.IsZero())
			now = later(task.Due.Add(-max(d.Lead, 0)), appended)
			at = now
			continue
		}
		tier := tierOf(t, r, topic)
		require.Equal(t, topic, tier.Topic)
		leave := r.LeaveAt(tier, task.Leave, appended)
		require.False(t, leave.After(appended.Add(tier.Wait)), "stays longer than the tier's wait")
		at, now = task.Leave, later(leave, appended).Add(w.late())
	}
}

func tierOf(t require.TestingT, r *router.Router, topic string) router.Tier {
	i := slices.IndexFunc(r.Tiers(), func(t router.Tier) bool { return t.Topic == topic })
	require.GreaterOrEqual(t, i, 0, "%s is no tier", topic)
	return r.Tiers()[i]
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// between draws a duration for each call.
func between(t *rapid.T, lo, hi time.Duration, label string) func() time.Duration {
	g := rapid.Int64Range(int64(lo), int64(hi))
	return func() time.Duration { return time.Duration(g.Draw(t, label)) }
}

// drawRouter returns a random set of tiers whose largest serves delays up to
// longest in some hundreds of hops.
func drawRouter(t *rapid.T, longest, gap time.Duration) *router.Router {
	window := time.Duration(rapid.Int64Range(100, 5000).Draw(t, "window ms")) * time.Millisecond
	lead := rapid.SampledFrom([]time.Duration{-1, time.Millisecond, 50 * time.Millisecond}).Draw(t, "lead")
	n := rapid.IntRange(1, 12).Draw(t, "tiers")
	tiers := []time.Duration{max(2*window, longest/400)}
	for range n - 1 {
		more := time.Duration(rapid.Int64Range(1, int64(12*time.Hour/time.Millisecond)).Draw(t, "step ms")) * time.Millisecond
		tiers = append(tiers, tiers[len(tiers)-1]+max(gap, more))
	}
	for i := range tiers {
		tiers[i] = tiers[i].Truncate(time.Millisecond)
	}
	tiers[0] = max(tiers[0], 2*window)
	r, err := router.New(ax.Domain{
		Name:  "orders",
		Delay: ax.Delay{Tiers: tiers, Window: window, Lead: lead, Rate: 1},
	})
	require.NoError(t, err)
	return r
}

// drawDelay prefers the edges: a tier's own delay, give or take a little.
func drawDelay(t *rapid.T, r *router.Router) time.Duration {
	d := time.Duration(rapid.Int64Range(0, int64(400*day)).Draw(t, "delay"))
	if rapid.Bool().Draw(t, "at a tier") {
		tier := rapid.SampledFrom(r.Tiers()).Draw(t, "tier")
		near := time.Duration(rapid.Int64Range(-300, 300).Draw(t, "off ms")) * time.Millisecond
		d = max(0, tier.Delay+near)
	}
	return d
}

// For every delay, tier set and window: lateness on the way changes neither
// the number nor the names of the hops that the delay has on paper, and the
// task is in its lane before it is due.
func TestLatenessAddsNoHopAndNoTaskIsLate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRouter(t, 400*day, 0)
		d := r.Domain().Delay
		delay := drawDelay(t, r)
		task := &ax.Task{Kind: "k", Lane: "normal", Due: epoch.Add(delay)}
		w := ways{
			late:    between(t, 0, min(50*time.Millisecond, d.Window/4), "late"),
			publish: between(t, 0, min(20*time.Millisecond, max(d.Lead, 0)/2), "publish"),
			maxHops: len(r.Hops(delay)),
		}
		hops, arrived := travel(t, r, task, epoch, w)
		require.Equal(t, r.Hops(delay), hops)
		if len(hops) > 0 {
			require.False(t, arrived.After(task.Due), "arrives %s late", arrived.Sub(task.Due))
			require.False(t, arrived.Before(task.Due.Add(-max(d.Lead, 0))), "leaves the near tier before the lead")
		}
	})
}

// The caller computes the due instant up to 100 ms before the submit routes
// it. A delay of exactly a tier, or of whole seconds, still takes the hops it
// has on paper.
func TestLateSubmitTakesTheSameHops(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r *router.Router
		var delay time.Duration
		if rapid.Bool().Draw(t, "default tiers") {
			var err error
			r, err = router.New(ax.Domain{Name: "orders"})
			require.NoError(t, err)
			delay = time.Duration(rapid.Int64Range(1, int64(400*day/time.Second)).Draw(t, "seconds")) * time.Second
		} else {
			r = drawRouter(t, 400*day, 5*time.Second)
			if r.Domain().Delay.Window < 500*time.Millisecond {
				t.Skip("a quarter of the window forgives less than 100 ms")
			}
			delay = rapid.SampledFrom(r.Tiers()).Draw(t, "tier").Delay
		}
		off := between(t, -5*time.Millisecond, 5*time.Millisecond, "off")()
		submit := epoch.Add(between(t, 0, 100*time.Millisecond, "submit late")())
		task := &ax.Task{Kind: "k", Lane: "normal", Due: epoch.Add(delay + off)}
		hops, arrived := travel(t, r, task, submit, ways{
			late:    between(t, 0, 50*time.Millisecond, "late"),
			publish: between(t, 0, time.Millisecond/2, "publish"),
			maxHops: len(r.Hops(delay)),
		})
		require.Equal(t, r.Hops(delay), hops)
		require.False(t, arrived.After(task.Due.Add(time.Millisecond/2)))
	})
}

// 400 hops, each late or early: nothing adds up, in either direction. Only the
// nominal arithmetic and a tenth that comes off the claim alone do that: a
// clock would add 5 ms for each hop, a tenth off the bound subtract 95.
func TestLatenessOfFourHundredHopsStaysZero(t *testing.T) {
	t.Parallel()
	r, err := router.New(ax.Domain{Name: "orders"})
	require.NoError(t, err)
	for _, late := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, 99 * time.Millisecond} {
		t.Run(late.String(), func(t *testing.T) {
			t.Parallel()
			fixed := func() time.Duration { return late }
			task := &ax.Task{Kind: "k", Due: epoch.Add(400 * day)}
			at, now := epoch, epoch
			for hop := range 400 {
				topic := r.Next(task, at, now)
				require.Equal(t, "orders.delay.24h", topic)
				require.Equal(t, epoch.Add(time.Duration(hop+1)*(day-time.Second)), task.Leave, "drifts at hop %d", hop)
				at, now = task.Leave, r.LeaveAt(tierOf(t, r, topic), task.Leave, now.Add(time.Millisecond)).Add(late)
				require.LessOrEqual(t, now.Sub(task.Leave).Abs(), 100*time.Millisecond)
			}
			want := r.Hops(400 * day)
			hops, arrived := travel(t, r, &ax.Task{Kind: "k", Due: task.Due}, epoch,
				ways{late: fixed, publish: func() time.Duration { return time.Millisecond }, maxHops: len(want)})
			require.Equal(t, want, hops)
			require.Equal(t, task.Due.Add(-49*time.Millisecond), arrived)
		})
	}
}

// Two hours through the 1h tier, 5 ms late at each hop: 3 hops and not 14.
func TestTwoHoursTakeThreeHops(t *testing.T) {
	t.Parallel()
	r, err := router.New(ax.Domain{Name: "orders"})
	require.NoError(t, err)
	want := []string{"orders.delay.1h", "orders.delay.1h", "orders.delay.near"}
	require.Equal(t, want, r.Hops(2*time.Hour))
	for _, late := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond} {
		same := func() time.Duration { return late }
		hops, _ := travel(t, r, &ax.Task{Kind: "k", Due: epoch.Add(2 * time.Hour)}, epoch, ways{late: same, publish: same, maxHops: 3})
		require.Equal(t, want, hops)
	}
}

// A mover hours behind, and records that claim to leave in 1970, in 9999 or at
// any instant: each still ends in its lane, in no more hops than a fresh submit
// and one for each forgery would take, and no earlier than the near tier's lead.
func TestStalledMoverAndForgedClaimsMisplaceNothing(t *testing.T) {
	t.Parallel()
	forged := []time.Time{time.Unix(0, 0), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), {}}
	rapid.Check(t, func(t *rapid.T) {
		r := drawRouter(t, 400*day, 0)
		d := r.Domain().Delay
		task := &ax.Task{Kind: "k", Lane: "low", Due: epoch.Add(drawDelay(t, r))}
		at, now := epoch, epoch
		lies, stalls := rapid.IntRange(0, 5).Draw(t, "lies"), rapid.IntRange(0, 5).Draw(t, "stalls")
		for hops := 0; ; hops++ {
			require.Less(t, hops, 2500)
			topic := r.Next(task, at, now)
			if _, ok := r.LaneOf(topic); ok {
				break
			}
			// It was sent where it can't be late: not even if the tier keeps
			// it to the end, and it leaves with a window's half to spare.
			if topic == r.Near() {
				require.Less(t, task.Due.Sub(now), r.Tiers()[0].Delay+d.Window)
				now = later(now, task.Due.Add(-max(d.Lead, 0)))
				at = now
				continue
			}
			tier := tierOf(t, r, topic)
			require.False(t, now.Add(tier.Wait).After(task.Due.Add(-d.Window/4)), "sits in %s past its due", topic)
			if lies > 0 && rapid.Bool().Draw(t, "lie") {
				lies--
				task.Leave = rapid.SampledFrom(append(forged, now.Add(between(t, -day, day, "claim")()))).Draw(t, "forged")
			}
			leave := r.LeaveAt(tier, task.Leave, now)
			require.False(t, leave.After(now.Add(tier.Wait)), "a claim holds the tier up")
			at, now = task.Leave, later(now, leave)
			if stalls > 0 && rapid.Bool().Draw(t, "stall") {
				stalls--
				now = now.Add(between(t, 0, 12*time.Hour, "stalled")())
			}
		}
		require.False(t, now.Before(task.Due.Add(-max(d.Lead, 0))), "reaches the lane too early")
	})
}

func ExampleRouter_Hops() {
	r, err := router.New(ax.Domain{Name: "orders"})
	if err != nil {
		panic(err)
	}
	for _, delay := range []time.Duration{0, 2 * time.Second, time.Hour, 3 * day} {
		fmt.Println(delay, r.Hops(delay))
	}
	// Output:
	// 0s []
	// 2s [orders.delay.near]
	// 1h0m0s [orders.delay.1h orders.delay.near]
	// 72h0m0s [orders.delay.24h orders.delay.24h orders.delay.24h orders.delay.near]
}

func ExampleRouter_Next() {
	r, err := router.New(ax.Domain{Name: "orders"})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	task := ax.Task{Kind: "order.close", Lane: "high", Due: now.Add(time.Hour)}
	fmt.Println(r.Next(&task, now, now), task.Leave.Format(time.TimeOnly))

	now = task.Leave
	fmt.Println(r.Next(&task, task.Leave, now))

	now = task.Due.Add(-50 * time.Millisecond)
	fmt.Println(r.Next(&task, now, now))
	// Output:
	// orders.delay.1h 12:59:59
	// orders.delay.near
	// orders.lane.high
}
