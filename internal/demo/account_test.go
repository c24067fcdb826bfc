package demo

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/axtasks/ax"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func book() *account {
	return newAccount("run", domain(ax.Kafka{}, 1).Lanes)
}

// submitted takes in tasks 1 to n with their receipts.
func (a *account) acknowledged(n int) *account {
	for i := range uint64(n) {
		a.submit(i+1, "low", queued)
		a.answered(i+1, nil)
	}
	return a
}

func TestASumThatMatchesIsGood(t *testing.T) {
	t.Parallel()
	a := book().acknowledged(4)
	a.finish(1, endedDone)
	a.finish(2, endedDead)
	s := a.judge(map[uint64]bool{3: true, 4: true})
	require.NoError(t, s.Err())
	require.Equal(t, []int{4, 1, 1, 2, 0}, []int{s.Submitted, s.Done, s.Dead, s.Waiting, s.Lost})
	lines := s.Lines()
	require.Equal(t, "submitted 4 = done 1 + dead 1 + waiting 2 ✓", lines[len(lines)-1])
}

func TestATaskThatIsFoundNowhereIsLost(t *testing.T) {
	t.Parallel()
	a := book().acknowledged(3)
	a.finish(1, endedDone)
	s := a.judge(map[uint64]bool{3: true})
	require.Equal(t, 1, s.Lost)
	require.Equal(t, []string{"run-2"}, s.LostIDs)
	require.ErrorContains(t, s.Err(), "1 tasks are lost: run-2")
	lines := s.Lines()
	require.Equal(t, "submitted 3 = done 1 + dead 0 + waiting 1 + lost 1 ✗", lines[len(lines)-1])
}

func TestTheSummaryNamesOnlySomeOfManyLost(t *testing.T) {
	t.Parallel()
	s := book().acknowledged(100).judge(nil)
	require.Equal(t, 100, s.Lost)
	require.Len(t, s.LostIDs, maxNamed)
	require.Equal(t, "run-1", s.LostIDs[0])
}

// A record behind a commit that is late is found, though its task is done.
func TestADoneTaskThatIsFoundDoesNotWait(t *testing.T) {
	t.Parallel()
	a := book().acknowledged(1)
	a.finish(1, endedDone)
	s := a.judge(map[uint64]bool{1: true, 99: true})
	require.Zero(t, s.Waiting)
	require.NoError(t, s.Err())
}

func TestATaskMayBeDoneBeforeItsReceiptComes(t *testing.T) {
	t.Parallel()
	a := book()
	a.submit(1, "low", queued)
	a.finish(1, endedDone)
	require.Zero(t, a.snapshot().Done)
	a.answered(1, nil)
	s := a.judge(nil)
	require.NoError(t, s.Err())
	require.Equal(t, []int{1, 1, 0}, []int{s.Submitted, s.Done, s.Repeats})
	require.Zero(t, a.size())
}

func TestASubmitWithoutAReceiptCountsAsRefused(t *testing.T) {
	t.Parallel()
	a := book().acknowledged(1)
	a.finish(1, endedDone)
	a.submit(2, "low", queued)
	a.answered(2, fmt.Errorf("no: %w", ax.ErrBusy))
	a.submit(3, "low", queued)
	a.answered(3, fmt.Errorf("silence: %w", ax.ErrUnknownOutcome))
	a.finish(3, endedDone) // it had been written
	s := a.judge(nil)
	require.NoError(t, s.Err())
	require.Equal(t, []int{1, 1, 2, 0}, []int{s.Submitted, s.Done, s.Refused, s.Repeats})
	require.Contains(t, s.Refusal, "no: ")
}

func TestASecondEndOfATaskIsARepeat(t *testing.T) {
	t.Parallel()
	a := book().acknowledged(2)
	a.finish(1, endedDone)
	a.finish(1, endedDone)
	a.finish(2, endedDone)
	a.finish(2, endedDead)
	s := a.judge(nil)
	require.Equal(t, []int{2, 2, 0}, []int{s.Repeats, s.Done, s.Dead})
	require.NoError(t, s.Err())
}

func TestAStartBeforeTheDueTimeIsEarly(t *testing.T) {
	t.Parallel()
	due := time.Now()
	a := book().acknowledged(1)
	a.started(1, &ax.Task{Lane: "low", Due: due}, due.Add(-time.Nanosecond))
	a.finish(1, endedDone)
	require.ErrorContains(t, a.judge(nil).Err(), "1 starts were early")

	a = book().acknowledged(1)
	a.started(1, &ax.Task{Lane: "low", Due: due, Submitted: due.Add(-time.Hour)}, due)
	a.finish(1, endedDone)
	s := a.judge(nil)
	require.NoError(t, s.Err())
	require.Zero(t, s.LateP99)
}

func TestARunWithoutTasksIsNotGood(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, book().judge(nil).Err(), "no task was submitted")
}

// What ends is forgotten, and each place of a task is counted once.
func TestTheAccountKeepsOnlyWhatIsNotSettled(t *testing.T) {
	t.Parallel()
	a := book()
	task := &ax.Task{Lane: "normal", Submitted: time.Now()}
	for n := range uint64(1000) {
		a.submit(n, "normal", delayed)
		a.answered(n, nil)
		require.Equal(t, 1, a.snapshot().Delayed)
		a.started(n, task, task.Submitted.Add(time.Second))
		require.Equal(t, 1, a.snapshot().Lanes[2].Running)
		a.failed(n, errors.New("no"), delayed)
		a.started(n, task, task.Submitted.Add(time.Second))
		a.failed(n, ax.Snooze(1), delayed)
		a.started(n, task, task.Submitted.Add(time.Second))
		a.finish(n, endedDone)
		require.Zero(t, a.size())
	}
	s := a.snapshot()
	require.Equal(t, []int{0, 1000, 1000, 1000}, []int{s.Delayed, s.Retries, s.Snoozed, s.Done})
	require.Equal(t, LaneSnapshot{Name: "normal", Weight: 2, Done: 1000, WaitP50: s.Lanes[2].WaitP50, WaitP99: s.Lanes[2].WaitP99}, s.Lanes[2])
	require.InEpsilon(t, time.Second, s.Lanes[2].WaitP99, 0.04)
}

func TestAnIDBelongsToOneRun(t *testing.T) {
	t.Parallel()
	a := book()
	n, ours := a.number(a.id(42))
	require.True(t, ours)
	require.EqualValues(t, 42, n)
	for _, id := range []string{"", "run", "run-", "run-x", "run--1", "other-42", "42"} {
		_, ours := a.number(id)
		require.False(t, ours, id)
	}
}

func TestAHistogramIsExactToAFewPercent(t *testing.T) {
	t.Parallel()
	for d := 32 * time.Microsecond; d < 10*24*time.Hour; d += d/7 + time.Microsecond {
		var h histogram
		h.add(d)
		require.InEpsilon(t, d, h.quantile(0.5), 0.04)
	}
	var h histogram
	require.Zero(t, h.quantile(0.99))
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	require.InEpsilon(t, 500*time.Millisecond, h.quantile(0.5), 0.04)
	require.InEpsilon(t, 990*time.Millisecond, h.quantile(0.99), 0.04)
	h = histogram{}
	h.add(-time.Hour)
	require.Zero(t, h.quantile(1))
	h.add(1 << 62)
	require.Greater(t, h.quantile(1), 10*24*time.Hour)
}

func TestTheLoadAddsUp(t *testing.T) {
	t.Parallel()
	share := 0.0
	for _, c := range classes() {
		share += c.share
		sum, steps := 0.0, 0
		for at := time.Duration(0); at < period; at += 10 * time.Millisecond {
			sum += c.intensity(at)
			steps++
		}
		require.InDelta(t, 1, sum/float64(steps), 1e-9, c.kind)
		_, known := ptr(domain(ax.Kafka{}, 1)).Lane(c.lane)
		require.True(t, known)
	}
	require.InDelta(t, 1, share, 1e-9)
	for brokers := 1; brokers <= 3; brokers++ {
		require.NoError(t, domain(ax.Kafka{Brokers: []string{"h:1"}}, brokers).Validate())
	}
}

func ptr[T any](v T) *T { return &v }

func TestSomeFlakyTasksDieAndSomeRecover(t *testing.T) {
	t.Parallel()
	ends := map[int]int{} // failed attempts → tasks
	for n := range uint64(10_000) {
		failures := 0
		for attempt := 1; attempt <= attempts; attempt++ {
			if outcome(&ax.Task{Kind: kindFlaky, Attempt: attempt}, n) != nil {
				failures++
			}
		}
		ends[failures]++
	}
	require.InDelta(t, 7000, ends[0], 300)
	require.InDelta(t, 2000, ends[1], 300)
	require.InDelta(t, 1000, ends[attempts], 300)
	require.NoError(t, outcome(&ax.Task{Kind: kindSnooze, Deferrals: 1}, 1))
	require.Error(t, outcome(&ax.Task{Kind: kindSnooze}, 1))
}

func TestATableFitsAScreen(t *testing.T) {
	t.Parallel()
	s := book().snapshot()
	s.Elapsed, s.Submitted, s.Done, s.Dead, s.Retries, s.Snoozed, s.Delayed = 1000*time.Hour, 1e9, 1e9, 1e6, 1e7, 1e7, 1e6
	s.Rate, s.Slots, s.LateP50, s.LateP99 = 1e6, 1e4, time.Hour, time.Hour
	s.Brokers = "kafka-1.internal.example:9092, kafka-2.internal.example:9092, kafka-3.internal.example:9092"
	for i := range s.Lanes {
		l := &s.Lanes[i]
		l.Queued, l.Running, l.Done, l.WaitP50, l.WaitP99 = 200_000, 10_000, 999_999_999, time.Hour, time.Hour
	}
	var v View
	require.NotContains(t, v.Line(s), "\n")
	for _, line := range v.Table(s) {
		require.LessOrEqual(t, len([]rune(line)), 80, line)
	}
}

func TestTheViewKnowsTheRateOfTheLastSecond(t *testing.T) {
	t.Parallel()
	var v View
	at := func(d time.Duration, done int) float64 {
		return v.rates(Snapshot{Elapsed: d, Lanes: []LaneSnapshot{{Done: done}}})[0]
	}
	require.InDelta(t, 100, at(500*time.Millisecond, 50), 1e-9)
	require.InDelta(t, 100, at(time.Second, 100), 1e-9)
	for i := range 10 {
		at(time.Second+time.Duration(i+1)*250*time.Millisecond, 100)
	}
	require.Zero(t, at(4*time.Second, 100))
	require.LessOrEqual(t, len(v.past), 8)
}
