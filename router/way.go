package router

import (
	"maps"
	"slices"
	"time"

	"github.com/axtasks/ax"
)

// ManyHops is the number of hops above which [DelayPlan.TooMany] is true: each
// hop is a write and a read.
const ManyHops = 8

// Leg is a part of a task's way: a delay topic that it goes through Times
// times on end.
type Leg struct {
	Topic string
	Times int
}

// Way is [Router.Hops] with repeats as a number. A way may have millions of
// hops, where the delay is long and the tiers are short, but never more legs
// than the domain has delay topics.
func (r *Router) Way(delay time.Duration) []Leg {
	var way []Leg
	ladderOf(r.domain.Delay).climb(delay, func(tier, times int) {
		topic := r.near
		if tier >= 0 {
			topic = r.tiers[tier].Topic
		}
		way = append(way, Leg{Topic: topic, Times: times})
	})
	return way
}

// DelayPlan is a delay that tasks of the domain have, and how it is served.
type DelayPlan struct {
	Delay  time.Duration
	Common bool     // the domain's Delay.Common lists it
	Kinds  []string // the kinds whose Backoff.Delays list it, sorted
	Way    []Leg    // none for a delay within the lead: the task goes to its lane
	Hops   int      // of the whole way
}

// TooMany reports whether the delay takes more than [ManyHops] hops.
func (p DelayPlan) TooMany() bool { return p.Hops > ManyHops }

// Plans returns the delays that the domain names and how its tiers serve them,
// the shortest first and each once: Delay.Common, the Backoff.Delays of its
// kinds (a back-off without a list waits a random time), and those in more,
// which have neither Common nor Kinds unless the domain names them too. What
// is not above 0, or above the horizon, is left out: no task waits so long.
func (r *Router) Plans(more ...time.Duration) []DelayPlan {
	found := map[time.Duration]*DelayPlan{}
	at := func(delay time.Duration) *DelayPlan {
		if found[delay] == nil {
			found[delay] = &DelayPlan{Delay: delay}
		}
		return found[delay]
	}
	for _, delay := range r.domain.Delay.Common {
		at(delay).Common = true
	}
	for _, name := range slices.Sorted(maps.Keys(r.domain.Kinds)) {
		for _, delay := range r.domain.Kinds[name].Backoff.Delays {
			if p := at(delay); !slices.Contains(p.Kinds, name) {
				p.Kinds = append(p.Kinds, name)
			}
		}
	}
	for _, delay := range more {
		at(delay)
	}
	var all []DelayPlan
	for _, delay := range slices.Sorted(maps.Keys(found)) {
		if delay <= 0 || delay > r.domain.Delay.Horizon {
			continue
		}
		p := found[delay]
		p.Way = r.Way(delay)
		for _, leg := range p.Way {
			p.Hops += leg.Times
		}
		all = append(all, *p)
	}
	return all
}

// ladder is what the number of hops follows from.
type ladder struct {
	tiers        []time.Duration // rising
	window, lead time.Duration
}

func ladderOf(d ax.Delay) ladder { return ladder{d.Tiers, d.Window, d.Lead} }

// climb calls leg for each tier that a delay takes, by its index, the largest
// first, and how many times, and at last with -1 for the near tier. It is
// [Router.Hops] without its steps: a delay takes a tier until what is left no
// longer fits it, and never comes back to a larger one.
func (l ladder) climb(delay time.Duration, leg func(tier, times int)) {
	if delay <= max(l.lead, 0) {
		return
	}
	for i, tier := range slices.Backward(l.tiers) {
		over := delay + l.window/4 - tier
		if over < 0 {
			continue
		}
		wait := tier - l.window
		delay = over%wait + tier - l.window/4 - wait
		leg(i, int(over/wait)+1)
	}
	leg(-1, 1)
}

// hops returns how many hops a delay takes.
func (l ladder) hops(delay time.Duration) (n int) {
	l.climb(delay, func(_, times int) { n += times })
	return n
}

// with returns the ladder with one tier more, which it does not have yet.
func (l ladder) with(tier time.Duration) ladder {
	i, _ := slices.BinarySearch(l.tiers, tier)
	l.tiers = slices.Insert(slices.Clone(l.tiers), i, tier)
	return l
}
