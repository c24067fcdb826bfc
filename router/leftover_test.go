package router_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/router"
)

func leftovers(t *testing.T, r *router.Router, adm *kadm.Client) []router.Leftover {
	t.Helper()
	left, err := r.Leftovers(t.Context(), adm)
	require.NoError(t, err)
	return left
}

func TestWhatTheDomainNoLongerNamesIsFoundWithWhatItWas(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	d := small()
	r := c.Provision(t, d)
	require.Empty(t, leftovers(t, r, c.Admin(t)))

	d.Lanes = d.Lanes[:1]
	d.Delay.Tiers, d.Delay.Window = []time.Duration{5 * time.Second, 2 * time.Hour}, 2*time.Second
	r = newRouter(t, c.Domain(d))
	left := leftovers(t, r, c.Admin(t))
	for i := range left {
		require.NotEmpty(t, left[i].ID)
		left[i].ID = [16]byte{}
	}
	require.Equal(t, []router.Leftover{
		{
			Topic: "orders.delay.1m", Partitions: 2, Group: "orders.mover.far",
			Tier: router.Tier{Topic: "orders.delay.1m", Delay: time.Minute, Wait: 58 * time.Second},
		},
		{Topic: "orders.lane.keyed", Partitions: 2, Group: "orders.worker.keyed", Lane: "keyed"},
		{Topic: "orders.lane.limited", Partitions: 2, Group: "orders.worker.limited", Lane: "limited"},
	}, left)
}

// Names of another domain, or of nobody, are not taken, whatever they look like.
func TestNoTopicOfAnotherDomainIsTakenForALeftover(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	mine := c.Provision(t, small())
	odd := []string{
		"orders", "orders.lane", "orders.lane.", "orders.lane.Big", "orders.lane.-x", "orders.lane.x_y", "orders.delay.", "orders.delay.near2",
		"orders.delay.60s", "orders.delay.1h0m", "orders.delay.-5s", "orders.delay.0s", "orders.delay.5", "orders.delay.5s.x",
		"orders.other.x", "orders.lanes.x", "xorders.lane.x", "orders.dead.x",
		"orders.lane." + string(slices.Repeat([]byte("x"), 61)),
	}
	for _, topic := range odd {
		_ = c.Kfake().CreateTopic(topic, 1, nil)
	}
	for _, name := range []string{"orders-eu", "orders.lane", "orders.lane.x", "orders.delay", "orders.delay.5s", "orders.dead", "eu.orders", "order"} {
		other := small()
		other.Name = name
		r := c.Provision(t, other)
		require.Empty(t, leftovers(t, r, c.Admin(t)), name)
	}
	require.Empty(t, leftovers(t, mine, c.Admin(t)))
	for _, topic := range []string{"orders.lane.x", "orders.lane.a.b", "orders.lane.deadly", "orders.lane.lane", "orders.delay.1.5s", "orders.delay.10h"} {
		require.NoError(t, c.Kfake().CreateTopic(topic, 1, nil))
		require.Len(t, leftovers(t, mine, c.Admin(t)), 1, topic)
		require.NoError(t, c.Kfake().DeleteTopic(topic))
	}
}

func TestATierShorterThanTheWindowWaitsForNothing(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r := c.Provision(t, small())
	require.NoError(t, c.Kfake().CreateTopic("orders.delay.500ms", 1, nil))
	require.Zero(t, leftovers(t, r, c.Admin(t))[0].Tier.Wait)
}

func TestTheBacklogIsWhatTheGroupHasNotCommittedPast(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	d := small()
	c.Provision(t, d)
	d.Lanes = d.Lanes[:2]
	r := newRouter(t, c.Domain(d))
	adm := c.Admin(t)
	l := leftovers(t, r, adm)[0]
	backlog := func(want int64) {
		t.Helper()
		n, err := l.Backlog(t.Context(), adm)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	backlog(0) // nothing was ever written, and nobody has read
	raw := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 30 {
		require.NoError(t, raw.ProduceSync(t.Context(), &kgo.Record{Topic: l.Topic, Partition: int32(i % 2)}).FirstErr())
	}
	backlog(30)
	commit := kadm.Offsets{}
	commit.AddOffset(l.Topic, 0, 9, -1)
	require.NoError(t, adm.CommitAllOffsets(t.Context(), l.Group, commit))
	backlog(21)
	trim := kadm.Offsets{}
	trim.AddOffset(l.Topic, 0, 12, -1)
	trim.AddOffset(l.Topic, 1, 10, -1)
	_, err := adm.DeleteRecords(t.Context(), trim)
	require.NoError(t, err)
	backlog(8)
	commit.AddOffset(l.Topic, 0, 15, -1)
	commit.AddOffset(l.Topic, 1, 15, -1)
	require.NoError(t, adm.CommitAllOffsets(t.Context(), l.Group, commit))
	backlog(0)

	gone := func(want bool) {
		t.Helper()
		is, err := l.Gone(t.Context(), c.Admin(t))
		require.NoError(t, err)
		require.Equal(t, want, is)
	}
	gone(false)
	require.NoError(t, c.Kfake().DeleteTopic(l.Topic))
	gone(true)
	require.NoError(t, c.Kfake().CreateTopic(l.Topic, 2, nil))
	gone(true) // it is another topic
	_, err = l.Backlog(t.Context(), adm)
	require.NoError(t, err)
}
