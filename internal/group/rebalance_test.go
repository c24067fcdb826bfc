package group_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/group"
)

// A member was killed, and the group's next generation waits for it until its
// session ends. What the others finish meanwhile must be committed meanwhile,
// or it is done again when one of them is killed as well.
func TestCommitsGoOnWhileTheGroupWaitsForADeadMember(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 2, 2)
		p := c.Process()
		dying := join(t, c, all, func(cfg *group.Config) { cfg.Opts = append(p.Opts(), kgo.HeartbeatInterval(100*time.Millisecond)) })
		dying.mayFail = true
		x := join(t, c, func(*kgo.Record) bool { return false })
		time.Sleep(3 * time.Second)
		fill(t, c, 2, 40)
		time.Sleep(time.Second)
		require.Len(t, x.m.Partitions(), 1)
		mine := x.m.Partitions()[0]
		p.Kill()
		time.Sleep(100 * time.Millisecond)
		join(t, c, all) // begins the next generation, which waits for the dead
		time.Sleep(2 * time.Second)
		require.Len(t, x.m.Partitions(), 1)
		require.LessOrEqual(t, committed(t, c, mine.ID).At, int64(1))
		n := x.done()
		require.Positive(t, n)
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, int64(21), committed(t, c, mine.ID).At, "nothing was committed during the join")
	})
}

// A member that is cut off for longer than its session must start nothing more
// of what it has read: another one is at it. Once it is known again, it goes on.
func TestAMemberThatMayBeForgottenIsNotKnown(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{ax.Classic, ax.Consumer} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				fill(t, c, 1, 10)
				p := c.Process()
				var mu sync.Mutex
				moved := 0
				x := join(t, c, func(*kgo.Record) bool { return false }, func(cfg *group.Config) {
					cfg.Protocol = protocol
					cfg.Opts = append(p.Opts(), kgo.HeartbeatInterval(100*time.Millisecond))
					cfg.Moved = func() { mu.Lock(); moved++; mu.Unlock() }
				})
				time.Sleep(20 * time.Second)
				require.True(t, x.m.Known(time.Now()))
				p.Cut()
				time.Sleep(4 * time.Second)
				require.True(t, x.m.Known(time.Now()), "a short cut is no reason to stop")
				time.Sleep(3 * time.Second)
				require.False(t, x.m.Known(time.Now()))
				mu.Lock()
				before := moved
				mu.Unlock()
				p.Heal()
				time.Sleep(10 * time.Second)
				require.True(t, x.m.Known(time.Now()))
				mu.Lock()
				require.Greater(t, moved, before, "nobody was told")
				mu.Unlock()
			}, fakekafka.With(kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "500", "group.consumer.session.timeout.ms": "6000"})))
		})
	}
}

// record keeps a log.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func TestATopicThatIsDeletedAndMadeAnewIsReportedAndReadAgain(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 2, 10)
		var log record
		x := join(t, c, all, func(cfg *group.Config) {
			cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			cfg.Opts = append(cfg.Opts, kgo.MetadataMaxAge(5*time.Second))
		})
		time.Sleep(2 * time.Second)
		require.Len(t, x.offsets(), 10)
		adm := c.Admin(t)
		_, err := adm.DeleteTopics(t.Context(), topic)
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		fill(t, c, 2, 6)
		time.Sleep(30 * time.Second)
		require.Len(t, x.offsets(), 16)
		require.Contains(t, log.String(), "deleted and made anew")
		require.Equal(t, int64(3), committed(t, c, 0).At)
		require.Len(t, x.m.Partitions(), 2)
	})
}

func TestATopicThatDoesNotExistYetIsReadOnceItDoes(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		x := join(t, c, all, func(cfg *group.Config) {
			cfg.IDs = nil
			cfg.Opts = append(cfg.Opts, kgo.MetadataMaxAge(5*time.Second))
		})
		time.Sleep(20 * time.Second)
		fill(t, c, 2, 6)
		time.Sleep(20 * time.Second)
		require.Len(t, x.offsets(), 6)
		require.Equal(t, int64(3), committed(t, c, 0).At)
	})
}

func TestAPartitionThatIsAddedIsRead(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 2, 6)
		x := join(t, c, all)
		time.Sleep(2 * time.Second)
		_, err := c.Admin(t).CreatePartitions(t.Context(), 1, topic)
		require.NoError(t, err)
		fill(t, c, 3, 3)
		time.Sleep(20 * time.Second)
		require.Len(t, x.offsets(), 9)
		require.Equal(t, int64(1), committed(t, c, 2).At)
	})
}

// Records that were deleted before they were committed are lost work: the
// member goes on behind them, and says so.
func TestACommitThatWasTrimmedAwayIsReportedAndReadFromTheLogsStart(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 1, 10)
		x := join(t, c, func(r *kgo.Record) bool { return r.Offset < 3 })
		time.Sleep(time.Second)
		x.close()
		require.Equal(t, int64(3), committed(t, c, 0).At)
		req := kmsg.NewPtrDeleteRecordsRequest()
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Offset = 7
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		_, err := req.RequestWith(t.Context(), c.Client(t))
		require.NoError(t, err)
		var log record
		y := join(t, c, all, func(cfg *group.Config) { cfg.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		time.Sleep(2 * time.Second)
		require.Equal(t, []int64{7, 8, 9}, y.offsets())
		require.Contains(t, log.String(), "records were deleted before they were committed")
		require.Contains(t, log.String(), "from=3 to=7")
		require.Equal(t, int64(10), committed(t, c, 0).At)
	})
}

// Several polls while a rebalance is wanted must not lock it out, and each
// member ends up with its share.
func TestPollsBetweenThemLetARebalanceThrough(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		fill(t, c, 4, 40)
		var members []*reader
		for range 4 {
			members = append(members, join(t, c, all))
			time.Sleep(200 * time.Millisecond)
		}
		for range 20 {
			fill(t, c, 4, 8)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		for i, m := range members {
			require.Len(t, m.m.Partitions(), 1, "member %d", i)
		}
		for id := range int32(4) {
			require.Equal(t, int64(50), committed(t, c, id).At)
		}
	})
}

// Members come and go; nothing is read twice by them at a clean stop, nothing
// is missed, and no commit goes back.
func TestMembersThatComeAndGoRepeatNothing(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{ax.Classic, ax.Consumer} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				fill(t, c, 6, 6)
				change := func(cfg *group.Config) { cfg.Protocol = protocol }
				var every []*reader
				live := []*reader{join(t, c, all, change)}
				every = append(every, live...)
				produced := 6
				for i := range 40 {
					fill(t, c, 6, 30)
					produced += 30
					time.Sleep(300 * time.Millisecond)
					if i%3 == 2 && len(live) > 1 {
						live[0].close()
						live = live[1:]
					} else if len(live) < 4 {
						x := join(t, c, all, change)
						live, every = append(live, x), append(every, x)
					}
				}
				time.Sleep(20 * time.Second)
				seen := map[string]int{}
				for _, x := range every {
					for _, r := range x.got {
						seen[fmt.Sprintf("%d@%d", r.r.Partition, r.r.Offset)]++
					}
				}
				require.Len(t, seen, produced)
				for at, n := range seen {
					require.Equal(t, 1, n, "record %s was read twice", at)
				}
			})
		})
	}
}
