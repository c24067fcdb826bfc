// Package fair chooses the lane that starts next: weighted fair queueing by
// worker time. It is a pure structure without Kafka, goroutines or a clock.
//
// Each lane has a virtual time, the worker time it was given divided by its
// weight; the runnable lane with the least goes next. A start is charged at
// once with the run time that is expected of it, so that a burst of starts
// can't all see the same low virtual time, and corrected at its end by what it
// really took. A lane that was idle resumes where the last start was made, also
// where it and the others never had work at the same time: idle share is lent,
// never banked.
//
// Two rules stand above that order. A lane whose head has waited past its
// MaxWait, and which has nothing running, goes first, the earliest overdue
// before the others; so no lane starves however its weight. And lanes below a
// reserve never hold more than what it leaves them.
//
// After Demers, Keshav, Shenker: Analysis and simulation of a fair queueing
// algorithm (1989), with time in the place of bits.
package fair

import "time"

// Lane describes one lane to the scheduler, the most urgent lane first.
type Lane struct {
	Weight  int
	MaxWait time.Duration
	Reserve int // slots that the lanes after this one can't hold together
}

// Scheduler is not safe for concurrent use.
type Scheduler struct {
	slots   int
	running int
	reached float64 // the highest virtual time at which a lane was started
	lanes   []state
}

type state struct {
	weight   float64
	maxWait  time.Duration
	cap      int     // how many starts this lane and all after it may hold
	virtual  float64 // seconds of worker time / weight
	running  int
	runnable bool // in the last Pick
}

// New returns a scheduler of so many slots.
func New(slots int, lanes []Lane) *Scheduler {
	s := &Scheduler{slots: slots, lanes: make([]state, len(lanes))}
	reserved := 0
	for i, l := range lanes {
		// At least one: a reserve of all slots must not stop the others.
		s.lanes[i] = state{weight: float64(l.Weight), maxWait: l.MaxWait, cap: max(slots-reserved, 1)}
		reserved += l.Reserve
	}
	return s
}

// Running returns how many slots are taken.
func (s *Scheduler) Running() int { return s.running }

// Pick returns the lane that starts next, or -1. head reports since when a
// lane's first runnable task waits, and false where there is none. Pick alone
// changes no share; [Scheduler.Start] must follow a start.
func (s *Scheduler) Pick(now time.Time, head func(lane int) (since time.Time, ok bool)) int {
	if s.running >= s.slots {
		return -1
	}
	best, overdue := -1, -1
	var overdueAt time.Time
	resume := min(s.reached, s.highest())
	for i := range s.lanes {
		l := &s.lanes[i]
		since, ok := head(i)
		if ok && !l.runnable {
			l.virtual = max(l.virtual, resume)
		}
		l.runnable = ok
		if !ok || !s.allowed(i) {
			continue
		}
		if at := since.Add(l.maxWait); l.running == 0 && !now.Before(at) && (overdue < 0 || at.Before(overdueAt)) {
			overdue, overdueAt = i, at
		}
		if best < 0 || l.virtual < s.lanes[best].virtual {
			best = i
		}
	}
	if overdue >= 0 {
		return overdue
	}
	return best
}

// highest returns the highest virtual time of the lanes that had work in the
// last Pick, or of all if none had. A start that was charged with too much may
// have been above it.
func (s *Scheduler) highest() float64 {
	all, busy := 0.0, -1.0
	for i := range s.lanes {
		l := &s.lanes[i]
		all = max(all, l.virtual)
		if l.runnable {
			busy = max(busy, l.virtual)
		}
	}
	if busy >= 0 {
		return busy
	}
	return all
}

// allowed reports whether no reserve forbids a start of lane i: for each lane
// up to i, what it and all after it hold together is capped.
func (s *Scheduler) allowed(i int) bool {
	held := s.running
	for j := 0; j <= i; j++ {
		if held >= s.lanes[j].cap {
			return false
		}
		held -= s.lanes[j].running
	}
	return true
}

// Start takes a slot for lane i and charges it with the expected run time.
func (s *Scheduler) Start(i int, expected time.Duration) {
	s.running++
	s.lanes[i].running++
	s.reached = max(s.reached, s.lanes[i].virtual)
	s.charge(i, expected)
}

// End gives the slot back and corrects the charge to the real run time.
func (s *Scheduler) End(i int, expected, took time.Duration) {
	s.running--
	s.lanes[i].running--
	s.charge(i, took-expected)
}

func (s *Scheduler) charge(i int, d time.Duration) {
	s.lanes[i].virtual += d.Seconds() / s.lanes[i].weight
}
