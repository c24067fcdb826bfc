package trim_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/trim"
)

// Who may not ask or delete keeps what that is about, says so once in an
// interval, and trims all else.
func TestWhatIsRefusedIsKeptAndAllElseIsTrimmed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault kfake.Fault
		err   string
	}{
		"to delete":                 {kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Topic: "orders.lane.high", Err: kerr.TopicAuthorizationFailed}, "orders.lane.high: delete records: TOPIC_AUTHORIZATION_FAILED"},
		"to ask the own group":      {kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "orders.worker.high", Err: kerr.GroupAuthorizationFailed}, "commits of group orders.worker.high: GROUP_AUTHORIZATION_FAILED"},
		"to ask where the log ends": {kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "orders.lane.high", Err: kerr.UnknownServerError}, "orders.lane.high: ask for the log's start: UNKNOWN_SERVER_ERROR"},
		"commits that are unstable": {kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "orders.worker.high", Err: kerr.UnstableOffsetCommit}, "orders.worker.high: UNSTABLE_OFFSET_COMMIT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, k *fakekafka.Cluster) {
				b := newBench(t, k)
				high, near := b.r.Lane("high"), b.r.Near()
				b.put(high, 0, 10)
				b.put(near, 0, 10)
				b.commit(b.r.LaneGroup("high"), high, 0, 8)
				b.commit(b.r.NearGroup(), near, 0, 6)
				c.fault.Count = -1
				fault := k.Kfake().Fault(c.fault)
				stop := b.run()
				time.Sleep(4*time.Minute + 50*time.Second)
				require.Zero(t, b.start(high, 0))
				require.EqualValues(t, 6, b.start(near, 0))
				require.Equal(t, 5, b.log.count("level=ERROR"), "once at the start and in each of four intervals")
				require.Equal(t, 5, b.log.count(c.err))
				fault.Remove()
				time.Sleep(time.Minute)
				require.EqualValues(t, 8, b.start(high, 0), "nothing was lost but time")
				require.Equal(t, 5, b.log.count("level=ERROR"))
				stop()
			})
		})
	}
}

// An error of one partition, beside an offset that is worth nothing.
func TestACommitWithAnErrorKeepsItsPartition(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		low, group := b.r.Lane("low"), b.r.LaneGroup("low")
		for p := range int32(2) {
			b.put(low, p, 10)
			b.commit(group, low, p, 8)
		}
		id := b.id(low)
		c.Kfake().ControlKey(kmsg.OffsetFetch.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.Kfake().KeepControl()
			req := r.(*kmsg.OffsetFetchRequest)
			if len(req.Groups) != 1 || req.Groups[0].Group != group {
				return nil, nil, false
			}
			answer := kmsg.NewOffsetFetchResponseGroup()
			answer.Group = group
			topic := kmsg.NewOffsetFetchResponseGroupTopic()
			topic.Topic, topic.TopicID = low, id
			for p := range int32(2) {
				part := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				part.Partition, part.Offset = p, 8
				if p == 0 {
					part.ErrorCode = kerr.UnknownServerError.Code
				}
				topic.Partitions = append(topic.Partitions, part)
			}
			answer.Topics = append(answer.Topics, topic)
			resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
			resp.Groups = append(resp.Groups, answer)
			return resp, nil, true
		})
		_, err := b.trim.Once(t.Context())
		require.ErrorContains(t, err, "orders.lane.low: group orders.worker.low: UNKNOWN_SERVER_ERROR")
		require.Zero(t, b.start(low, 0))
		require.EqualValues(t, 8, b.start(low, 1))
	})
}

func TestAGroupThatCannotBeAskedKeepsTheLanesItReads(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, "audit")
		for _, lane := range []string{"high", "low"} {
			b.put(b.r.Lane(lane), 0, 10)
			b.commit(b.r.LaneGroup(lane), b.r.Lane(lane), 0, 8)
			b.commit("audit", b.r.Lane(lane), 0, 8)
		}
		b.put(b.r.Near(), 0, 10)
		b.commit(b.r.NearGroup(), b.r.Near(), 0, 6)
		fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "audit", Err: kerr.GroupAuthorizationFailed, Count: -1})
		report, err := b.trim.Once(t.Context())
		require.ErrorIs(t, err, ax.ErrAuth)
		require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), 1, "a group's error is said once, not for each lane")
		require.EqualValues(t, 6, report.Deleted())
		require.EqualValues(t, 6, b.start(b.r.Near(), 0))
		fault.Remove()
		require.EqualValues(t, 16, b.once().Deleted())
	})
}

// A coordinator that does not answer costs a round its deadline, not the others
// their answers.
func TestACoordinatorThatIsAwayHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		away := []string{"a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"}
		b := newBench(t, c, away...)
		high, near, far := b.r.Lane("high"), b.r.Near(), b.r.Tiers()[0].Topic
		for topic, group := range map[string]string{high: b.r.LaneGroup("high"), near: b.r.NearGroup(), far: b.r.FarGroup()} {
			b.put(topic, 0, 10)
			b.commit(group, topic, 0, 6)
		}
		for _, group := range away {
			b.commit(group, high, 0, 6)
			c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: group, Err: kerr.CoordinatorLoadInProgress, Count: -1})
		}
		began := time.Now()
		_, err := b.trim.Once(t.Context())
		for _, group := range away {
			require.ErrorContains(t, err, "commits of group "+group+": ")
		}
		require.LessOrEqual(t, time.Since(began), 11*time.Second)
		require.Zero(t, b.start(high, 0))
		require.EqualValues(t, 6, b.start(near, 0))
		require.EqualValues(t, 6, b.start(far, 0))
	})
}

// A topic that may not be described looks missing, but a question for it by its
// name fails as a whole.
func TestAMissingTopicIsSaidAndAllElseIsTrimmed(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		b.put(b.r.Near(), 0, 10)
		b.commit(b.r.NearGroup(), b.r.Near(), 0, 6)
		require.NoError(t, c.Kfake().DeleteTopic(b.r.Lane("high")))
		c.Kfake().Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Metadata}, Topic: b.r.Lane("high"), Err: kerr.TopicAuthorizationFailed, Count: -1,
			When: func(req kmsg.Request) bool { return len(req.(*kmsg.MetadataRequest).Topics) > 0 },
		})
		report, err := b.trim.Once(t.Context())
		require.ErrorContains(t, err, "orders.lane.high: it does not exist")
		require.Contains(t, report.String(), "orders.lane.high: kept: it does not exist")
		require.EqualValues(t, 6, b.start(b.r.Near(), 0))
	})
}

func TestARoundWithoutAnAnswerEndsWithinItsDeadline(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		silent := c.Client(t, kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		b.trim = trim.New(b.r, kadm.NewClient(silent), &kafka.Watch{}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		report, err := b.trim.Once(ctx)
		require.Error(t, err)
		require.Equal(t, trim.Report{}, report)
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
	})
}
