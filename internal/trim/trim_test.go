package trim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/trim"
)

func TestEveryLaneAndTierIsTrimmedToItsCommitAndTheDeadTopicNever(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		high, low, near, dead := b.r.Lane("high"), b.r.Lane("low"), b.r.Near(), b.r.Dead()
		first, second := b.r.Tiers()[0].Topic, b.r.Tiers()[1].Topic
		groups := map[string]string{
			high: b.r.LaneGroup("high"), low: b.r.LaneGroup("low"), near: b.r.NearGroup(),
			first: b.r.FarGroup(), second: b.r.FarGroup(), dead: b.r.LaneGroup("high"),
		}
		deletes := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Topic: dead, Observe: true, Count: -1})
		for topic, group := range groups {
			b.put(topic, 0, 10)
			b.commit(group, topic, 0, 4, text(b.id(topic), 4))
		}
		report := b.once()
		require.EqualValues(t, 5*4, report.Deleted())
		require.Len(t, report.Topics, 5)
		require.Equal(t, trim.Topic{Name: near, Deleted: 4}, report.Topics[2])
		require.Equal(t, "orders.delay.1m: 4 records deleted\norders.delay.5s: 4 records deleted\norders.delay.near: 4 records deleted\n"+
			"orders.lane.high: 4 records deleted\norders.lane.low: 4 records deleted\n", report.String())
		for topic := range groups {
			want := int64(4)
			if topic == dead {
				want = 0
			}
			require.Equal(t, want, b.start(topic, 0), topic)
		}
		require.Zero(t, deletes.Hits())
		require.Empty(t, b.once().Topics, "what is trimmed already is not asked for again")

		b.commit(groups[high], high, 0, 10)
		require.EqualValues(t, 6, b.once().Deleted(), "up to the end")
		require.EqualValues(t, 10, b.start(high, 0))
	})
}

func TestAGroupThatHasCommittedSomePartitionsKeepsTheOthers(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		low := b.r.Lane("low")
		b.put(low, 0, 10)
		b.put(low, 1, 10)
		b.put(b.r.Near(), 0, 10) // of a group that does not exist
		b.commit(b.r.LaneGroup("low"), low, 1, 5)
		report := b.once()
		require.Zero(t, b.start(low, 0))
		require.EqualValues(t, 5, b.start(low, 1))
		require.Zero(t, b.start(b.r.Near(), 0))
		require.Equal(t, "orders.delay.near/0: kept: group orders.mover.near: it has committed nothing\n"+
			"orders.lane.low: 5 records deleted\norders.lane.low/0: kept: group orders.worker.low: it has committed nothing\n", report.String())
	})
}

func TestALaneKeepsWhatAnotherGroupHasNotCommitted(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, "audit", "billing")
		low := b.r.Lane("low")
		for p := range int32(2) {
			b.put(low, p, 10)
			b.commit(b.r.LaneGroup("low"), low, p, 8, text(b.id(low), 8))
			b.commit("billing", low, p, 9, "whatever it says")
		}
		b.put(b.r.Near(), 0, 10)
		b.commit(b.r.NearGroup(), b.r.Near(), 0, 8)
		report := b.once()
		require.EqualValues(t, 8, b.start(b.r.Near(), 0), "tiers are ax's alone")
		require.Zero(t, b.start(low, 0))
		require.Contains(t, report.String(), "orders.lane.low/0,1: kept: group audit: it has committed nothing\n")

		b.commit("audit", low, 0, 3)
		b.once()
		require.EqualValues(t, 3, b.start(low, 0))
		require.Zero(t, b.start(low, 1), "there it has committed nothing")
		b.commit("audit", low, 0, 10)
		b.commit("audit", low, 1, 10)
		require.Empty(t, b.once().Topics[0].Blocked)
		for p := range int32(2) {
			require.EqualValues(t, 8, b.start(low, p), "ax's own group counts as well")
		}
	})
}

func TestWhatTheDomainNoLongerNamesIsTrimmedToo(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, "audit")
		low, tier := b.r.Lane("low"), b.r.Tiers()[1].Topic
		d := b.r.Domain()
		d.Lanes, d.Delay.Tiers, d.DefaultLane = d.Lanes[:1], d.Delay.Tiers[:1], ""
		b.edit(d)
		b.put(low, 0, 10)
		b.put(tier, 0, 10)
		b.commit("orders.worker.low", low, 0, 7)
		b.commit("audit", low, 0, 6)
		b.commit("orders.mover.far", tier, 0, 5)
		b.once()
		require.EqualValues(t, 6, b.start(low, 0), "the audit reads it to its end")
		require.EqualValues(t, 5, b.start(tier, 0))
	})
}

// A topic was deleted and made anew under its name, and the group still has the
// commit of the old one.
func TestACommitOfAnOlderTopicOfTheNameKeepsEverything(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		high, group := b.r.Lane("high"), b.r.LaneGroup("high")
		b.put(high, 0, 20)
		old := text(b.id(high), 20)
		require.NoError(t, c.Kfake().DeleteTopic(high))
		b.edit(b.r.Domain())
		b.put(high, 0, 30)
		b.put(b.r.Near(), 0, 10)
		b.commit(b.r.NearGroup(), b.r.Near(), 0, 6)
		for name, metadata := range map[string]string{"of the old topic": old, "damaged": old[:len(old)-2], "of somebody else": "client-7"} {
			b.commit(group, high, 0, 20, metadata)
			report, err := b.trim.Once(t.Context())
			require.ErrorContains(t, err, "orders.lane.high: group orders.worker.high: the metadata of its commit is not that of this topic", name)
			require.Contains(t, report.String(), "orders.lane.high/0: kept: group orders.worker.high: the metadata", name)
			require.Zero(t, b.start(high, 0), name)
		}
		require.EqualValues(t, 6, b.start(b.r.Near(), 0), "all others go on")
		b.commit(group, high, 0, 20, text(b.id(high), 20))
		require.EqualValues(t, 20, b.once().Deleted())
	})
}

func TestACommitBeyondTheLogsEndKeepsEverything(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, "audit")
		high, low := b.r.Lane("high"), b.r.Lane("low")
		own := map[string]string{high: b.r.LaneGroup("high"), low: b.r.LaneGroup("low")}
		deletes := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Observe: true, Count: -1})
		for topic, group := range own {
			b.put(topic, 0, 10)
			b.commit(group, topic, 0, 8)
			b.commit("audit", topic, 0, 8)
		}
		b.commit("audit", low, 0, 11)
		b.commit(own[high], high, 0, 11)
		report, err := b.trim.Once(t.Context())
		require.ErrorContains(t, err, "orders.lane.high: group orders.worker.high: its commit of 11 is beyond the log's end, which is 10")
		require.ErrorContains(t, err, "orders.lane.low: group audit: its commit of 11 is beyond the log's end, which is 10")
		require.Zero(t, report.Deleted())
		require.Zero(t, deletes.Hits(), "a broker is not even asked to")
	})
}

// It is made anew between the first question and the last one, so that commits
// and ends may be those of two topics.
func TestATopicThatIsMadeAnewDuringARoundIsKept(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		high := b.r.Lane("high")
		b.put(high, 0, 10)
		b.commit(b.r.LaneGroup("high"), high, 0, 8)
		asked := 0
		c.Kfake().ControlKey(kmsg.ListOffsets.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.Kfake().KeepControl()
			if asked++; asked == 2 { // for the ends
				c.Kfake().SleepControl(func() {
					require.NoError(t, c.Kfake().DeleteTopic(high))
					b.edit(b.r.Domain())
					b.put(high, 0, 9)
				})
			}
			return nil, nil, false
		})
		_, err := b.trim.Once(t.Context())
		require.ErrorContains(t, err, "orders.lane.high: it was made anew meanwhile")
		require.Zero(t, b.start(high, 0))
	})
}

func TestAListedGroupThatHasNeverCommittedIsWarnedOf(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, "audti")
		b.put(b.r.Lane("high"), 0, 10)
		b.put(b.r.Near(), 0, 10)
		stop := b.run()
		time.Sleep(3*time.Minute - time.Second)
		stop()
		require.Equal(t, 3, b.log.count("level=WARN"))
		require.Equal(t, 3, b.log.count(`orders.lane.high for audti`))
		require.Zero(t, b.log.count("orders.delay.near"), "the own group may just have had no reason yet")
		require.Zero(t, b.log.count("level=ERROR"))
	})
}

func TestAPartitionWithoutRecordsWaitsForNobody(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, "audit")
		b.commit(b.r.LaneGroup("high"), b.r.Lane("high"), 0, 50, text([16]byte{1}, 50))
		require.Empty(t, b.once().Topics)
		b.put(b.r.Lane("high"), 0, 5)
		below := kadm.Offsets{}
		below.AddOffset(b.r.Lane("high"), 0, 5, -1)
		_, err := b.adm.DeleteRecords(t.Context(), below)
		require.NoError(t, err)
		require.Empty(t, b.once().Topics)
	})
}
