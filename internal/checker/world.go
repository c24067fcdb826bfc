package checker

import (
	"cmp"
	"slices"
	"time"
)

// world is what happened to all: the faults.
type world struct {
	faults []*Fact // by their beginning
	slack  int64
	settle int64
	hits   int64      // faults that can copy a task
	busy   [][2]int64 // when some fault, or what follows from it, was going on; sorted, apart
}

func newWorld(faults []*Fact, slack, settle time.Duration) *world {
	w := &world{faults: faults, slack: int64(slack), settle: int64(settle)}
	slices.SortFunc(w.faults, func(a, b *Fact) int { return cmp.Compare(a.At, b.At) })
	for _, f := range w.faults {
		if f.Until < f.At {
			f.Until = f.At
		}
		if hits(f) {
			w.hits++
		}
		from, to := f.At, f.Until+w.settle
		if n := len(w.busy); n > 0 && from <= w.busy[n-1][1] {
			w.busy[n-1][1] = max(w.busy[n-1][1], to)
		} else {
			w.busy = append(w.busy, [2]int64{from, to})
		}
	}
	return w
}

// hits reports whether a fault takes a process from its work without its
// knowledge.
func hits(f *Fact) bool {
	switch f.What {
	case Kill, Freeze, Cut, Broker:
		return true
	}
	return false
}

// end returns when a process has come to terms with a fault.
func (w *world) end(f *Fact) int64 {
	if f.What == Kill {
		return f.Until // there is nobody left who could
	}
	return f.Until + w.settle
}

// hit reports whether the process was hit during, or a slack after, from..to.
func (w *world) hit(proc string, from, to int64) bool {
	for _, f := range w.faults {
		if hits(f) && (f.Proc == proc || f.What == Broker) && from <= w.end(f) && to >= f.At-w.slack {
			return true
		}
	}
	return false
}

// hitAny reports whether any process was hit between the instants.
func (w *world) hitAny(from, to int64) bool {
	for _, f := range w.faults {
		if hits(f) && from <= f.Until+w.settle && to >= f.At-w.slack {
			return true
		}
	}
	return false
}

// reset reports whether commits of the topic, or of any where it is empty,
// were deleted after an instant.
func (w *world) reset(topic string, after int64) bool {
	for _, f := range w.faults {
		if f.What == Reset && after <= f.Until && (topic == "" || slices.Contains(f.Topics, topic)) {
			return true
		}
	}
	return false
}

// quiet returns how much of from..to no fault was going on.
func (w *world) quiet(from, to int64) time.Duration {
	d := to - from
	for _, b := range w.busy {
		if lo, hi := max(from, b[0]), min(to, b[1]); lo < hi {
			d -= hi - lo
		}
	}
	return time.Duration(d)
}
