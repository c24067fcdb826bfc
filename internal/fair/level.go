package fair

import (
	"math"
	"time"
)

// meter is slot time that was given. Instants are nanoseconds since a fixed
// one; sums of them may overflow, their differences don't.
type meter struct {
	ended    int64 // what runs took that are over, and what the lane was moved
	running  int64 // how many are not
	expected int64 // of them, in sum
	began    int64 // the sum of their start instants
}

func (m *meter) start(at, expected int64) {
	m.running++
	m.expected += expected
	m.began += at
}

func (m *meter) end(began, expected, took int64) {
	m.running--
	m.expected -= expected
	m.began -= began
	m.ended += took
}

// past is what was used until the instant.
func (m *meter) past(at int64) int64 { return m.ended + m.running*at - m.began }

// charged is past, or more where more is expected of what runs.
func (m *meter) charged(at int64) int64 {
	return m.ended + max(m.expected, m.running*at-m.began)
}

// standing is how a flow takes part in a decision.
type standing uint8

const (
	idle    standing = iota // it has no work, or none that may run
	blocked                 // it has, but a reserve forbids it
	active
)

// flow is one of those that share a level: a lane in one of the accounts, or
// an account.
type flow struct {
	meter
	weight  float64
	inverse float64
	stands  standing // in the last decision
	coming  standing // in the one that is made now
}

func (f *flow) tag(at int64) float64 { return float64(f.charged(at)) * f.inverse }

// lift moves the flow's tag up to at least this.
func (f *flow) lift(to float64, at int64) {
	if by := to - f.tag(at); by > 0 {
		f.ended += int64(by * f.weight)
	}
}

// level is weighted fair queueing among flows.
type level struct {
	flows   []flow
	reached float64 // the highest tag at which a flow was chosen
	changed bool    // a flow stands in another way now than in the last decision
	back    bool    // one that was idle does
}

// weigh sets a flow's weight. What the flow is ahead of the others, or
// behind them, stays the same in slot time.
func (l *level) weigh(i int, weight float64, at int64) {
	f := &l.flows[i]
	if f.weight == weight {
		return
	}
	if f.weight > 0 {
		f.ended += int64(l.resume(at) * (weight - f.weight)) // (tag - resume)·weight stays
	}
	f.weight, f.inverse = weight, 1/weight
}

// resume returns the tag at which a flow comes back: the one at which the last
// start was made, within what those have that may start. It is at most the least
// of their tags, since what a start was charged with may have been too much; and
// at least the least that one of them has used, since what was lent is not owed,
// also where runs took longer than was expected of them. Where none has work, all
// are level but for what still runs.
func (l *level) resume(at int64) float64 {
	most := math.Inf(-1)
	var tag, used [active + 1]float64
	for s := range tag {
		tag[s], used[s] = math.Inf(1), math.Inf(1)
	}
	for i := range l.flows {
		f := &l.flows[i]
		past := float64(f.past(at)) * f.inverse
		most = max(most, past)
		tag[f.stands], used[f.stands] = min(tag[f.stands], f.tag(at)), min(used[f.stands], past)
	}
	for _, s := range []standing{active, blocked} {
		if !math.IsInf(tag[s], 1) {
			return max(used[s], min(l.reached, tag[s]))
		}
	}
	return most
}

// come notes how a flow stands in the decision that is made now.
func (l *level) come(i int, now standing) {
	f := &l.flows[i]
	f.coming = now
	if now != f.stands {
		l.changed = true
		l.back = l.back || f.stands == idle
	}
}

// admit takes over what come has noted, and moves those up that come back.
func (l *level) admit(at int64) {
	if !l.changed {
		return
	}
	resume := 0.0
	if l.back {
		resume = l.resume(at)
	}
	for i := range l.flows {
		f := &l.flows[i]
		if f.stands == idle && f.coming != idle {
			f.lift(resume, at)
		}
		f.stands = f.coming
	}
	l.changed, l.back = false, false
}

// least returns the flow with the least tag of those that may start, or -1.
func (l *level) least(at int64) int {
	best, least := -1, 0.0
	for i := range l.flows {
		f := &l.flows[i]
		if f.stands != active {
			continue
		}
		if tag := f.tag(at); best < 0 || tag < least {
			best, least = i, tag
		}
	}
	return best
}

// far is when tags are moved down, before they lose precision or overflow. A
// tag is slot time over weight, so that is 13 days of one slot at weight 1.
const far = 1 << 50

// choose notes that a flow was chosen by its tag. The flows that a reserve
// holds back, which are among those from first on, are moved along.
func (l *level) choose(i, first int, at int64) {
	tag := l.flows[i].tag(at)
	l.reached = max(l.reached, tag)
	least, held := 0.0, false
	for j := first; j < len(l.flows); j++ {
		if f := &l.flows[j]; f.stands == blocked {
			if t := f.tag(at); !held || t < least {
				least, held = t, true
			}
		}
	}
	for j := first; held && least < tag && j < len(l.flows); j++ {
		if f := &l.flows[j]; f.stands == blocked {
			f.lift(f.tag(at)+tag-least, at)
		}
	}
	if l.reached >= far {
		l.rebase(at)
	}
}

// rebase moves all tags down. Who is behind by that much is idle, and will be
// moved up when it comes back.
func (l *level) rebase(at int64) {
	for i := range l.flows {
		f := &l.flows[i]
		f.lift(l.reached-far, at)
		f.ended -= int64(l.reached * f.weight)
	}
	l.reached = 0
}

// Average is a moving average of run times, the estimate for the next. The
// zero value has seen none, and expects nothing.
type Average struct{ mean time.Duration }

// Observe takes in how long a run took.
func (a *Average) Observe(took time.Duration) {
	if a.mean == 0 {
		a.mean = took
		return
	}
	a.mean += (took - a.mean) / 8
}

// Mean returns the average.
func (a *Average) Mean() time.Duration { return a.mean }
