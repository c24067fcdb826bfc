package publish_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/publish"
)

// However much waits for a target that gives no answer, the client has no more
// of it than its room, and another target doesn't notice.
func TestADeadTargetTakesItsRoomAndSlowsNobody(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{MaxRecords: 20})
		dead := fault(c, topic, kerr.NotEnoughReplicas)
		o.publish(topic, "dead", 5000)
		time.Sleep(time.Second)
		require.EqualValues(t, 20, o.made()[0].BufferedProduceRecords())
		began := time.Now()
		o.publish(other, "live", 5000)
		for o.Open() > 5000 {
			time.Sleep(time.Millisecond)
		}
		o.requireAnswered(5000)
		require.Less(t, time.Since(began), 100*time.Millisecond)
		require.EqualValues(t, 20, o.made()[0].BufferedProduceRecords())
		dead.Remove()
		require.NoError(t, o.Flush(t.Context()))
		o.requireAnswered(10_000)
		require.Equal(t, numbered("dead", 5000), o.values(topic), "the order of the source")
		require.Zero(t, o.Copies())
	})
}

func TestTheRoomIsBoundedInBytesAndOneRecordAlwaysFits(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{MaxBytes: 10_000})
		dead := fault(c, topic, kerr.NotEnoughReplicas)
		for range 100 {
			o.Publish(publish.Item{Record: &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(strings.Repeat("x", 999))}, Done: func(*kgo.Record, error) {}})
		}
		o.publish(other, strings.Repeat("y", 20_000), 1)
		time.Sleep(time.Second)
		require.EqualValues(t, 10, o.made()[0].BufferedProduceRecords())
		o.requireAnswered(1)
		dead.Remove()
		require.NoError(t, o.Flush(t.Context()))
	})
}

// A topic that refuses everything is tried with what its room holds, and not
// with all that waits.
func TestATopicThatRefusesIsNotTriedWithAllThatWaits(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{MaxRecords: 10})
		refused := fault(c, topic, kerr.TopicAuthorizationFailed)
		o.publish(topic, "a", 1000)
		time.Sleep(10 * time.Second)
		require.Less(t, refused.Hits(), 10*20)
		refused.Remove()
		require.NoError(t, o.Flush(t.Context()))
		o.requireAnswered(1000)
	})
}

// Once another source waits, one that had all of the room gets no more than its
// share.
func TestOneSourceDoesNotTakeTheRoomOfTheOthers(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{MaxRecords: 8})
		dead := fault(c, topic, kerr.NotEnoughReplicas)
		o.publish(topic, "a", 200)
		time.Sleep(time.Second)
		require.EqualValues(t, 8, o.made()[0].BufferedProduceRecords(), "alone it has all of it")
		o.publish(topic, "b", 20)
		o.publish(topic, "c", 20)
		time.Sleep(time.Second)
		dead.Remove()
		require.NoError(t, o.Flush(t.Context()))
		last := map[string]int{}
		for i, v := range o.values(topic) {
			last[v[:1]] = i
		}
		require.LessOrEqual(t, last["b"], 8+4*20)
		require.LessOrEqual(t, last["c"], 8+4*20)
		require.Equal(t, 239, last["a"])
	})
}

// A source whose records get no answer, of a partition that is dead, gets no
// more than its share while others wait.
func TestASourceWithoutAnswersLeavesRoomToTheOthers(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{MaxRecords: 8})
		const split = "split"
		require.NoError(t, c.Kfake().CreateTopic(split, 2, nil))
		dead := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: split, Partitions: []int32{1}, Err: kerr.NotEnoughReplicas, Count: -1})
		o.publish(split, "live", 3000)
		for i := range 100 {
			r := &kgo.Record{Topic: split, Partition: 1, Value: fmt.Append(nil, "dead", i)}
			o.Publish(publish.Item{Record: r, Source: "dead", Done: o.done})
		}
		time.Sleep(5 * time.Second)
		o.requireAnswered(3000)
		dead.Remove()
		require.NoError(t, o.Flush(t.Context()))
		o.requireAnswered(3100)
	})
}
