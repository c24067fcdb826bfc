package bench

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/router"
)

func TestQuantileIsTheLeastThatTheShareDoesNotExceed(t *testing.T) {
	t.Parallel()
	var s samples
	for i := 100; i >= 1; i-- {
		s.add(time.Duration(i))
	}
	sorted := s.sorted()
	for q, want := range map[float64]time.Duration{0: 1, .005: 1, .5: 50, .501: 51, .99: 99, .999: 100, 1: 100} {
		require.Equal(t, want, quantile(sorted, q), "q %v", q)
	}
	require.Equal(t, time.Duration(7), quantile([]time.Duration{7}, .5))
	// 0.07 × 100 is 7.000000000000001 in floating point.
	require.Equal(t, time.Duration(7), quantile(sorted, .07))
}

func TestMedianOfPairsIgnoresTheOutlier(t *testing.T) {
	t.Parallel()
	xs := []float64{9, 1, 1000}
	require.Equal(t, 9.0, median(xs))
	require.Equal(t, []float64{9, 1, 1000}, xs, "left as it was")
	require.Equal(t, 5.0, median([]float64{9, 1}))
	require.Equal(t, 4.0, median([]float64{4}))
}

func TestShareErrorIsTheWorstLane(t *testing.T) {
	t.Parallel()
	weights := []int{8, 4, 2, 1}
	points, shares := shareError(weights, []time.Duration{8, 4, 2, 1})
	require.InDelta(t, 0, points, 1e-9)
	require.InDelta(t, 53.333, shares[0], 1e-9)

	// 3 of 15 parts went from the first lane to the last.
	points, shares = shareError(weights, []time.Duration{5, 4, 2, 4})
	require.InDelta(t, 20, points, 1e-9)
	require.InDelta(t, 26.667, shares[3], 1e-9)

	points, _ = shareError(weights, make([]time.Duration, 4))
	require.InDelta(t, 100*8.0/15, points, 1e-9, "nothing ran at all")
}

func TestLongestGapReachesFromEdgeToEdge(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Duration(10), longestGap(nil, 10))
	require.Equal(t, time.Duration(4), longestGap([]time.Duration{6, 4, 9}, 10), "before the first")
	require.Equal(t, time.Duration(5), longestGap([]time.Duration{1, 6, 9}, 10), "between two")
	require.Equal(t, time.Duration(7), longestGap([]time.Duration{1, 2, 3}, 10), "after the last")
}

func TestHistoryCountsOnlyWhatLiesInTheWindow(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	h := &history{runs: []interval{{at(0), at(3)}, {at(4), at(6)}, {at(9), at(14)}, {at(20), at(30)}}}
	used, starts, gap, longest := h.within(at(2), at(10))
	require.Equal(t, (1+2+1)*time.Second, used)
	require.Equal(t, 2, starts)
	require.Equal(t, 5*time.Second, gap, "from the start at 4 to that at 9")
	require.Equal(t, 5*time.Second, longest, "a run counts whole")
}

func TestTallyFindsWhatIsLostAndDoubled(t *testing.T) {
	t.Parallel()
	c := newTally(5)
	for _, n := range []uint64{0, 3, 3, 4, 3} {
		require.True(t, c.mark(n))
	}
	lost, doubled := c.judge()
	require.Equal(t, 2, lost)
	require.Equal(t, 2, doubled)
	select {
	case <-c.all:
		t.Fatal("two numbers were never seen")
	case <-c.warm:
		t.Fatal("nothing but numbers came")
	default:
	}
	require.False(t, c.mark(5), "not one of them")
	require.False(t, c.mark(numberOf([]byte("short"))))
	require.NoError(t, c.awaitWarm(t.Context(), "it"))
	require.True(t, c.mark(1))
	require.True(t, c.mark(2))
	require.NoError(t, c.await(t.Context(), time.Time{}))
	lost, doubled = c.judge()
	require.Zero(t, lost)
	require.Equal(t, 2, doubled)
}

func TestTallyTimesFromTheFirstToTheLastNewNumber(t *testing.T) {
	t.Parallel()
	c := newTally(2)
	c.began = time.Now().Add(-time.Minute)
	c.mark(0)
	c.began = c.began.Add(-time.Second)
	c.mark(1)
	c.began = c.began.Add(-time.Hour)
	c.mark(1)
	require.InDelta(t, time.Second.Seconds(), c.took().Seconds(), 0.5)
}

func TestWaitsEndWithTheirContextAndItsCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("the worker stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	c := newTally(1)
	require.ErrorIs(t, c.await(ctx, time.Time{}), cause)
	require.ErrorIs(t, c.awaitFirst(ctx, "it"), cause)
	require.ErrorIs(t, c.awaitWarm(ctx, "it"), cause)
	require.ErrorIs(t, waitUntil(ctx, time.Now().Add(time.Hour)), cause)
	require.ErrorIs(t, run(ctx, time.Hour), cause)
	_, err := arrive(ctx, 1, time.Hour, func(int) {})
	require.ErrorIs(t, err, cause)
}

func TestNumbersTravelInThePayload(t *testing.T) {
	t.Parallel()
	for _, size := range []int{8, 100} {
		b := numbered(123_456, size)
		require.Len(t, b, size)
		require.Equal(t, uint64(123_456), numberOf(b))
	}
}

func TestBatchesCoverEachNumberOnceAndStopAtAnError(t *testing.T) {
	t.Parallel()
	const n = 3*batch + 7
	c := newTally(n)
	_, err := inBatches(t.Context(), n, func(_ context.Context, from, to int) error {
		for i := from; i < to; i++ {
			c.mark(uint64(i))
		}
		return nil
	})
	require.NoError(t, err)
	lost, doubled := c.judge()
	require.Zero(t, lost+doubled)
	require.Equal(t, int64(n), c.different.Load())

	broken := errors.New("broken")
	_, err = inBatches(t.Context(), 1000*batch, func(context.Context, int, int) error { return broken })
	require.ErrorIs(t, err, broken)
}

func TestArrivalsKeepTheirNumberWhenSendingStalls(t *testing.T) {
	t.Parallel()
	var got []int
	sent, err := arrive(t.Context(), 1000, 20*time.Millisecond, func(i int) {
		if got = append(got, i); i == 3 {
			require.NoError(t, run(t.Context(), 30*time.Millisecond))
		}
	})
	require.NoError(t, err)
	require.Equal(t, 20, sent)
	require.Len(t, got, 20)
	require.Equal(t, 19, got[19])
}

func TestRunTimesHaveTheSharesOfTheMixedWork(t *testing.T) {
	t.Parallel()
	count := map[time.Duration]int{}
	var sum time.Duration
	for n := range uint64(1000) {
		count[runTime(n)]++
		sum += runTime(n)
	}
	require.Equal(t, map[time.Duration]int{50 * time.Millisecond: 200, 200 * time.Millisecond: 300, 800 * time.Millisecond: 500}, count)
	require.Equal(t, meanRun, sum/1000)
}

func TestPairsAreMergedByTheMeaningOfTheFigure(t *testing.T) {
	t.Parallel()
	pair := func(rate int, late float64, lost int, worst float64) (fs Fields) {
		fs.add("drain_per_s", rate)
		fs.add("late_p99_ms", late)
		fs.sum("lost", lost)
		fs.max("worst_wait_ms", worst)
		fs.add("lane", "low")
		return fs
	}
	got := merged([]Fields{pair(100, 1.5, 0, 7), pair(900, 2.5, 2, 9), pair(200, 9.5, 1, 8)})
	require.Equal(t, 200, got.Get("drain_per_s"))
	require.Equal(t, 2.5, got.Get("late_p99_ms"))
	require.Equal(t, 3, got.Get("lost"), "none is lost in an average")
	require.Equal(t, 9.0, got.Get("worst_wait_ms"))
	require.Equal(t, "low", got.Get("lane"))
	require.Nil(t, got.Get("nothing"))
}

func TestResultKeepsItsOrderAndTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	var pair Fields
	pair.add("drain_per_s", 300)
	pair.add("raw_drain_per_s", 400)
	pair.ratio("drain_ratio", "drain_per_s", "raw_drain_per_s")
	pair.ratio("none_ratio", "drain_per_s", "absent")
	pair.sum("lost", 0)
	w, err := find("drain")
	require.NoError(t, err)
	r := newResult(&Config{N: 5, Spread: time.Second}, w, place{brokers: 1, kafka: "v4"}, "0.1", []Fields{pair})
	require.NoError(t, r.Err())
	text, err := json.Marshal(r.Fields)
	require.NoError(t, err)
	require.Regexp(t, `^{"work":"drain","drain_per_s":300,"raw_drain_per_s":400,"drain_ratio":0.75,"lost":0,"runs":\[{.*}\],`+
		`"settings":{"n":5,"spread":"1s",.*},"versions":{"ax":.*"kafka":"v4"},"machine":{"cores":.*}}$`, string(text))
	require.Regexp(t, `drain_per_s +300 +400 +0\.75$`, r.Lines()[1])

	for _, key := range []string{"lost", "raw_lost", "calm_lost", "early"} {
		var bad Fields
		bad.sum(key, 2)
		r := newResult(&Config{}, w, place{}, "", []Fields{bad})
		require.ErrorContains(t, r.Err(), key+" = 2")
	}
}

func TestConfigNamesEveryFlagAtFault(t *testing.T) {
	t.Parallel()
	require.NoError(t, Config{Work: "drain", N: 5, Workers: 1, Payload: 8}.Validate())
	none, half, more := time.Duration(0), 500*time.Millisecond, 501*time.Millisecond
	require.NoError(t, Config{Work: "delay", Near: true, Lead: &none}.Validate())
	require.NoError(t, Config{Work: "mixed", Lead: &half}.Validate())
	for _, c := range []struct {
		cfg  Config
		want []string
	}{
		{Config{Work: "drian"}, []string{`"drian"`, "drain, latency, delay, priority, fair, far, idle, mixed, burst"}},
		{Config{Work: "drain", N: -1, Pairs: -2, Payload: 7}, []string{"--n: -1", "--pairs: -2", "--payload: 7: want 8 to"}},
		{Config{Work: "drain", Spread: time.Second, Near: true}, []string{`--spread: 1s: the work "drain" has no use for it`, "--near"}},
		{Config{Work: "fair", N: 5}, []string{"--n: 5"}},
		{Config{Work: "delay", Spread: -time.Second}, []string{"--spread: -1s: want"}},
		{Config{Work: "priority", Workers: 1}, []string{"--workers: 1"}},
		{Config{Work: "burst", Workers: 1}, []string{"--workers: 1: want at least 2"}},
		{Config{Work: "burst", Lead: &more}, []string{"--lead: 501ms: want 0 to 500ms, half of the window"}},
		{Config{Work: "drain", Lead: &none}, []string{`--lead: 0s: the work "drain" has no use for it`}},
		{Config{Work: "mixed", Rest: time.Second}, []string{"--rest: 1s"}},
	} {
		err := c.cfg.Validate()
		for _, want := range c.want {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestALeadOfZeroIsNoLeadAndNotTheDefault(t *testing.T) {
	t.Parallel()
	w, err := find("delay")
	require.NoError(t, err)
	lead := func(lead *time.Duration) time.Duration {
		return w.domainOf(&Config{Lead: lead}).WithDefaults().Delay.Lead
	}
	none, some := time.Duration(0), 20*time.Millisecond
	require.Equal(t, 50*time.Millisecond, lead(nil))
	require.Negative(t, lead(&none))
	require.Equal(t, some, lead(&some))
}

func TestSettingsOfDelayedWorksTellTheLead(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]any{"delay": "20ms", "mixed": "20ms", "burst": "20ms", "far": nil} {
		w, err := find(name)
		require.NoError(t, err)
		settings, _ := newResult(&Config{}, w, place{lead: 20 * time.Millisecond}, "", []Fields{nil}).Get("settings").(Fields)
		require.Equal(t, told, settings.Get("lead"), name)
	}
}

func TestDelaysAreOfOneTwoAndThreeHops(t *testing.T) {
	t.Parallel()
	r, err := router.New(ax.Domain{Name: "bench"})
	require.NoError(t, err)
	for i := range 300 {
		require.Len(t, r.Hops(delayOf(i, r.Domain().Delay, false)), i%3+1)
		require.Len(t, r.Hops(delayOf(i, r.Domain().Delay, true)), 1)
	}
}

func TestADifferenceIsTakenWithinThePair(t *testing.T) {
	t.Parallel()
	pair := func(ours, control float64) (fs Fields) {
		fs.add("late_p99_ms", ours)
		fs.add("timer_late_p99_ms", control)
		fs.over("late_p99_over_ms", "late_p99_ms", "timer_late_p99_ms")
		fs.over("none", "late_p99_ms", "absent")
		return fs
	}
	got := merged([]Fields{pair(1, 2), pair(9, 5), pair(8, 7.5)})
	require.Equal(t, .5, got.Get("late_p99_over_ms"), "and not 8 less 5")
	require.Nil(t, got.Get("none"))
}

func TestWaitsAreThoseOfTasksSubmittedBetweenTwoInstants(t *testing.T) {
	t.Parallel()
	began := time.Now()
	u := &urgent{began: began, sent: []time.Duration{1, 5, 9, 7, 10}, wait: []time.Duration{11, 12, 13, 0, 14}}
	require.Equal(t, []time.Duration{12, 13}, u.waits(began.Add(5), began.Add(10)).sorted(), "the one that never ran is not among them")
}
