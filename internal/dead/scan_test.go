package dead_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/dead"
	"github.com/axtasks/ax/internal/fakekafka"
)

func TestOnlyTheLastRecordOfADeathIsLive(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakekafka.Start(t))
	require.Empty(t, b.live(dead.Filter{}, place), "of an empty topic")
	in := func(p int32, r *kgo.Record) *kgo.Record {
		r.Partition = p
		return r
	}
	b.put(b.job(0)) // 0/0
	gone := b.put(b.job(1))
	b.put(tomb(gone)) // 0/2
	twice := b.put(b.job(3))
	b.put(again(twice)) // 0/4
	back := b.put(b.job(5))
	b.put(tomb(back), again(back)) // 0/7
	b.put(tomb(b.job(8)))          // of a death that is compacted away
	// Partition 2 has the same key as a tombstone elsewhere, and two deaths of
	// one task. Partition 1 is empty.
	b.put(in(2, b.job(1)))
	b.put(in(2, b.death(11, ax.Task{ID: "same", Kind: "job"})), in(2, b.death(12, ax.Task{ID: "same", Kind: "job"})))
	require.Equal(t, []string{"job-0@0/0", "job-3@0/4", "job-5@0/7", "job-1@2/0", "same@2/1", "same@2/2"}, b.live(dead.Filter{}, place))
}

func TestADeathWithoutAPayloadIsLiveAndAMalformedOneIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakekafka.Start(t))
	raw := &kgo.Record{Topic: "orders.lane.low", Offset: 4, Key: []byte("own"), Value: []byte{0xff}, Headers: []kgo.RecordHeader{
		{Key: ax.HeaderID, Value: []byte("bad id")}, {Key: ax.HeaderDue, Value: []byte("never")},
	}}
	dr := ax.DeadRecord(raw, ax.Death{Reason: ax.ReasonMalformed, Error: "no", At: day, TopicID: [16]byte{7}})
	dr.Topic = b.r.Dead()
	b.put(b.death(1, ax.Task{ID: "none", Kind: "job"}), dr)
	b.put(&kgo.Record{Topic: b.r.Dead(), Key: []byte("bare"), Value: []byte("x")})
	var all []dead.Entry
	require.NoError(t, b.scan().Each(t.Context(), func(e *dead.Entry) error {
		all = append(all, *e)
		return nil
	}))
	require.Len(t, all, 3)
	require.Equal(t, "none", all[0].Task.ID)
	require.Empty(t, all[0].Task.Payload)
	bad := all[1]
	require.Nil(t, bad.Task)
	require.ErrorIs(t, bad.Fault, ax.ErrMalformed)
	require.Equal(t, []string{"bad id", "", "own", "malformed", "no", "orders.lane.low/0/4/0"},
		[]string{bad.ID, bad.Kind, bad.Key, string(bad.Reason), bad.Error, bad.Source})
	require.Equal(t, []byte{0xff}, bad.Record.Value)
	require.Equal(t, "bare", all[2].Death)
	require.True(t, all[2].At.IsZero())
	require.Error(t, all[2].Fault)
}

func TestAnEntryTellsAllOfTheTaskAndItsDeath(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakekafka.Start(t))
	task := ax.Task{
		ID: "a", Kind: "job", Lane: "low", Key: "k\x00", Payload: []byte("9007199254740993"), Attempt: 3, Deferrals: 2, Timeout: time.Second,
		Due: day, Expires: day.Add(time.Hour), Submitted: day, Hop: "hop", Headers: []ax.Header{{Name: "traceparent", Value: []byte("t")}},
	}
	b.put(b.death(9, task))
	b.put(b.death(10, ax.Task{Kind: "bare"}))
	var all []*dead.Entry
	require.NoError(t, b.scan().Each(t.Context(), func(e *dead.Entry) error {
		all = append(all, e)
		return nil
	}))
	e := all[0]
	require.Equal(t, fmt.Sprintf("%x-0-9-0", [16]byte{7}), e.Death)
	require.Equal(t, []any{ax.ReasonFailed, "it broke", day, 3, "orders.lane.low/0/9/0"}, []any{e.Reason, e.Error, e.At, e.Attempts, e.Source})
	require.Equal(t, []string{"a", "job", "low", "k\x00"}, []string{e.ID, e.Kind, e.Lane, e.Key})
	task.Source = e.Task.Source
	require.Equal(t, &task, e.Task)
	require.Equal(t, all[1].Death, all[1].ID, "a bare record's id derives from its place")
	require.Equal(t, all[1].Death, all[1].Task.ID)
}

// The last offsets of a log hold nothing that a reader gets: a marker of a
// transaction, then what compaction has taken away.
func TestAScanEndsWhereTheLastOffsetsHoldNothing(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	b := newBench(t, c)
	b.put(b.job(0))
	tx := c.Client(t, kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, tx.BeginTransaction())
	require.NoError(t, tx.ProduceSync(t.Context(), b.job(1)).FirstErr())
	require.NoError(t, tx.EndTransaction(t.Context(), kgo.TryCommit))
	require.Equal(t, []string{"job-0@0/0", "job-1@0/1"}, b.live(dead.Filter{}, place))

	gone := b.job(2)
	gone.Partition = 1
	b.put(gone)
	_, err := c.Admin(t).DeleteRecords(t.Context(), kadm.Offsets{b.r.Dead(): {1: {Topic: b.r.Dead(), Partition: 1, At: 1}}})
	require.NoError(t, err)
	require.Equal(t, []string{"job-0@0/0", "job-1@0/1"}, b.live(dead.Filter{}, place))
}

// The answer to a fetch is empty below the end: nothing is left there. A leader
// that knows less of the log than was promised is asked again.
func TestAnEmptyAnswerBelowTheEndIsTheEndIfTheLeaderKnowsOfIt(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		b.put(b.job(0), b.job(1))
		mark := int64(2)
		c.Kfake().ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.Kfake().KeepControl()
			asked := req.(*kmsg.FetchRequest)
			if len(asked.Topics) != 1 || asked.Topics[0].Partitions[0].Partition != 0 {
				return nil, nil, false
			}
			return empty(asked, mark), nil, true
		})
		began := time.Now()
		require.Empty(t, b.live(dead.Filter{}, place))
		require.Less(t, time.Since(began), 5*time.Second)
		mark = 1
		_, err := b.open()
		require.ErrorContains(t, err, "ax: dead topic: nothing for 30s: read orders.dead/0@0: its leader knows no offsets up to the end")
	})
}

// empty is an answer without records.
func empty(asked *kmsg.FetchRequest, mark int64) *kmsg.FetchResponse {
	resp := asked.ResponseKind().(*kmsg.FetchResponse)
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic, topic.TopicID = asked.Topics[0].Topic, asked.Topics[0].TopicID
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.HighWatermark = asked.Topics[0].Partitions[0].Partition, mark
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	return resp
}

func TestAPartitionThatCantBeReadIsAnErrorAndNoHang(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		b.put(b.job(0))
		fault := kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: b.r.Dead(), Partitions: []int32{0}, Err: kerr.NotLeaderForPartition, Count: 3}
		c.Kfake().Fault(fault)
		require.Equal(t, []string{"job-0"}, b.live(dead.Filter{}, id), "it asks again")

		fault.Count = -1
		h := c.Kfake().Fault(fault)
		began := time.Now()
		_, err := b.open()
		require.ErrorContains(t, err, "nothing for 30s: read orders.dead/0@0: NOT_LEADER_FOR_PARTITION")
		require.InDelta(t, 30, time.Since(began).Seconds(), 1)
		h.Remove()

		fault.Err = kerr.TopicAuthorizationFailed
		h = c.Kfake().Fault(fault)
		began = time.Now()
		_, err = b.open()
		require.ErrorIs(t, err, ax.ErrAuth)
		require.Less(t, time.Since(began), time.Second, "to ask again is no use")
		h.Remove()
	})
}

func TestABrokerThatIsSilentIsAnErrorAndNoHang(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		b.put(b.job(0))
		c.Kfake().ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.Kfake().KeepControl()
			return nil, nil, true
		})
		began := time.Now()
		_, err := b.open()
		require.ErrorContains(t, err, "nothing for 30s: read orders.dead/0@0: ")
		require.InDelta(t, 30, time.Since(began).Seconds(), 1)
	})
}

func TestAScanGoesOnWhereTheLogBeginsAnew(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	b := newBench(t, c)
	b.put(b.job(0), b.job(1), b.job(2))
	s := b.scan()
	_, err := c.Admin(t).DeleteRecords(t.Context(), kadm.Offsets{b.r.Dead(): {0: {Topic: b.r.Dead(), Partition: 0, At: 2}}})
	require.NoError(t, err)
	var all []string
	require.NoError(t, s.Each(t.Context(), func(e *dead.Entry) error {
		all = append(all, e.ID)
		return nil
	}))
	require.Equal(t, []string{"job-2"}, all)
}

func TestAScanOfAMissingTopicAndOneThatIsStopped(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	b := newBench(t, c)
	b.put(b.job(0))
	s := b.scan()
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	stop(why)
	require.ErrorIs(t, s.Each(ctx, func(*dead.Entry) error { return nil }), why)
	require.ErrorIs(t, s.Each(t.Context(), func(*dead.Entry) error { return why }), why)
	b.put(b.job(1))
	n := 0
	require.NoError(t, s.Each(t.Context(), func(*dead.Entry) error { n++; return nil }))
	require.Equal(t, 1, n, "what is written later is not seen")

	_, err := c.Admin(t).DeleteTopics(t.Context(), b.r.Dead())
	require.NoError(t, err)
	_, err = b.open()
	require.ErrorIs(t, err, ax.ErrTopicMissing)
}

// Not parallel: it measures memory.
func TestAScanTakesMemoryByTombstonesAndNotByDeaths(t *testing.T) {
	const deaths, tombs = 50_000, 25_000
	b := newBench(t, fakekafka.Start(t))
	for from := 0; from < deaths; from += 5_000 {
		rs := make([]*kgo.Record, 0, 7_500)
		for n := from; n < from+5_000; n++ {
			r := b.job(n)
			r.Partition = int32(n % 3)
			rs = append(rs, r)
			if n%(deaths/tombs) == 0 {
				rs = append(rs, tomb(r))
			}
		}
		b.put(rs...)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, n := heap(), uint64(0), 0
	began := time.Now()
	s := b.scan()
	require.NoError(t, s.Each(t.Context(), func(*dead.Entry) error {
		if n++; n%5_000 == 1 {
			most = max(most, heap())
		}
		return nil
	}))
	require.Equal(t, deaths-tombs, n)
	grown := int64(most) - int64(before)
	t.Logf("%d deaths, %d tombstones: the heap grows by %.1f MB; %s", deaths, tombs, float64(grown)/1e6, time.Since(began).Round(time.Millisecond))
	require.LessOrEqual(t, grown, int64(32<<20+16*tombs))
}
