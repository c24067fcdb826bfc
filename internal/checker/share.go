package checker

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// Shares asks how slot time was shared among lanes during a window in which
// all of them had work all the time.
type Shares struct {
	Weights     map[string]int
	From, Until time.Time
	Points      float64 // by how many points of a hundred a lane may be off
}

func mapsKeys[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }

// use adds what a run took of the window.
func (j *judge) use(r *run) {
	s := j.opts.Shares
	if s == nil {
		return
	}
	from, to := r.start.At, r.settledAt()
	if to == 0 {
		to = s.Until.UnixNano()
	}
	took := min(to, s.Until.UnixNano()) - max(from, s.From.UnixNano())
	if _, ok := s.Weights[r.start.Lane]; !ok || took <= 0 {
		return
	}
	if j.used[r.start.Proc] == nil {
		j.used[r.start.Proc] = map[string]int64{}
	}
	j.used[r.start.Proc][r.start.Lane] += took
}

func (j *judge) judgeShares() {
	s, p := j.opts.Shares, j.report.Promise(Share)
	if s == nil {
		return
	}
	weights := 0
	for _, w := range s.Weights {
		weights += w
	}
	for _, proc := range slices.Sorted(maps.Keys(j.used)) {
		used := j.used[proc]
		var total int64
		for _, ns := range used {
			total += ns
		}
		for _, lane := range slices.Sorted(maps.Keys(s.Weights)) {
			p.Checked++
			got, want := 100*float64(used[lane])/float64(total), 100*float64(s.Weights[lane])/float64(weights)
			if off := got - want; off > s.Points || off < -s.Points {
				p.violated("%s: lane %s had %.1f %% of %s slot time from %s to %s, its weight's share is %.1f %%", proc, lane, got,
					time.Duration(total).Round(time.Millisecond), s.From.UTC().Format("15:04:05"), s.Until.UTC().Format("15:04:05"), want)
			}
		}
	}
}
