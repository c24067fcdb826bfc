package sim

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fair"
)

// Result is what would happen. A figure that there is none of is nil.
type Result struct {
	Domain      string   `json:"domain"`
	Slots       int      `json:"slots"`
	Seed        int      `json:"seed"`
	WarmupS     float64  `json:"warmup_s"`
	ForS        float64  `json:"for_s"`
	Utilisation float64  `json:"utilisation_percent"` // of the slots' time
	TasksPerS   float64  `json:"tasks_per_s"`         // that ended
	StartsPerS  float64  `json:"starts_per_s"`
	WritesPerS  float64  `json:"writes_per_s"`
	Writes      *float64 `json:"writes_per_task"`
	// ShareError is by how many points the share of a lane is off its weight, at
	// worst, among those that had work all the time, and no limit held.
	ShareError *float64 `json:"share_error_points"`
	Lanes      []Lane   `json:"lanes"`

	line *timeline
}

// Lane is what became of one lane in the measured time.
type Lane struct {
	Lane    string  `json:"lane"`
	Weight  int     `json:"weight"`
	Part    float64 `json:"weight_percent"`
	Share   float64 `json:"share_percent"` // of the slot time that was used
	Starts  uint64  `json:"starts"`
	PerS    float64 `json:"starts_per_s"`
	Waiting int     `json:"waiting_end"` // tasks that wait for a slot at the end
	Delayed int     `json:"delayed_end"` // and that are not due
	Flooded bool    `json:"flooded"`
	Full    bool    `json:"full"`    // it had work all the time
	Limited bool    `json:"limited"` // for some time a limit held all that it had

	// From ready to start, but for tasks of a flood.
	WaitP50 *float64 `json:"wait_p50_ms"`
	WaitP99 *float64 `json:"wait_p99_ms"`
	WaitMax *float64 `json:"wait_max_ms"`
	// How long a head has waited, at most, and how long it should where no limit
	// holds it.
	Head      float64 `json:"head_wait_max_ms"`
	Bound     float64 `json:"head_wait_bound_ms"`
	HeadAbove bool    `json:"head_above_bound"`
	Aged      uint64  `json:"aged_starts"`
	Gap       uint64  `json:"gap_starts"`
	// From due to start, of tasks that had a due time.
	LateP50 *float64 `json:"late_p50_ms"`
	LateP99 *float64 `json:"late_p99_ms"`
	LateMax *float64 `json:"late_max_ms"`

	Done    uint64   `json:"done"`
	Dead    uint64   `json:"dead"`
	Expired uint64   `json:"expired"`
	Retries uint64   `json:"retries"`
	Writes  *float64 `json:"writes_per_task"` // of those that ended
}

func (s *simulation) result() *Result {
	long := time.Duration(s.to - s.from)
	r := &Result{
		Domain: s.router.Domain().Name, Slots: s.load.Slots, Seed: s.load.Seed,
		WarmupS: s.load.Warmup.Seconds(), ForS: long.Seconds(), line: s.line,
		WritesPerS: round(float64(s.totals.writes) / long.Seconds()),
	}
	var used time.Duration
	weights := 0
	for _, l := range s.lanes {
		used += l.used
		weights += l.conf.Weight
	}
	var starts, ended, writes uint64
	for i, l := range s.lanes {
		bound := fair.Bound(s.shares, i, l.own, s.longest)
		settled := l.done + l.dead + l.expired
		starts, ended, writes = starts+l.starts, ended+settled, writes+l.writes
		lane := Lane{
			Lane: l.conf.Name, Weight: l.conf.Weight, Part: percent(float64(l.conf.Weight), float64(weights)),
			Share: percent(float64(l.used), float64(used)), Starts: l.starts, PerS: round(float64(l.starts) / long.Seconds()),
			Waiting: l.waiting(), Delayed: l.onWay, Flooded: l.flooded, Full: !l.dry, Limited: l.limited,
			Head: millis(l.head), Bound: millis(bound), HeadAbove: l.headFree > bound, Aged: l.aged, Gap: l.gap,
			Done: l.done, Dead: l.dead, Expired: l.expired, Retries: l.retries, Writes: ratio(l.writes, settled),
		}
		lane.WaitP50, lane.WaitP99, lane.WaitMax = l.wait.figures()
		lane.LateP50, lane.LateP99, lane.LateMax = l.late.figures()
		r.Lanes = append(r.Lanes, lane)
	}
	r.Utilisation = percent(float64(used), float64(long)*float64(s.load.Slots))
	r.TasksPerS, r.StartsPerS = round(float64(ended)/long.Seconds()), round(float64(starts)/long.Seconds())
	r.Writes = ratio(writes, ended)
	r.ShareError = s.shareError()
	return r
}

// shareError compares the lanes with each other that had work all the time.
func (s *simulation) shareError() *float64 {
	var used time.Duration
	weights, n := 0, 0
	for _, l := range s.lanes {
		if !l.dry && !l.limited {
			used, weights, n = used+l.used, weights+l.conf.Weight, n+1
		}
	}
	if n < 2 || used == 0 {
		return nil
	}
	worst := 0.0
	for _, l := range s.lanes {
		if !l.dry && !l.limited {
			worst = max(worst, 100*math.Abs(float64(l.used)/float64(used)-float64(l.conf.Weight)/float64(weights)))
		}
	}
	worst = round(worst)
	return &worst
}

// Err returns an error if a lane's head has waited above its bound, with no limit
// to hold it: then the scheduler, or what is said of it, is wrong.
func (r *Result) Err() error {
	var errs []error
	for _, l := range r.Lanes {
		if l.HeadAbove {
			errs = append(errs, fmt.Errorf("sim: domain %s: lane %s: its head waited for %s, and no limit held it; the bound is %s: this is a bug of ax",
				r.Domain, l.Lane, short(&l.Head), short(&l.Bound)))
		}
	}
	return errors.Join(errs...)
}

func (h *histogram) figures() (p50, p99, most *float64) {
	if h.total == 0 {
		return nil, nil, nil
	}
	at := func(d time.Duration) *float64 { ms := millis(d); return &ms }
	return at(h.quantile(0.5)), at(h.quantile(0.99)), at(h.most)
}

func joined(all []*ax.FieldError) error {
	errs := make([]error, len(all))
	for i, f := range all {
		errs[i] = f
	}
	return errors.Join(errs...)
}

func percent(part, of float64) float64 {
	if of == 0 {
		return 0
	}
	return round(100 * part / of)
}

func ratio(a, b uint64) *float64 {
	if b == 0 {
		return nil
	}
	x := round(float64(a) / float64(b))
	return &x
}

func millis(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }

// round keeps three digits after the point.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }
