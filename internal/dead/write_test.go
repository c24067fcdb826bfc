package dead_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/dead"
	"github.com/axtasks/ax/internal/fakekafka"
)

func TestEachFilterChooses(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakekafka.Start(t))
	first := b.put(b.death(0, ax.Task{ID: "a", Kind: "job", Payload: []byte("customer 17")}))
	b.put(b.death(1, ax.Task{ID: "b", Kind: "report"}, func(d *ax.Death) { d.Reason, d.Error = ax.ReasonTimeout, "took Too long" }))
	b.put(b.death(2, ax.Task{ID: "a", Kind: "job"}, func(d *ax.Death) { d.At = day.Add(time.Hour) }))
	b.put(b.death(3, ax.Task{ID: "c", Kind: "job"}, func(d *ax.Death) { d.At = time.Time{} }))
	name := string(first.Key)
	for _, one := range []struct {
		f    dead.Filter
		want string
	}{
		{dead.Filter{}, "a0 b1 a2 c3"},
		{dead.Filter{IDs: []string{"a"}}, "a0 a2"},
		{dead.Filter{IDs: []string{name, "b"}}, "a0 b1"},
		{dead.Filter{Kind: "job"}, "a0 a2 c3"},
		{dead.Filter{Reason: ax.ReasonTimeout}, "b1"},
		{dead.Filter{Since: day.Add(time.Minute)}, "a2"},
		{dead.Filter{Since: day}, "a0 b1 a2"},
		{dead.Filter{Until: day.Add(time.Hour)}, "a0 b1"},
		{dead.Filter{Error: "Too long"}, "b1"},
		{dead.Filter{Error: "too long"}, ""},
		{dead.Filter{Payload: "customer 1"}, "a0"},
		{dead.Filter{Payload: "Customer"}, ""},
		{dead.Filter{IDs: []string{"a"}, Since: day.Add(time.Minute)}, "a2"},
	} {
		got := b.live(one.f, func(e *dead.Entry) string { return fmt.Sprintf("%s%d", e.ID, e.Offset) })
		require.Equal(t, one.want, strings.Join(got, " "), "%+v", one.f)
		require.Equal(t, one.want == "a0 b1 a2 c3", one.f.Empty())
	}
}

func TestAPlanCountsByKindAndReasonAndNamesWhatIsAbsent(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakekafka.Start(t))
	b.put(b.job(0), b.job(1), b.death(2, ax.Task{ID: "r", Kind: "report"}))
	judge := func(e *dead.Entry) string {
		if e.ID == "job-0" {
			return "no"
		}
		return ""
	}
	p, err := b.scan().Plan(t.Context(), &dead.Filter{}, 1, judge)
	require.NoError(t, err)
	require.Equal(t, 3, p.Deaths)
	require.Equal(t, []dead.Group{{Kind: "job", Reason: "failed", Deaths: 2}, {Kind: "report", Reason: "failed", Deaths: 1}}, p.Groups)
	require.Equal(t, map[string]int{"no": 1}, p.Left.Left)
	require.Len(t, p.First, 1)
	require.Equal(t, "job-1", p.First[0].ID)
	require.Empty(t, p.Absent)
	p, err = b.scan().Plan(t.Context(), &dead.Filter{IDs: []string{"y", "job-1", "x", "y"}}, 1, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"y", "x"}, p.Absent)
	require.Equal(t, 1, p.Deaths)
}

func TestARedriveMakesAFreshTaskUnderItsOldId(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakekafka.Start(t))
	was := ax.Task{
		ID: "a", Kind: "job", Lane: "low", Key: "k", Payload: []byte("9007199254740993"), Attempt: 3, Deferrals: 2, MaxAttempts: 3, Timeout: time.Second,
		Due: day, Leave: day, Expires: time.Now().Add(time.Hour).UTC().Round(0), Submitted: day, Hop: "hop",
		Headers: []ax.Header{{Name: "traceparent", Value: []byte("t")}, {Name: "ax-newer", Value: []byte("n")}},
	}
	b.put(b.death(0, was))
	other := b.job(1)
	other.Partition = 2
	b.put(other)
	b.put(b.death(2, ax.Task{ID: "gone", Kind: "job", Lane: "closed"}))
	bare := b.death(3, ax.Task{Kind: "job", Lane: "low"}) // whose own lane is high
	for i, h := range bare.Headers {
		if h.Key == ax.HeaderLane {
			bare.Headers = append(bare.Headers[:i:i], bare.Headers[i+1:]...)
			break
		}
	}
	b.put(bare)
	b.put(b.death(4, ax.Task{ID: "empty", Kind: "job", Lane: "high"}))
	var told []int
	r, err := b.writer().Redrive(t.Context(), b.scan(), &dead.Filter{}, dead.Redrive{}, func(r dead.Result) { told = append(told, r.Done) })
	require.NoError(t, err)
	require.Equal(t, dead.Result{Done: 5}, r)
	require.Equal(t, []int{1, 2, 3, 4, 5}, told)

	low := b.tasks(b.r.Lane("low"))
	require.Len(t, low, 3)
	was.Attempt, was.Deferrals, was.Due, was.Leave, was.Source = 1, 0, time.Time{}, time.Time{}, low[0].Source
	require.Equal(t, &was, low[0])
	require.Equal(t, []string{"gone", string(bare.Key)}, []string{low[1].ID, low[2].ID}, "the lane of least weight; that of the source")
	require.Equal(t, "low", low[2].Lane)
	require.Equal(t, []string{"empty", "job-1"}, b.ids(b.r.Lane("high")))

	require.Empty(t, b.live(dead.Filter{}, id))
	tombs := map[string]int32{}
	for _, r := range b.c.Records(t, b.r.Dead()) {
		if r.Value == nil {
			tombs[string(r.Key)] = r.Partition
		}
	}
	require.Len(t, tombs, 5)
	require.EqualValues(t, 2, tombs[string(other.Key)], "in the partition of the death")
}

// refuse makes the cluster refuse writes to a topic.
func (b *bench) refuse(topic string) *kfake.FaultHandle {
	return b.c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
}

func TestATombstoneIsWrittenOnlyAfterTheTasksAcknowledgement(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakekafka.Start(t))
	b.put(b.job(0), b.job(1), b.job(2))
	w := b.writer()
	lane := b.refuse(b.r.Lane("high"))
	r, err := w.Redrive(t.Context(), b.scan(), &dead.Filter{}, dead.Redrive{}, nil)
	require.ErrorIs(t, err, ax.ErrAuth)
	require.ErrorContains(t, err, "ax: redrive domain orders: death "+string(b.job(0).Key)+": submit task job-0 to orders.lane.high: ")
	require.Zero(t, r.Done)
	lane.Remove()
	require.Len(t, b.c.Records(t, b.r.Dead()), 3, "no tombstone")
	require.Equal(t, []string{"job-0", "job-1", "job-2"}, b.live(dead.Filter{}, id))

	// The second tombstone is refused.
	var tombs *kfake.FaultHandle
	r, err = w.Redrive(t.Context(), b.scan(), &dead.Filter{}, dead.Redrive{}, func(dead.Result) { tombs = b.refuse(b.r.Dead()) })
	require.ErrorContains(t, err, "death "+string(b.job(1).Key)+": task job-1 is in orders.lane.high, and the next redrive submits it once more: write its tombstone to orders.dead/0: ")
	require.Equal(t, 1, r.Done)
	tombs.Remove()
	require.Equal(t, []string{"job-0", "job-1"}, b.ids(b.r.Lane("high")), "strictly one by one")
	require.Equal(t, []string{"job-1", "job-2"}, b.live(dead.Filter{}, id))

	// The same again goes on with what is left.
	r, err = w.Redrive(t.Context(), b.scan(), &dead.Filter{}, dead.Redrive{}, nil)
	require.NoError(t, err)
	require.Equal(t, 2, r.Done)
	require.Equal(t, []string{"job-0", "job-1", "job-1", "job-2"}, b.ids(b.r.Lane("high")), "one copy")
	require.Empty(t, b.live(dead.Filter{}, id))
	r, err = w.Redrive(t.Context(), b.scan(), &dead.Filter{}, dead.Redrive{}, nil)
	require.NoError(t, err)
	require.Zero(t, r.Done)
}

func TestARedriveLeavesAloneWhatCantBeDriven(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakekafka.Start(t))
	b.put(b.death(0, ax.Task{ID: "old", Kind: "job", Expires: day}))
	b.put(b.death(1, ax.Task{ID: "large", Kind: "job", Payload: make([]byte, 1001)}))
	b.put(b.death(2, ax.Task{ID: "no kind"}))
	b.put(b.death(3, ax.Task{ID: "old-report", Kind: "report", Expires: day}))
	w := b.writer()
	r, err := w.Redrive(t.Context(), b.scan(), &dead.Filter{}, dead.Redrive{}, nil)
	require.NoError(t, err)
	left := map[string]int{"expired": 2, "malformed": 1, "refused: payload: invalid task: payload too large": 1}
	require.Equal(t, dead.Result{Left: left}, r)
	require.Equal(t, 4, r.LeftAlone())
	require.Len(t, b.live(dead.Filter{}, id), 4)

	r, err = w.Redrive(t.Context(), b.scan(), &dead.Filter{}, dead.Redrive{IgnoreExpiry: true, Payload: []byte("new")}, nil)
	require.NoError(t, err)
	require.Equal(t, dead.Result{Done: 3, Left: map[string]int{"malformed": 1}}, r)
	var got []string
	for _, topic := range []string{"high", "low"} {
		for _, task := range b.tasks(b.r.Lane(topic)) {
			got = append(got, task.ID+" "+string(task.Payload))
			require.Zero(t, task.Expires)
		}
	}
	require.ElementsMatch(t, []string{"old new", "large new", "old-report new"}, got)
}

func TestARedriveKeepsItsRateAndStopsAfterTheOneAtHand(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		for n := range 30 {
			b.put(b.job(n))
		}
		w := b.writer()
		began := time.Now()
		ctx, stop := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		r, err := w.Redrive(ctx, b.scan(), &dead.Filter{}, dead.Redrive{Rate: 10}, func(r dead.Result) {
			if r.Done == 21 {
				stop(why)
			}
		})
		require.ErrorIs(t, err, why)
		require.Equal(t, 21, r.Done)
		require.InDelta(t, 2, time.Since(began).Seconds(), 0.1)
		require.Len(t, b.ids(b.r.Lane("high")), 21)
		require.Len(t, b.live(dead.Filter{}, id), 9)

		// A stop while it waits for its turn.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began = time.Now()
		r, err = w.Redrive(ctx, b.scan(), &dead.Filter{}, dead.Redrive{Rate: 0.1}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, r.Done)
		require.InDelta(t, 3, time.Since(began).Seconds(), 0.1)
	})
}

// The signal comes while the task at hand is written: its tombstone follows.
func TestAStopFinishesTheDeathAtHand(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakekafka.Start(t))
	b.put(b.job(0), b.job(1))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	b.c.Kfake().Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: b.r.Lane("high"), Observe: true, Count: -1,
		When: func(kmsg.Request) bool { stop(); return true },
	})
	r, err := b.writer().Redrive(ctx, b.scan(), &dead.Filter{}, dead.Redrive{}, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, r.Done)
	require.Equal(t, []string{"job-0"}, b.ids(b.r.Lane("high")))
	require.Equal(t, []string{"job-1"}, b.live(dead.Filter{}, id))
}

func TestAWriteThatNobodyAnswersEndsWithAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c)
		b.put(b.job(0))
		p := c.Process()
		w, err := dead.NewWriter(b.r, p.Opts()...)
		require.NoError(t, err)
		s := b.scan()
		h := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1, When: func(kmsg.Request) bool { p.Stall(); return true }})
		began := time.Now()
		_, err = w.Redrive(t.Context(), s, &dead.Filter{}, dead.Redrive{}, nil)
		require.ErrorIs(t, err, ax.ErrUnknownOutcome)
		require.InDelta(t, 30, time.Since(began).Seconds(), 1)
		h.Remove()
		p.Heal()
		w.Close()
	})
}

func TestAPurgeWritesTombstonesForWhatIsChosenAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakekafka.Start(t))
	b.put(b.job(0), b.job(1), b.job(2))
	bad := b.death(3, ax.Task{ID: "no kind"})
	bad.Partition = 1
	b.put(bad)
	w := b.writer()
	r, err := w.Purge(t.Context(), b.scan(), &dead.Filter{IDs: []string{"job-1", "no kind"}}, nil)
	require.NoError(t, err)
	require.Equal(t, dead.Result{Done: 2}, r)
	require.Equal(t, []string{"job-0", "job-2"}, b.live(dead.Filter{}, id))
	require.Empty(t, b.ids(b.r.Lane("high")))

	var refused *kfake.FaultHandle
	r, err = w.Purge(t.Context(), b.scan(), &dead.Filter{}, func(dead.Result) { refused = b.refuse(b.r.Dead()) })
	require.ErrorContains(t, err, "ax: purge domain orders: death "+string(b.job(2).Key)+": write its tombstone to orders.dead/0: ")
	require.Equal(t, 1, r.Done)
	refused.Remove()
	require.Equal(t, []string{"job-2"}, b.live(dead.Filter{}, id))
}
