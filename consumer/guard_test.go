package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fakekafka"
)

// Before the first start the next owner must be able to tell that this one was
// at work; else a task that kills its process would go unseen.
func TestNothingStartsBeforeTheCommitThatOpensItsPartition(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, task *ax.Task) error { got.add(task); return nil })
		fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		run(t, newWorker(b, mux).Run)
		b.submit(ax.Task{Kind: "job"})
		time.Sleep(20 * time.Second)
		require.Empty(t, got.list())
		require.Positive(t, fault.Hits())
		fault.Remove()
		time.Sleep(10 * time.Second)
		require.Len(t, got.list(), 1)
	})
}

// The count of a task that waits in place is only in the commit: as long as
// that fails, a next start could be forgotten, and the limit exceeded.
func TestATaskThatWaitsInPlaceStartsAgainOnlyOnceItsAttemptIsCommitted(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, orderedLane(1))
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, task *ax.Task) error {
			got.add(task)
			return ax.RetryAfter(time.Second, errors.New("not yet"))
		})
		run(t, newWorker(b, mux).Run)
		time.Sleep(2 * time.Second)
		b.submit(ax.Task{Kind: "job", Key: "k", MaxAttempts: 3})
		time.Sleep(500 * time.Millisecond)
		require.Len(t, got.list(), 1)
		fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		time.Sleep(700 * time.Millisecond) // its note was committed before that
		require.Len(t, got.list(), 2)
		time.Sleep(20 * time.Second)
		require.Len(t, got.list(), 2)
		fault.Remove()
		time.Sleep(10 * time.Second)
		require.Len(t, got.list(), 3)
		require.Len(t, c.Records(t, b.r.Dead()), 1)
	})
}

// A worker that was cut off, or frozen, for longer than its session: another
// one has its partitions, so it must not start what it had read.
func TestAWorkerThatIsFrozenOrCutOffStartsNothingOfWhatItHadRead(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 1, Partitions: 1}}})
		p := c.Process()
		var mine, theirs starts
		handle := func(to *starts) *consumer.Mux {
			mux := consumer.NewMux()
			mux.HandleFunc("job", func(_ context.Context, task *ax.Task) error {
				to.add(task)
				time.Sleep(500 * time.Millisecond)
				return nil
			})
			return mux
		}
		for range 200 {
			b.submit(ax.Task{Kind: "job"})
		}
		r := begin(t, newWorker(b, handle(&mine), consumer.WithSlots(2), consumer.WithKafka(p.Opts()...)).Run)
		time.Sleep(5 * time.Second)
		run(t, newWorker(b, handle(&theirs), consumer.WithSlots(8)).Run)
		time.Sleep(2 * time.Second)
		require.Empty(t, theirs.list())
		p.Stall()
		time.Sleep(time.Minute)
		cut := len(mine.list())
		require.NotEmpty(t, theirs.list())
		require.True(t, mine.list()[cut-1].at.Before(theirs.list()[0].at), "both were at work at once")
		p.Heal()
		time.Sleep(10 * time.Second)
		seen := map[string]int{}
		for _, s := range append(mine.list(), theirs.list()...) {
			seen[s.ID]++
		}
		require.Len(t, seen, 200)
		twice := 0
		for _, n := range seen {
			twice += n - 1
		}
		// What was at work, and what was done during the session that ran out.
		require.LessOrEqual(t, twice, 2*(2*6+2))
		_ = r.stop()
	})
}
