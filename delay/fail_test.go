package delay_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
)

// refuse makes each write to the topic fail definitely until it is removed.
func (b *bench) refuse(topic string) *kfake.FaultHandle {
	return b.c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
}

// One lane that can't be written holds back its own tasks and no others, and
// nothing of it is committed.
func TestALaneThatRefusesWritesHoldsUpNobodyAndLosesNothing(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		near := b.r.Near()
		fault := b.refuse(b.r.Lane("high"))
		began := time.Now()
		first := tasks("first", 10, "low", always(began.Add(time.Second)))
		stuck := tasks("stuck", 100, "high", always(began.Add(2*time.Second)))
		behind := tasks("behind", 100, "low", always(began.Add(3*time.Second)))
		b.put(near, 0, slices.Concat(first, stuck, behind)...)
		b.mover()
		time.Sleep(40 * time.Second)
		b.requireOnTime(0, slices.Concat(first, behind)...)
		require.EqualValues(t, 10, b.committed(near, 0))
		// Each record was tried with growing waits and not all the time.
		require.Less(t, fault.Hits(), 100*20)
		fault.Remove()
		time.Sleep(6 * time.Second)
		b.requireOnTime(time.Minute, slices.Concat(first, stuck, behind)...)
		require.EqualValues(t, 210, b.committed(near, 0))
	})
}

// More tasks for a lane that can't be written than may be on their way at once.
func TestALaneThatRefusesMoreThanMayBeOpenStillHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]struct{ n, size int }{
		"in number": {delay.MaxOpen + 500, 0},
		"in bytes":  {120, 500 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Delay{NearPartitions: 2})
				fault := b.refuse(b.r.Lane("high"))
				began := time.Now()
				stuck := tasks("stuck", many.n, "high", always(began.Add(4*time.Second)))
				payload := make([]byte, many.size)
				for _, s := range stuck {
					s.Payload = payload
				}
				if many.size > 0 { // above what the bench's client takes
					b.raw = c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
				}
				same := tasks("same", 50, "low", always(began.Add(5*time.Second)))
				other := tasks("other", 50, "low", always(began.Add(5500*time.Millisecond)))
				b.put(b.r.Near(), 0, stuck...)
				b.put(b.r.Near(), 0, same...)
				b.put(b.r.Near(), 1, other...)
				m := b.mover()
				time.Sleep(6 * time.Second)
				want := slices.Concat(same, other)
				n, bytes, held := delay.OnTheWay(m.m, b.r.Lane("high"))
				require.LessOrEqual(t, n, delay.MaxOpen)
				require.LessOrEqual(t, bytes, delay.MaxOpenBytes+1<<20)
				if many.size > 0 {
					want = other // the partition itself is full of what is stuck
					require.Greater(t, bytes, delay.MaxOpenBytes/2)
					require.LessOrEqual(t, held, delay.NearBytes+8<<20, "the bound and one poll")
					_, paused := delay.Held(m.m, b.r.Near(), 0)
					require.True(t, paused)
				}
				for _, task := range want {
					require.True(t, slices.ContainsFunc(b.arrived(), func(a arrival) bool { return a.ID == task.ID && !a.at.After(a.Due) }), task.ID)
				}
				require.LessOrEqual(t, b.committed(b.r.Near(), 0), int64(0))
				fault.Remove()
				time.Sleep(20 * time.Second)
				b.requireOnTime(time.Minute, slices.Concat(stuck, same, other)...)
				require.EqualValues(t, many.n+50, b.committed(b.r.Near(), 0))
			})
		})
	}
}

// deaths returns the dead topic's records by their reason.
func (b *bench) deaths() map[string]int {
	out := map[string]int{}
	for _, r := range b.c.Records(b.t, b.r.Dead()) {
		i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == ax.HeaderDeadReason })
		require.GreaterOrEqual(b.t, i, 0)
		out[string(r.Headers[i].Value)]++
	}
	return out
}

func TestWhatIsNoTaskGoesToTheDeadTopicAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}})
		fault := b.refuse(b.r.Dead())
		began := time.Now()
		var all []*ax.Task
		for _, topic := range []string{b.r.Near(), b.r.Tiers()[0].Topic, b.r.Tiers()[1].Topic} {
			for i := range 20 {
				good := leaving(began.Add(time.Second), tasks(fmt.Sprint(topic, i), 1, "low", always(began.Add(4*time.Second)))...)
				b.put(topic, 0, good...)
				all = append(all, good...)
				bad := &kgo.Record{Topic: topic, Value: []byte("bad"), Headers: []kgo.RecordHeader{{Key: "ax-due", Value: []byte("soon")}}}
				require.NoError(t, b.raw.ProduceSync(t.Context(), bad).FirstErr())
			}
		}
		m := b.mover()
		time.Sleep(20 * time.Second)
		b.requireOnTime(0, all...)
		require.Empty(t, b.deaths())
		require.EqualValues(t, 1, b.committed(b.r.Near(), 0))
		fault.Remove()
		time.Sleep(6 * time.Second)
		require.Equal(t, map[string]int{"malformed": 60}, b.deaths())
		for _, topic := range []string{b.r.Near(), b.r.Tiers()[0].Topic, b.r.Tiers()[1].Topic} {
			require.Equal(t, b.count(topic), b.committed(topic, 0))
		}
		require.NoError(t, m.stop())
		b.mover()
		time.Sleep(10 * time.Second)
		require.Len(t, b.c.Records(t, b.r.Dead()), 60)
		b.requireOnTime(0, all...)
		r := b.c.Records(t, b.r.Dead())[0]
		require.Equal(t, "bad", string(r.Value))
		require.Contains(t, r.Headers, kgo.RecordHeader{Key: "ax-due", Value: []byte("soon")})
	})
}

// A broker refuses a whole batch for one record in it that is too large; only
// that one must die.
func TestWhatALaneFindsTooLargeGoesToTheDeadTopicAlone(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		limit := "2000"
		_, err := c.Admin(t).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, b.r.Lane("high"))
		require.NoError(t, err)
		due := time.Now().Add(time.Second)
		small := tasks("small", 30, "high", always(due))
		big := tasks("big", 1, "high", always(due))
		big[0].Key, big[0].Payload = "k", []byte(strings.Repeat("0123456789abcdef", 400))
		big[0].Attempt = 3
		b.put(b.r.Near(), 0, slices.Concat(small[:15], big, small[15:])...)
		b.mover(delay.WithKafka(kgo.ProducerBatchCompression(kgo.NoCompression())))
		time.Sleep(10 * time.Second)
		b.requireOnTime(time.Second, small...)
		require.Equal(t, map[string]int{"too-large": 1}, b.deaths())
		dead := b.c.Records(t, b.r.Dead())[0]
		task, err := ax.Decode(dead, [16]byte{})
		require.NoError(t, err)
		require.Equal(t, "big-0", task.ID)
		require.Equal(t, big[0].Payload, task.Payload)
		require.Contains(t, dead.Headers, kgo.RecordHeader{Key: ax.HeaderDeadSource, Value: []byte(b.r.Near() + "/0/15/0")})
		require.Contains(t, dead.Headers, kgo.RecordHeader{Key: ax.HeaderDeadAttempt, Value: []byte("2")})
		require.EqualValues(t, 31, b.committed(b.r.Near(), 0))
	})
}

func TestATaskOfALaneThatIsUnknownGoesToTheLaneOfLeastWeight(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		all := tasks("t", 2, "gone", always(time.Now().Add(time.Second)))
		b.put(b.r.Near(), 0, all...)
		b.mover()
		time.Sleep(5 * time.Second)
		b.requireOnTime(0, all...)
		for _, a := range b.arrived() {
			require.Equal(t, b.r.Lane("low"), a.topic)
			require.Equal(t, "gone", a.Lane, "the name stays, for when the lane is back")
		}
	})
}

// Who lost a partition while a lane refused its tasks must not write them when
// the lane is back: the new owner does.
func TestWhoLostThePartitionGivesUpWhatFailedDefinitely(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{NearPartitions: 2})
		fault := b.refuse(b.r.Lane("high"))
		due := time.Now().Add(time.Second)
		var all []*ax.Task
		for p := range int32(2) {
			ts := tasks(fmt.Sprint("t", p), 20, "high", always(due))
			b.put(b.r.Near(), p, ts...)
			all = append(all, ts...)
		}
		b.mover(delay.WithGrace(2 * time.Second))
		time.Sleep(5 * time.Second)
		b.mover(delay.WithGrace(2 * time.Second))
		time.Sleep(20 * time.Second)
		require.Len(t, c.Kfake().GroupInfo(b.r.NearGroup()).Members, 2)
		fault.Remove()
		time.Sleep(10 * time.Second)
		b.requireOnTime(time.Minute, all...)
	})
}

// After days idle the broker has forgotten the id of the mover's producer, and
// refuses every move; the mover must not, as once a tier did, wait for ever.
func TestAProducerThatTheBrokerForgotHoldsUpNothing(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		first := tasks("first", 5, "high", always(time.Now().Add(time.Second)))
		b.put(b.r.Near(), 0, first...)
		b.mover()
		time.Sleep(time.Hour)
		b.requireOnTime(0, first...)
		var forgotten atomic.Int64
		c.Kfake().Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: b.r.Lane("high"), Err: kerr.InvalidProducerIDMapping, Count: -1,
			When: func(req kmsg.Request) bool {
				const idAt = 43
				id := int64(binary.BigEndian.Uint64(req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records[idAt:])) + 1
				return forgotten.CompareAndSwap(0, id) || forgotten.Load() == id
			},
		})
		second := tasks("second", 5, "high", always(time.Now().Add(time.Second)))
		b.put(b.r.Near(), 0, second...)
		time.Sleep(20 * time.Second)
		b.requireOnTime(10*time.Second, slices.Concat(first, second)...)
		require.EqualValues(t, 10, b.committed(b.r.Near(), 0))
	}, fakekafka.Brokers(3)) // or the domain would be fast, without producer ids
}
