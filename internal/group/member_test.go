package group_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topic = "t"
	name  = "g"
)

// reader is a member whose records are collected.
type reader struct {
	t      *testing.T
	m      *group.Member
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	got     []read
	dropped int
	mayFail bool // to leave its group
	// finish says whether a record is finished as it is read.
	finish func(*kgo.Record) bool
}

type read struct {
	p      *group.Partition
	ticket group.Ticket
	r      *kgo.Record
	open   bool // started, not done
}

func join(t *testing.T, c *fakekafka.Cluster, finish func(*kgo.Record) bool, change ...func(*group.Config)) *reader {
	t.Helper()
	x := &reader{t: t, finish: finish}
	details, err := c.Admin(t).ListTopics(t.Context(), topic)
	require.NoError(t, err)
	cfg := group.Config{
		Name: "test", Group: name, Topics: []string{topic}, IDs: map[string][16]byte{topic: details[topic].ID}, Opts: append(c.Opts(), kgo.HeartbeatInterval(100*time.Millisecond)),
		Watch: &kafka.Watch{}, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		CommitEvery: 50 * time.Millisecond, RevokeWait: 5 * time.Second, MaxUnfinished: 10_000,
		Dropped: func(ps []*group.Partition) { x.mu.Lock(); x.dropped += len(ps); x.mu.Unlock() },
	}
	for _, f := range change {
		f(&cfg)
	}
	m, err := group.New(cfg)
	require.NoError(t, err)
	x.m = m
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	x.wg.Go(func() {
		for m.Poll(ctx, x.take) == nil {
		}
	})
	x.wg.Go(func() { m.CommitLoop(ctx) })
	t.Cleanup(x.close)
	return x
}

func (x *reader) take(b group.Batch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, r := range b.Records {
		if !b.Partition.Start() {
			continue
		}
		open := !x.finish(r)
		x.got = append(x.got, read{b.Partition, b.Tickets[i], r, open})
		if !open {
			b.Partition.Done(b.Tickets[i])
		}
	}
}

func (x *reader) close() {
	x.cancel()
	x.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := x.m.Close(ctx); !x.mayFail {
		require.NoError(x.t, err)
	}
}

// done finishes what is open, and returns how many that were.
func (x *reader) done() int { return x.doneBelow(1 << 62) }

func (x *reader) doneBelow(offset int64) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for i := range x.got {
		if r := &x.got[i]; r.open && r.r.Offset < offset {
			r.p.Done(r.ticket)
			r.open = false
			n++
		}
	}
	return n
}

func (x *reader) offsets() []int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	var os []int64
	for _, r := range x.got {
		os = append(os, r.r.Offset)
	}
	return os
}

func fill(t *testing.T, c *fakekafka.Cluster, partitions, n int) {
	t.Helper()
	adm := c.Admin(t)
	_, err := adm.CreateTopic(t.Context(), int32(partitions), 1, nil, topic)
	if err != nil {
		require.ErrorIs(t, err, kerr.TopicAlreadyExists)
	}
	cl := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range n {
		r := &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: fmt.Append(nil, i)}
		require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
	}
}

func committed(t *testing.T, c *fakekafka.Cluster, partition int32) kadm.Offset {
	t.Helper()
	os, err := c.Admin(t).FetchOffsets(t.Context(), name)
	require.NoError(t, err)
	o, ok := os.Lookup(topic, partition)
	if !ok {
		return kadm.Offset{At: -1}
	}
	return o.Offset
}

func all(*kgo.Record) bool { return true }

func TestTheCommitIsTheLowestUnfinishedOffsetAndTheNextOwnerSkipsWhatIsFinishedAbove(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 1, 20)
		x := join(t, c, func(r *kgo.Record) bool { return r.Offset%5 != 3 })
		time.Sleep(time.Second)
		require.Equal(t, int64(3), committed(t, c, 0).At)
		x.mu.Lock()
		for i := range x.got {
			if x.got[i].open { // nobody finishes them
				x.got[i].p.Abort()
			}
		}
		x.mu.Unlock()
		x.close()
		y := join(t, c, all)
		time.Sleep(time.Second)
		require.Equal(t, []int64{3, 8, 13, 18}, y.offsets())
		require.Equal(t, int64(20), committed(t, c, 0).At)
	})
}

func TestRevokedPartitionsWaitForWhatRunsAndCommitIt(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 2, 10)
		x := join(t, c, func(*kgo.Record) bool { return false })
		time.Sleep(time.Second)
		require.Len(t, x.offsets(), 10)
		y := join(t, c, all)
		time.Sleep(time.Second) // x must give a partition up, and waits
		require.Empty(t, y.offsets())
		require.Equal(t, 10, x.done())
		time.Sleep(2 * time.Second)
		require.Empty(t, y.offsets(), "all was finished and committed before the partition moved")
		require.Len(t, y.m.Partitions(), 1)
		require.Len(t, x.m.Partitions(), 1)
	})
}

// A handler that runs on and on must not hold up the whole group.
func TestARevocationWaitsNoLongerThanItsBoundAndALateFinishTouchesNothing(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 2, 10)
		x := join(t, c, func(*kgo.Record) bool { return false })
		time.Sleep(time.Second)
		began := time.Now()
		y := join(t, c, func(r *kgo.Record) bool { return false })
		for len(y.offsets()) == 0 && time.Since(began) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		require.InDelta(t, 5, time.Since(began).Seconds(), 1.5)
		require.Len(t, y.offsets(), 5)
		moved := y.got[0].r.Partition
		x.mu.Lock()
		for _, r := range x.got {
			if r.r.Partition == moved {
				require.False(t, r.p.Owned())
				require.ErrorIs(t, context.Cause(r.p.Context()), ax.ErrPartitionLost)
			}
		}
		x.mu.Unlock()
		x.done()
		time.Sleep(time.Second)
		require.Equal(t, int64(-1), committed(t, c, moved).At, "the old owner committed a partition it lost")
		y.done()
		time.Sleep(time.Second)
		require.Equal(t, int64(5), committed(t, c, moved).At)
	})
}

// A member that the group forgot learns it from a commit, joins again, and gets
// "revoked" for its old partitions under its new id. A commit then would be
// taken, and would rewind whoever owns them now.
func TestAnEvictedMemberCommitsNothingUnderItsNewId(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 2, 20)
		x := join(t, c, func(*kgo.Record) bool { return false }, func(cfg *group.Config) {
			cfg.RevokeWait = time.Second
		})
		time.Sleep(100 * time.Millisecond)
		require.Len(t, x.offsets(), 20)
		// x's new join waits for y's, while x goes on trying to commit.
		y := join(t, c, all, func(cfg *group.Config) { cfg.Opts = append(cfg.Opts, kgo.HeartbeatInterval(time.Second)) })
		id, _ := x.m.Kafka().GroupMetadata()
		silence(c, id)
		evict(t, c, id)
		learn(t, x.m)
		time.Sleep(3 * time.Second)
		// Which of the two comes first to join decides what y got: both
		// partitions at first, or one.
		mine := map[int32]bool{}
		y.mu.Lock()
		for _, r := range y.got {
			mine[r.r.Partition] = true
		}
		y.mu.Unlock()
		require.NotEmpty(t, mine)
		backwards := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: name, Observe: true, Count: -1,
			When: func(req kmsg.Request) bool {
				r := req.(*kmsg.OffsetCommitRequest)
				return r.MemberID != id && slices.ContainsFunc(r.Topics[0].Partitions, func(p kmsg.OffsetCommitRequestTopicPartition) bool {
					return mine[p.Partition] && p.Offset < 10
				})
			}})
		x.doneBelow(5)
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			for p := range mine {
				require.Equal(t, int64(10), committed(t, c, p).At, "the evicted member rewound partition %d", p)
			}
		}
		require.Zero(t, backwards.Hits())
		again, _ := x.m.Kafka().GroupMetadata()
		require.NotEqual(t, id, again)
		require.Len(t, x.m.Partitions(), 1)
		require.Len(t, y.m.Partitions(), 1)
	})
}

// A member that was evicted and is alone keeps what it has, and must go on
// committing it.
func TestAnEvictedMemberThatKeepsItsPartitionsGoesOnCommitting(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 1, 10)
		x := join(t, c, func(r *kgo.Record) bool { return r.Offset < 3 })
		time.Sleep(time.Second)
		id, _ := x.m.Kafka().GroupMetadata()
		silence(c, id)
		evict(t, c, id)
		learn(t, x.m)
		x.done()
		time.Sleep(5 * time.Second)
		again, _ := x.m.Kafka().GroupMetadata()
		require.NotEqual(t, id, again)
		require.Len(t, x.offsets(), 10)
		require.Equal(t, int64(10), committed(t, c, 0).At)
	})
}

// silence answers the member's heartbeats itself, so that a commit is the first
// to learn of an eviction.
func silence(c *fakekafka.Cluster, id string) {
	c.Kfake().ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		return req.ResponseKind(), nil, req.(*kmsg.HeartbeatRequest).MemberID == id
	})
}

// learn lets the client make a commit of its own, which is how it learns of an
// eviction without a heartbeat; ax's commits don't tell it.
func learn(t *testing.T, m *group.Member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var failed error
	m.Kafka().CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: 0}}},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, _ error) {
			failed = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		})
	require.Error(t, failed)
}

// evict removes a member from the group behind its back.
func evict(t *testing.T, c *fakekafka.Cluster, id string) {
	t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = name
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = id
	req.Members = append(req.Members, m)
	resp, err := req.RequestWith(t.Context(), c.Client(t))
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(resp.ErrorCode))
	require.NoError(t, kerr.ErrorForCode(resp.Members[0].ErrorCode))
}

func TestFailedCommitsAreTriedAgain(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 1, 10)
		c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: name, Err: kerr.TopicAuthorizationFailed, Count: 4})
		join(t, c, all)
		time.Sleep(10 * time.Second)
		require.Equal(t, int64(10), committed(t, c, 0).At)
	})
}

// The client keeps a pause over a rebalance; a partition that came back would
// never be read again.
func TestAPauseEndsWithTheAssignment(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 2, 2)
		x := join(t, c, all)
		time.Sleep(time.Second)
		for _, p := range x.m.Partitions() {
			p.Pause(group.PauseWait)
			p.Pause(group.PauseCommand)
			p.Resume(group.PauseWait)
		}
		fill(t, c, 2, 2)
		time.Sleep(time.Second)
		require.Len(t, x.offsets(), 2, "one reason is left")
		y := join(t, c, all)
		time.Sleep(3 * time.Second)
		require.Len(t, y.offsets(), 1)
		y.close()
		time.Sleep(3 * time.Second)
		fill(t, c, 2, 2)
		time.Sleep(time.Second)
		// The partition that went and came back is read; the other is paused
		// still.
		require.Len(t, x.offsets(), 3)
		for _, p := range x.m.Partitions() {
			p.Resume(group.PauseCommand)
		}
		time.Sleep(time.Second)
		require.Len(t, x.offsets(), 5)
	})
}

func TestAPartitionWithTooMuchUnfinishedIsPaused(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 1, 300)
		x := join(t, c, func(r *kgo.Record) bool { return false }, func(cfg *group.Config) {
			cfg.MaxUnfinished = 100
			cfg.Opts = append(cfg.Opts, kgo.FetchMaxPartitionBytes(500))
		})
		time.Sleep(5 * time.Second)
		n := len(x.offsets())
		require.GreaterOrEqual(t, n, 100)
		require.Less(t, n, 250)
		require.Equal(t, n, x.done())
		for range 3 {
			time.Sleep(time.Second)
			x.done()
		}
		time.Sleep(5 * time.Second)
		require.Len(t, x.offsets(), 300)
		require.Equal(t, int64(300), committed(t, c, 0).At)
	})
}
