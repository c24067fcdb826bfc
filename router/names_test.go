package router_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/router"
)

func newRouter(t *testing.T, d ax.Domain) *router.Router {
	t.Helper()
	r, err := router.New(d)
	require.NoError(t, err)
	return r
}

func TestDefaultDomainHasTheDocumentedTopicsAndGroups(t *testing.T) {
	t.Parallel()
	r := newRouter(t, ax.Domain{Name: "orders"})
	require.Equal(t, []string{
		"orders.lane.critical", "orders.lane.high", "orders.lane.normal", "orders.lane.low",
		"orders.delay.5s", "orders.delay.30s", "orders.delay.1m", "orders.delay.5m",
		"orders.delay.15m", "orders.delay.1h", "orders.delay.6h", "orders.delay.24h",
		"orders.delay.near", "orders.dead",
	}, r.Topics())
	require.Equal(t, "orders.worker.high", r.LaneGroup("high"))
	require.Equal(t, "orders.mover.near", r.NearGroup())
	require.Equal(t, "orders.mover.far", r.FarGroup())
	require.Equal(t, "orders.delay.near", r.Near())
	require.Equal(t, "orders.dead", r.Dead())
	require.Equal(t, router.Tier{Topic: "orders.delay.5s", Delay: 5 * time.Second, Wait: 4 * time.Second}, r.Tiers()[0])
	require.Equal(t, 50*time.Millisecond, r.Domain().Delay.Lead, "the domain has its defaults")
}

func TestPrefixIsPartOfTopicsAndGroups(t *testing.T) {
	t.Parallel()
	r := newRouter(t, ax.Domain{Name: "orders", Prefix: "staging."})
	for _, topic := range r.Topics() {
		require.True(t, strings.HasPrefix(topic, "staging.orders."), topic)
	}
	require.Equal(t, "staging.orders.worker.low", r.LaneGroup("low"))
	require.Equal(t, "staging.orders.mover.near", r.NearGroup())
	require.Equal(t, "staging.orders.mover.far", r.FarGroup())
}

func TestTierNamesAreShortDurations(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		500 * time.Millisecond:                "500ms",
		1500 * time.Millisecond:               "1.5s",
		5 * time.Second:                       "5s",
		90 * time.Second:                      "1m30s",
		10 * time.Minute:                      "10m",
		time.Hour:                             "1h",
		90 * time.Minute:                      "1h30m",
		time.Hour + 5*time.Second:             "1h0m5s",
		20 * time.Hour:                        "20h",
		100 * time.Hour:                       "100h",
		time.Hour + time.Minute + time.Second: "1h1m1s",
	} {
		r := newRouter(t, ax.Domain{Name: "d", Delay: ax.Delay{Tiers: []time.Duration{d}, Window: 100 * time.Millisecond, Rate: 1, Buffer: 1 << 20}})
		require.Equal(t, "d.delay."+want, r.Tiers()[0].Topic)
	}
}

func TestUnknownLaneIsTheLaneOfLeastWeight(t *testing.T) {
	t.Parallel()
	r := newRouter(t, ax.Domain{Name: "d", Lanes: []ax.Lane{
		{Name: "a", Weight: 3}, {Name: "b", Weight: 1}, {Name: "c", Weight: 1}, {Name: "d", Weight: 2},
	}})
	require.Equal(t, "d.lane.a", r.Lane("a"))
	require.Equal(t, "d.lane.b", r.Lane("gone"))
	require.Equal(t, "d.lane.b", r.Lane(""))

	name, ok := r.LaneOf("d.lane.c")
	require.True(t, ok)
	require.Equal(t, "c", name)
	for _, topic := range []string{"d.lane.gone", "d.dead", "d.delay.near", ""} {
		_, ok = r.LaneOf(topic)
		require.False(t, ok, topic)
	}
}

func TestNewReturnsAllFaultsOfTheDomain(t *testing.T) {
	t.Parallel()
	_, err := router.New(ax.Domain{Name: "No Such Name", Lanes: []ax.Lane{{Name: "a", Weight: 0}}})
	require.ErrorContains(t, err, "domain:")
	require.ErrorContains(t, err, "lanes[0].weight:")
	_, ok := errors.AsType[*ax.FieldError](err)
	require.True(t, ok)
}

func TestNextSendsDueTasksToTheirLaneAndClearsTheLeave(t *testing.T) {
	t.Parallel()
	r := newRouter(t, ax.Domain{Name: "d"})
	for name, due := range map[string]time.Time{
		"no due time": {}, "in the past": epoch.Add(-day), "now": epoch, "within the lead": epoch.Add(50 * time.Millisecond),
	} {
		task := &ax.Task{Lane: "high", Due: due, Leave: epoch}
		require.Equal(t, "d.lane.high", r.Next(task, epoch, epoch), name)
		require.True(t, task.Leave.IsZero(), name)
		require.Empty(t, r.Hops(due.Sub(epoch)), name)
	}
	task := &ax.Task{Lane: "high", Due: epoch.Add(51 * time.Millisecond), Leave: epoch}
	require.Equal(t, "d.delay.near", r.Next(task, epoch, epoch))
	require.True(t, task.Leave.IsZero())
}

func TestTierServesFromAQuarterWindowBelowItsDelay(t *testing.T) {
	t.Parallel()
	r := newRouter(t, ax.Domain{Name: "d"})
	for delay, want := range map[time.Duration]string{
		4*time.Second + 749*time.Millisecond:  "d.delay.near",
		4*time.Second + 750*time.Millisecond:  "d.delay.5s",
		5 * time.Second:                       "d.delay.5s",
		29*time.Second + 749*time.Millisecond: "d.delay.5s",
		29*time.Second + 750*time.Millisecond: "d.delay.30s",
		399 * day:                             "d.delay.24h",
	} {
		task := &ax.Task{Due: epoch.Add(delay)}
		require.Equal(t, want, r.Next(task, epoch, epoch), "%s", delay)
	}
}

func TestLeaveAtIsBoundedByTheAppend(t *testing.T) {
	t.Parallel()
	r := newRouter(t, ax.Domain{Name: "d"})
	tier := r.Tiers()[0] // waits 4 s
	bound := epoch.Add(4 * time.Second)
	for name, c := range map[string]struct{ claim, want time.Time }{
		"no claim":            {time.Time{}, bound},
		"before the bound":    {bound.Add(-time.Second), bound.Add(-1100 * time.Millisecond)},
		"at the bound":        {bound, bound.Add(-100 * time.Millisecond)},
		"just past the bound": {bound.Add(time.Minute), bound},
		"year 9999":           {time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), bound},
		"year 1970":           {time.Unix(0, 0), time.Unix(0, 0).Add(-100 * time.Millisecond)},
	} {
		require.True(t, c.want.Equal(r.LeaveAt(tier, c.claim, epoch)), "%s: %s", name, r.LeaveAt(tier, c.claim, epoch))
	}
}

// Where records go: by key in a lane, round robin where a lane has a limit,
// whatever the key unless the lane keeps order; and never by key in a tier.
func TestPartitionsAreChosenByTheTopicsMeaning(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r := c.Provision(t, ax.Domain{Name: "d", Lanes: []ax.Lane{
		{Name: "plain", Weight: 1, Partitions: 4},
		{Name: "limited", Weight: 1, Partitions: 4, Limit: 8},
		{Name: "ordered", Weight: 1, Partitions: 4, Limit: 8, Order: ax.OrderKey},
	}})
	cl := c.Client(t, r.Options()...)
	spread := func(topic, key string) map[int32]int {
		parts := map[int32]int{}
		for range 40 {
			rec := &kgo.Record{Topic: topic}
			if key != "" {
				rec.Key = []byte(key)
			}
			require.NoError(t, cl.ProduceSync(t.Context(), rec).FirstErr())
			parts[rec.Partition]++
		}
		return parts
	}
	even := map[int32]int{0: 10, 1: 10, 2: 10, 3: 10}
	require.Len(t, spread(r.Lane("plain"), "k"), 1)
	require.Equal(t, even, spread(r.Lane("limited"), ""))
	require.Equal(t, even, spread(r.Lane("limited"), "k"))
	require.Equal(t, even, spread(r.Lane("ordered"), ""))
	require.Len(t, spread(r.Lane("ordered"), "k"), 1)
	require.Len(t, spread(r.Dead(), "k"), 1)
	require.Greater(t, len(spread(r.Near(), "k")), 1)
}

func TestOptionsAllowPayloadsAboveTheClientsRequestLimit(t *testing.T) {
	t.Parallel()
	r := newRouter(t, ax.Domain{Name: "d", MaxPayload: 512 << 20})
	cl, err := kgo.NewClient(r.Options()...)
	require.NoError(t, err)
	cl.Close()
}
