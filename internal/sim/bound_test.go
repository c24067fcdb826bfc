package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/sim"
)

func TestWhateverTheDomainAndItsLoadHeadsStartWithinTheirBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		span := func(label string, least, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(t, label))
		}
		whole := func(label string, least, most int) int { return rapid.IntRange(least, most).Draw(t, label) }
		lanes := whole("lanes", 1, 5)
		l := load(5 * time.Second)
		l.Slots, l.Warmup, l.Seed = whole("slots", 1, 8), span("warm-up", 0, time.Second), whole("seed", 0, 1000)
		d := domain(make([]int, lanes)...)
		d.Sharing = ax.Sharing{Aging: rapid.SampledFrom([]float64{-1, 0, 0.5}).Draw(t, "aging"), Strict: rapid.Bool().Draw(t, "strict")}
		for i := range d.Lanes {
			lane := &d.Lanes[i]
			lane.Weight = whole("weight", 1, 20)
			lane.MaxWait = span("max_wait", time.Millisecond, time.Second)
			lane.MaxGap = lane.MaxWait + span("max_gap", 0, time.Second)
			lane.Reserve = whole("reserve", 0, 2)
			if rapid.Bool().Draw(t, "limited") {
				lane.Partitions = whole("partitions", 1, 3)
				lane.Limit = lane.Partitions + whole("limit", 0, 3)
			}
			kind := d.Kinds[lane.Name]
			kind.Concurrency = whole("concurrency", 0, 3)
			d.Kinds[lane.Name] = kind
			for range whole("sources", 0, 3) {
				s := sim.Source{Lane: lane.Name, Kind: rapid.SampledFrom([]string{lane.Name, "a", "other"}).Draw(t, "kind")}
				s.Run = sim.Spread{Least: span("run", 0, 100*time.Millisecond)}
				s.Run.Most = s.Run.Least + span("more", 0, 200*time.Millisecond)
				if rapid.Bool().Draw(t, "begins") {
					s.Begin = at(span("begin", 0, 2*time.Second))
				}
				switch rapid.SampledFrom([]string{"rate", "backlog", "flood"}).Draw(t, "what") {
				case "rate":
					s.Rate = float64(whole("rate", 1, 100))
					s.Delay = sim.Spread{Most: span("delay", 0, 3*time.Second)}
				case "backlog":
					s.Backlog = whole("backlog", 1, 200)
					s.Fail = 0.2
				case "flood":
					s.Flood, s.Run.Least, s.Run.Most = true, s.Run.Least+time.Millisecond, s.Run.Most+time.Millisecond
				}
				l.Loads = append(l.Loads, s)
			}
		}
		r, err := sim.Run(t.Context(), d.WithDefaults(), l, nil)
		require.NoError(t, err)
		require.NoError(t, r.Err())
		share := 0.0
		for _, lane := range r.Lanes {
			share += lane.Share
			require.LessOrEqual(t, lane.Aged+lane.Gap, lane.Starts)
		}
		if r.Utilisation > 0 {
			require.InDelta(t, 100, share, 0.01)
		}
		require.LessOrEqual(t, r.Utilisation, 100.0)
	})
}

func TestEveryTaskEndsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		whole := func(label string, least, most int) int { return rapid.IntRange(least, most).Draw(t, label) }
		l := load(time.Hour)
		l.Warmup, l.Slots, l.Seed = 0, whole("slots", 1, 8), whole("seed", 0, 1000)
		d := domain(1, 5, 2)
		d.Lanes[1].Partitions, d.Lanes[1].Limit = 2, whole("limit", 2, 5)
		d.Kinds["c"] = ax.Kind{Lane: "c", Concurrency: whole("concurrency", 0, 2), Attempts: 2}
		d.Kinds["b"] = ax.Kind{Lane: "b", Timeout: 50 * time.Millisecond, Attempts: 3, Expires: 5 * time.Second}
		for range whole("sources", 1, 5) {
			l.Loads = append(l.Loads, sim.Source{
				Kind: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "kind"), Backlog: whole("backlog", 1, 2500),
				Run: sim.Spread{Mean: 20 * time.Millisecond}, Fail: rapid.Float64Range(0, 1).Draw(t, "fail"),
				Delay: sim.Spread{Most: time.Duration(whole("delay", 0, 100)) * time.Second}, Begin: at(time.Duration(whole("begin", 0, 3)) * time.Second),
			})
		}
		r, err := sim.Run(t.Context(), d.WithDefaults(), l, nil)
		require.NoError(t, err)
		require.NoError(t, r.Err())
		for i, lane := range r.Lanes {
			came := uint64(0)
			for _, s := range l.Loads {
				if s.Kind == lane.Lane {
					came += uint64(s.Backlog)
				}
			}
			require.Equal(t, came, lane.Done+lane.Dead+lane.Expired, "%v", i)
			require.Equal(t, lane.Starts, lane.Done+lane.Dead+lane.Retries)
			require.Zero(t, lane.Waiting)
			require.Zero(t, lane.Delayed)
		}
	})
}
