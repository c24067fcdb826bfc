package checker

import (
	"cmp"
	"slices"
	"time"
)

const (
	// heartbeat is how long before a freeze the last sign of life may have
	// been, and a little: from the session less this on a freeze is a hit.
	heartbeat = int64(time.Second)
	// thaw is how long after a freeze a run may begin that had been chosen
	// before it: there is nothing between the choice and the run but this.
	thaw = int64(100 * time.Millisecond)
)

// world is what happened to all: the faults.
type world struct {
	faults  []*Fact // by their beginning
	window  int64   // how long a finished run may wait for its commit
	session int64
	settle  int64
	pace    pace       // who ran what
	busy    [][2]int64 // when some fault, or what follows from it, was going on; sorted, apart
}

func newWorld(faults []*Fact, o Options, p pace) *world {
	w := &world{faults: faults, window: int64(o.CommitEvery + o.RoundTrip), session: int64(o.Session), settle: int64(o.Settle), pace: p}
	slices.SortFunc(w.faults, func(a, b *Fact) int { return cmp.Compare(a.At, b.At) })
	for _, f := range w.faults {
		if f.Until < f.At {
			f.Until = f.At
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
func (w *world) hits(f *Fact) bool {
	switch f.What {
	case Kill, Cut, Broker:
		return true
	case Freeze:
		return f.Until-f.At >= w.session-heartbeat
	}
	return false
}

// copies reports whether a fault can copy tasks: it hits all, or a process that
// runs and submits nothing, which is a mover.
func (w *world) copies(f *Fact) bool {
	return w.hits(f) && (f.What == Broker || w.pace[f.Proc] == nil)
}

// end returns until when a fault explains what a process does.
func (w *world) end(f *Fact) int64 {
	switch f.What {
	case Kill:
		return f.Until // there is nobody left who could do anything
	case Freeze:
		return f.Until + thaw
	}
	return f.Until + w.settle
}

// strikes reports whether a fault hits the process.
func (w *world) strikes(f *Fact, proc string) bool {
	return w.hits(f) && (f.Proc == proc || f.What == Broker)
}

// hit returns the fault that explains why what the process did from..to has no
// commit at an instant: it was hit meanwhile, or less than a window after. It
// returns nil where there is none. Where there are more, it is the one that
// explains most.
func (w *world) hit(proc string, from, to, at int64) *Fact {
	var found *Fact
	for _, f := range w.faults {
		if w.strikes(f, proc) && from <= w.end(f) && to >= f.At-w.window && at >= f.At && (found == nil || wider(f, found)) {
			found = f
		}
	}
	return found
}

// wider reports whether a explains more than b.
func wider(a, b *Fact) bool {
	order := []string{Kill, Freeze, Cut, Broker}
	return slices.Index(order, a.What) > slices.Index(order, b.What)
}

// copier returns the last fault that can have copied a task which was on its
// way since an instant, where another record of it ran first and this one at
// last; nil if there is none. The record that ran first was written less than a
// window before the hit, or later.
func (w *world) copier(since, first, last int64) *Fact {
	var found *Fact
	for _, f := range w.faults {
		if w.copies(f) && since <= f.Until+w.settle && first >= f.At-w.window && last >= f.At {
			found = f
		}
	}
	return found
}

// last returns the fault of the process, of any kind, that began last between
// the instants, or nil.
func (w *world) last(proc string, from, to int64) *Fact {
	var found *Fact
	for _, f := range w.faults {
		if f.Proc == proc && f.Until >= from && f.At <= to {
			found = f
		}
	}
	return found
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
