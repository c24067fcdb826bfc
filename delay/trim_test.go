package delay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
)

// start returns the first offset that a partition holds.
func (b *bench) start(topic string, partition int32) int64 {
	return b.c.Kfake().PartitionInfo(topic, partition).LogStartOffset
}

func TestTrimDeletesOnlyBelowWhatIsCommitted(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}})
		now := time.Now()
		high, near, far := b.r.Lane("high"), b.r.Near(), b.r.Tiers()[1]
		b.put(near, 0, tasks("n", 10, "high", always(now.Add(time.Second)))...)
		late := tasks("late", 5, "high", always(now.Add(4500*time.Millisecond)))
		b.put(near, 0, late...)
		b.put(far.Topic, 0, leaving(now.Add(far.Wait), tasks("f", 5, "high", always(now.Add(time.Minute)))...)...)
		b.mover(delay.WithTrim())
		time.Sleep(3500 * time.Millisecond)
		require.EqualValues(t, 10, b.start(near, 0), "what is moved and committed")
		require.Zero(t, b.start(far.Topic, 0), "what waits")
		require.Zero(t, b.start(high, 0), "a lane whose workers have committed nothing")
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 15, b.start(near, 0))

		require.NoError(t, c.Admin(t).CommitAllOffsets(t.Context(), b.r.LaneGroup("high"), kadm.OffsetsFromFetches(nil)))
		offsets := kadm.Offsets{}
		offsets.AddOffset(high, 0, 7, -1)
		require.NoError(t, c.Admin(t).CommitAllOffsets(t.Context(), b.r.LaneGroup("high"), offsets))
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 7, b.start(high, 0))
		require.Zero(t, b.start(b.r.Lane("low"), 0))
	})
}

func TestWithoutTheOptionNothingIsDeleted(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		deletes := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Observe: true, Count: -1})
		b.put(b.r.Near(), 0, tasks("n", 10, "high", always(time.Now()))...)
		b.mover()
		time.Sleep(time.Minute)
		require.Zero(t, deletes.Hits())
		require.Zero(t, b.start(b.r.Near(), 0))
	})
}

// Who may not delete, or can't learn what is committed, keeps everything and
// goes on moving.
func TestATrimThatIsRefusedIsHarmless(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]kfake.Fault{
		"no permission to delete": {Keys: []kmsg.Key{kmsg.DeleteRecords}, Err: kerr.TopicAuthorizationFailed, Count: -1},
		"no permission to ask":    {Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.GroupAuthorizationFailed, Count: -1, Group: "orders.mover.near"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Delay{})
				all := tasks("n", 10, "high", func(i int) time.Time { return time.Now().Add(time.Duration(i+1) * 400 * time.Millisecond) })
				b.put(b.r.Near(), 0, all...)
				m := b.mover(delay.WithTrim())
				time.Sleep(500 * time.Millisecond) // it has joined
				fault := c.Kfake().Fault(f)
				time.Sleep(10 * time.Second)
				b.requireOnTime(0, all...)
				require.GreaterOrEqual(t, fault.Hits(), 5)
				require.Zero(t, b.start(b.r.Near(), 0))
				fault.Remove()
				time.Sleep(2 * time.Second)
				require.EqualValues(t, 10, b.start(b.r.Near(), 0))
				require.NoError(t, m.stop())
			})
		})
	}
}
