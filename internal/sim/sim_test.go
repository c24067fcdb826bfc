package sim_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/sim"
	"github.com/axtasks/ax/router"
)

// domain returns one with lanes of these weights, called a, b and so on, each the
// lane of the kind of its name.
func domain(weights ...int) ax.Domain {
	d := ax.Domain{Name: "d", Durability: ax.Fast, Kinds: map[string]ax.Kind{}}
	for i, w := range weights {
		name := string(rune('a' + i))
		d.Lanes = append(d.Lanes, ax.Lane{Name: name, Weight: w})
		d.Kinds[name] = ax.Kind{Lane: name}
	}
	return d
}

// load returns one of 16 slots.
func load(long time.Duration, sources ...sim.Source) sim.Load {
	l := sim.DefaultLoad()
	l.Slots, l.For, l.Loads = 16, long, sources
	return l
}

func run(t *testing.T, d ax.Domain, l sim.Load) *sim.Result {
	t.Helper()
	r, err := sim.Run(t.Context(), d.WithDefaults(), l, nil)
	require.NoError(t, err)
	require.NoError(t, r.Err())
	return r
}

func runCSV(t *testing.T, d ax.Domain, text string) *sim.Result {
	t.Helper()
	d = d.WithDefaults()
	c, err := sim.NewRecording("r.csv", strings.NewReader(text), d)
	require.NoError(t, err)
	l := load(0)
	l.Warmup = 0
	r, err := sim.Run(t.Context(), d, l, c)
	require.NoError(t, err)
	return r
}

func ms(n int) sim.Spread { return sim.Fixed(time.Duration(n) * time.Millisecond) }

func at(d time.Duration) *time.Duration { return &d }

func TestFloodedLanesShareByWeightWhateverTheirRunsTake(t *testing.T) {
	t.Parallel()
	r := run(t, domain(8, 4, 2, 1), load(30*time.Second,
		sim.Source{Kind: "a", Run: ms(30), Flood: true},
		sim.Source{Kind: "b", Run: sim.Spread{Mean: 10 * time.Millisecond}, Flood: true},
		sim.Source{Kind: "c", Run: sim.Spread{Least: 50 * time.Millisecond, Most: 150 * time.Millisecond}, Flood: true},
		sim.Source{Kind: "d", Run: ms(1), Flood: true},
	))
	require.Less(t, *r.ShareError, 0.5)
	require.InDelta(t, 100, r.Utilisation, 0.001)
	for _, l := range r.Lanes {
		require.InDelta(t, l.Part, l.Share, 0.5, l.Lane)
		require.True(t, l.Full)
		require.Nil(t, l.WaitP99, "nobody knows since when a flood has waited")
	}
	require.InDelta(t, 16*1000/15.0, r.Lanes[3].PerS, 10)
}

func TestWithoutALoadAllLanesAreFlooded(t *testing.T) {
	t.Parallel()
	d := domain(3, 1).WithDefaults()
	r := run(t, d, sim.Flood(d))
	require.InDelta(t, 75, r.Lanes[0].Share, 0.1)
	require.InDelta(t, 3200, r.TasksPerS, 10)
}

func TestAShareThatIsNotUsedIsLent(t *testing.T) {
	t.Parallel()
	r := run(t, domain(8, 1, 1), load(10*time.Second,
		sim.Source{Kind: "a", Run: ms(10), Rate: 100, Even: true}, // 1 of 16 slots, and it may have 12.8
		sim.Source{Kind: "b", Run: ms(10), Flood: true},
		sim.Source{Kind: "c", Run: ms(10), Flood: true},
	))
	require.InDelta(t, 100.0/16, r.Lanes[0].Share, 0.2)
	require.InDelta(t, r.Lanes[1].Share, r.Lanes[2].Share, 0.2)
	require.InDelta(t, 100, r.Utilisation, 0.01)
	require.False(t, r.Lanes[0].Full)
	require.Less(t, *r.ShareError, 0.2, "of those that had work all the time")
}

func TestSlotTimeIsCountedToTheEdgesOfTheWindow(t *testing.T) {
	t.Parallel()
	// Each run is longer than the window, and spans one of its edges.
	l := load(time.Second, sim.Source{Kind: "a", Run: ms(1500), Backlog: 1}, sim.Source{Kind: "b", Run: ms(5000), Backlog: 1, Begin: at(800 * time.Millisecond)})
	l.Warmup = time.Second
	r := run(t, domain(1, 1), l)
	require.InDelta(t, 100*500.0/700, r.Lanes[0].Share, 0.001)
	require.InDelta(t, 100*700.0/16000, r.Utilisation, 0.001)
	require.EqualValues(t, 0, r.Lanes[0].Starts, "it started before")
	require.EqualValues(t, 1, r.Lanes[0].Done)
	require.EqualValues(t, 1, r.Lanes[1].Starts)
}

func mixed() sim.Load {
	return load(20*time.Second,
		sim.Source{Kind: "a", Run: sim.Spread{Mean: 5 * time.Millisecond}, Rate: 1500, Fail: 0.1},
		sim.Source{Kind: "b", Run: sim.Spread{Least: 1, Most: 50 * time.Millisecond}, Rate: 200, Delay: sim.Spread{Most: 10 * time.Second}},
		sim.Source{Kind: "b", Run: ms(3), Backlog: 5000, Begin: at(5 * time.Second)},
	)
}

// printed returns all that can be seen of a result.
func printed(t *testing.T, r *sim.Result) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.SVG(&b))
	return strings.Join(r.Lines(), "\n") + b.String()
}

func TestOneSeedGivesOneResult(t *testing.T) {
	t.Parallel()
	l := mixed()
	first := printed(t, run(t, domain(2, 1), l))
	require.Equal(t, first, printed(t, run(t, domain(2, 1), l)))
	l.Seed = 2
	require.NotEqual(t, first, printed(t, run(t, domain(2, 1), l)))
}

// Two domains can only be compared if the same happens to both.
func TestArrivalsDoNotDependOnTheDomain(t *testing.T) {
	t.Parallel()
	l := load(10*time.Second, sim.Source{Kind: "a", Run: ms(1), Rate: 300}, sim.Source{Kind: "b", Run: sim.Spread{Mean: time.Millisecond}, Rate: 300})
	both, one := domain(1, 1), domain(1, 1)
	one.Kinds["a"] = ax.Kind{Lane: "b"}
	r, o := run(t, both, l), run(t, one, l)
	require.Positive(t, r.Lanes[0].Starts)
	require.Zero(t, o.Lanes[0].Starts)
	require.Equal(t, r.Lanes[0].Starts+r.Lanes[1].Starts, o.Lanes[1].Starts)
}

func TestArrivalsComeAtTheRate(t *testing.T) {
	t.Parallel()
	l := load(100*time.Second,
		sim.Source{Kind: "a", Run: ms(1), Rate: 400},
		sim.Source{Kind: "b", Run: ms(1), Rate: 50, Even: true, Begin: at(20 * time.Second), End: at(60 * time.Second)},
	)
	r := run(t, domain(1, 1), l)
	// Five deviations of a Poisson count of 40,000.
	require.InDelta(t, 40_000, r.Lanes[0].Starts, 1000)
	require.NotEqualValues(t, 40_000, r.Lanes[0].Starts)
	require.EqualValues(t, 2000, r.Lanes[1].Starts)
}

func TestWritesOfATaskAreItsHopsAndItsLane(t *testing.T) {
	t.Parallel()
	d := domain(1).WithDefaults()
	r, err := router.New(d)
	require.NoError(t, err)
	for _, delay := range []time.Duration{
		0, 50 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second, 45 * time.Second, time.Minute, 10 * time.Minute,
		time.Hour, 3 * time.Hour, 25*time.Hour + 7*time.Minute, 7 * 24 * time.Hour,
	} {
		got := runCSV(t, d, fmt.Sprintf("at,kind,run,delay\n1s,a,2ms,%s\n", delay))
		require.EqualValues(t, 1, got.Lanes[0].Done)
		require.InDelta(t, len(r.Hops(delay))+1, *got.Lanes[0].Writes, 0, "%s: %v", delay, r.Hops(delay))
		if delay > 0 {
			require.InDelta(t, 0, *got.Lanes[0].LateMax, 0, "a slot is free when it is due")
		}
		require.InDelta(t, (time.Second + delay + 2*time.Millisecond).Seconds(), got.ForS, 0, "neither early nor late")
	}
}

func TestATaskThatFailsComesBackUntilItsAttemptsAreSpent(t *testing.T) {
	t.Parallel()
	d := domain(1)
	d.Kinds["a"] = ax.Kind{Lane: "a", Attempts: 3, Backoff: ax.Backoff{Delays: []time.Duration{10 * time.Millisecond, 5 * time.Second}}}
	l := load(20*time.Second, sim.Source{Kind: "a", Run: ms(2), Backlog: 7, Fail: 1})
	l.Warmup = 0
	r := run(t, d, l).Lanes[0]
	require.EqualValues(t, 21, r.Starts)
	require.EqualValues(t, 14, r.Retries)
	require.EqualValues(t, 7, r.Dead)
	require.Zero(t, r.Done)
	// The lane; the lane, since the first wait is within the lead; a far tier, the
	// near one and the lane; the dead topic.
	require.InDelta(t, 1+1+3+1, *r.Writes, 0)
	require.InDelta(t, 0, *r.LateMax, 0)

	l.Loads[0].Fail = 0.5
	r = run(t, d, l).Lanes[0]
	require.EqualValues(t, 7, r.Done+r.Dead)
	require.Equal(t, 7+r.Retries, r.Starts)

	d.Kinds["a"] = ax.Kind{Lane: "a", Attempts: 3, Backoff: ax.Backoff{Base: time.Second, Max: time.Second}}
	l.Loads[0].Fail = 1
	require.EqualValues(t, 21, run(t, d, l).Lanes[0].Starts, "a random back-off")
}

func TestARunThatIsTooLongFailsAtItsTimeout(t *testing.T) {
	t.Parallel()
	d := domain(1)
	d.Kinds["a"] = ax.Kind{Lane: "a", Attempts: 1, Timeout: 100 * time.Millisecond}
	r := runCSV(t, d, "at,kind,run\n0s,a,1h\n")
	require.EqualValues(t, 1, r.Lanes[0].Dead)
	require.InDelta(t, 0.1, r.ForS, 0)
}

func TestATaskThatWaitsTooLongExpires(t *testing.T) {
	t.Parallel()
	d := domain(1)
	d.Kinds["a"] = ax.Kind{Lane: "a", Expires: time.Second}
	l := load(10*time.Second, sim.Source{Kind: "a", Run: ms(900), Backlog: 3})
	l.Slots, l.Warmup = 1, 0
	r := run(t, d, l).Lanes[0]
	require.EqualValues(t, 2, r.Done)
	require.EqualValues(t, 1, r.Expired)
	require.EqualValues(t, 2, r.Starts)
}

func TestAKindsConcurrencyIsASkipThatHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	d := domain(1)
	d.Kinds["slow"] = ax.Kind{Lane: "a", Concurrency: 2}
	l := load(10*time.Second, sim.Source{Kind: "slow", Run: ms(1000), Backlog: 1000}, sim.Source{Kind: "a", Run: ms(10), Rate: 100, Even: true})
	l.Warmup = 0
	r := run(t, d, l)
	// Two slots for it all the time, and one for the others.
	require.InDelta(t, 100*3.0/16, r.Utilisation, 0.01)
	require.InDelta(t, 0, *r.Lanes[0].WaitP50, 0)
	require.Equal(t, 980, r.Lanes[0].Waiting)
	require.True(t, r.Lanes[0].Limited)
	require.Nil(t, r.ShareError)
}

// The worker reads 2,000 tasks of a lane ahead, and then nothing until half of
// them have started, whatever stands behind them in the log.
func TestATaskBehindMoreOfALimitedKindThanAWorkerReadsWaitsForThem(t *testing.T) {
	t.Parallel()
	d := domain(1)
	d.Kinds["slow"] = ax.Kind{Lane: "a", Concurrency: 10}
	for backlog, want := range map[int]time.Duration{
		1900: 0,
		2500: 99*time.Second - time.Millisecond, // ten start at once, ten a second from then on
	} {
		l := load(5*time.Minute, sim.Source{Kind: "slow", Run: ms(1000), Backlog: backlog}, sim.Source{Kind: "a", Run: ms(1), Backlog: 1, Delay: ms(1)})
		l.Warmup = 0
		r := run(t, d, l).Lanes[0]
		require.Equal(t, float64(want.Milliseconds()), *r.LateMax)
		require.EqualValues(t, backlog+1, r.Done)
	}
}

// The waits of a queue with Poisson arrivals and exponential runs are known.
func TestWaitsAreThoseOfQueueingTheory(t *testing.T) {
	t.Parallel()
	for slots, erlang := range map[int]float64{1: 0.8, 4: 0.5964} { // how many of the tasks wait, by Erlang's formula
		const rate = 100.0 // of one slot
		l := load(5000*time.Second, sim.Source{Kind: "a", Run: sim.Spread{Mean: 10 * time.Millisecond}, Rate: 0.8 * rate * float64(slots)})
		l.Slots = slots
		r := run(t, domain(1), l).Lanes[0]
		free := 0.2 * rate * float64(slots)
		for q, got := range map[float64]*float64{0.5: r.WaitP50, 0.99: r.WaitP99} {
			want := 1000 * math.Log(erlang/(1-q)) / free
			require.InDelta(t, want, *got, 0.06*want, "%d slots, %v", slots, q)
		}
	}
}

func TestALanesLimitHoldsOverItsPartitions(t *testing.T) {
	t.Parallel()
	d := domain(1, 1)
	d.Lanes[0].Limit, d.Lanes[0].Partitions = 4, 3
	for name, source := range map[string]sim.Source{
		"backlog": {Kind: "a", Run: ms(100), Backlog: 2000},
		"flood":   {Kind: "a", Run: ms(100), Flood: true},
	} {
		r := run(t, d, load(10*time.Second, source))
		require.InDelta(t, 100*4.0/16, r.Utilisation, 0.01, name)
		require.InDelta(t, 40, r.Lanes[0].PerS, 0.1, name)
		require.True(t, r.Lanes[0].Limited)
	}
}

func TestAReserveKeepsASlotForWhatIsUrgent(t *testing.T) {
	t.Parallel()
	l := load(10*time.Second, sim.Source{Kind: "a", Run: ms(1), Rate: 20, Even: true}, sim.Source{Kind: "b", Run: ms(3000), Flood: true})
	d := domain(1, 1)
	require.Greater(t, *run(t, d, l).Lanes[0].WaitMax, 500.0)
	d.Lanes[0].Reserve = 1
	require.InDelta(t, 0, *run(t, d, l).Lanes[0].WaitMax, 0)
}

func TestAnAgedLaneAndOneWithoutAStartAreCounted(t *testing.T) {
	t.Parallel()
	d := domain(1000, 1)
	d.Lanes[1].MaxWait, d.Lanes[1].MaxGap = 100*time.Millisecond, time.Minute
	l := load(20*time.Second, sim.Source{Kind: "a", Run: ms(10), Flood: true}, sim.Source{Kind: "b", Run: ms(10), Flood: true})
	l.Slots = 1
	r := run(t, d, l).Lanes[1]
	require.Positive(t, r.Aged)
	require.Zero(t, r.Gap)
	require.LessOrEqual(t, r.Head, r.Bound)

	d.Sharing.Aging, d.Lanes[1].MaxGap = -1, 200*time.Millisecond
	r = run(t, d, l).Lanes[1]
	require.Zero(t, r.Aged)
	require.Positive(t, r.Gap)
	require.InDelta(t, 210, r.Head, 10)
	require.LessOrEqual(t, r.Head, r.Bound)
}

func TestAHeadAboveItsBoundIsAnError(t *testing.T) {
	t.Parallel()
	r := run(t, domain(1), load(time.Second, sim.Source{Kind: "a", Run: ms(10), Flood: true}))
	r.Lanes[0].HeadAbove = true
	require.ErrorContains(t, r.Err(), "lane a: its head waited for")
	require.Contains(t, strings.Join(r.Lines(), "\n"), "above the bound")
}

func TestARecordingIsPlayedUntilAllIsDone(t *testing.T) {
	t.Parallel()
	const rows = "kind,at,run,lane,delay\na,%s,1s,,\nb,%s,5ms,a,1m\n"
	for _, instants := range [][]any{{"10s", "30s"}, {"2026-03-01T12:00:00Z", "2026-03-01T13:00:20+01:00"}} {
		r := runCSV(t, domain(1, 1), fmt.Sprintf(rows, instants...))
		require.EqualValues(t, 2, r.Lanes[0].Done, "the second names lane a")
		require.Zero(t, r.Lanes[1].Starts)
		require.Zero(t, r.Lanes[0].Delayed)
	}
}

func TestARecordingMayBeLongerThanTheChartHasParts(t *testing.T) {
	t.Parallel()
	var rows strings.Builder
	rows.WriteString("at,kind,run\n")
	for i := range 2000 {
		fmt.Fprintf(&rows, "%ds,a,%dms\n", i*i/50, 100+i)
	}
	r := runCSV(t, domain(1), rows.String())
	require.EqualValues(t, 2000, r.Lanes[0].Done)
	text := printed(t, r)
	require.Less(t, strings.Count(text, " H"), 3*2*120, "the chart is bounded")
}

func TestTheChartIsXMLAndNamesAllLanes(t *testing.T) {
	t.Parallel()
	d := domain(8, 4, 2, 1)
	var b bytes.Buffer
	require.NoError(t, run(t, d, mixed2(d)).SVG(&b))
	dec := xml.NewDecoder(&b)
	var words strings.Builder
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok {
			words.Write(text)
			words.WriteString("|")
		}
	}
	for _, want := range []string{"|a|", "|d|", "|53.3%|", "|100%|", "|10s|", "p99"} {
		require.Contains(t, words.String(), want)
	}
	require.NotContains(t, words.String(), "NaN")
}

func mixed2(d ax.Domain) sim.Load {
	l := mixed()
	l.Loads = append(l.Loads, sim.Flood(d).Loads[2])
	return l
}

func TestASimulationEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := domain(1).WithDefaults()
	_, err := sim.Run(ctx, d, sim.Flood(d), nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestALoadOfCodeIsCheckedToo(t *testing.T) {
	t.Parallel()
	_, err := sim.Run(t.Context(), domain(1).WithDefaults(), load(time.Second, sim.Source{Kind: "a", Lane: "x", Rate: 1}), nil)
	var fault *ax.FieldError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, "loads[0].lane", fault.Path)
}
