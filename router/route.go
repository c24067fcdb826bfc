package router

import (
	"time"

	"github.com/axtasks/ax"
)

// Next returns the topic to which t goes next, and sets t.Leave to the nominal
// instant at which it may leave that topic: zero for a lane or the near tier.
// at is the instant from which the wait counts: for a task that comes out of a
// tier the leave time it came with, for any other now.
func (r *Router) Next(t *ax.Task, at, now time.Time) (topic string) {
	d := &r.domain.Delay
	t.Leave = time.Time{}
	if t.Due.IsZero() || t.Due.Sub(now) <= max(d.Lead, 0) {
		return r.Lane(t.Lane)
	}
	if earliest := now.Add(-d.Window / 2); at.Before(earliest) {
		at = earliest
	} else if latest := now.Add(d.Window / 10); at.After(latest) {
		at = latest
	}
	tier := r.tier(t.Due.Sub(at))
	if tier == nil {
		return r.near
	}
	t.Leave = at.Add(tier.Wait)
	return tier.Topic
}

// tier returns the largest tier that a wait of d fits, or nil for the near
// tier.
func (r *Router) tier(d time.Duration) *Tier {
	d += r.domain.Delay.Window / 4
	for i := len(r.tiers) - 1; i >= 0; i-- {
		if r.tiers[i].Delay <= d {
			return &r.tiers[i]
		}
	}
	return nil
}

// Back returns the tier for a task that came to its lane much too early: a
// mover's clock is ahead of the worker's, or somebody wrote it there. The
// record claims no leave time, so that it waits by the broker's clock, at
// first the shortest tier and twice as long with each deferral, but never
// past its due time: two clocks that disagree must not pass a task back and
// forth at the speed of the broker. now is before t.Due by more than the
// shortest tier.
func (r *Router) Back(t *ax.Task, now time.Time) (topic string) {
	t.Leave = time.Time{}
	left, wait := t.Due.Sub(now), r.tiers[0].Delay
	for range t.Deferrals {
		if wait *= 2; wait >= left {
			break
		}
	}
	tier := r.tier(min(left, wait))
	if tier == nil {
		tier = &r.tiers[0]
	}
	return tier.Topic
}

// Hops returns the topics through which a task with this delay goes before it
// reaches its lane, on paper: what [Router.Next] does when no hop is late.
func (r *Router) Hops(delay time.Duration) []string {
	if delay <= max(r.domain.Delay.Lead, 0) {
		return nil
	}
	var hops []string
	for {
		tier := r.tier(delay)
		if tier == nil {
			return append(hops, r.near)
		}
		hops = append(hops, tier.Topic)
		delay -= tier.Wait
	}
}

// LeaveAt returns when a record of a far tier leaves it: W/10 before the
// instant it claims, so that lateness over many hops stays zero, and never
// later than the tier's wait after the broker appended it, so that a forged
// claim, or a producer whose clock is ahead, can't hold up those behind it. A
// record that claims nothing waits the tier's wait. Leaving early does no
// harm, since the router sends on what isn't due.
//
// The tenth comes off the claim and not off the bound: a record that left its
// last tier early claims more than the tier's wait after its append, and the
// tenth taken off both would make it a tenth earlier with each hop.
func (r *Router) LeaveAt(tier Tier, claim, appended time.Time) time.Time {
	latest := appended.Add(tier.Wait)
	if claim.IsZero() {
		return latest
	}
	if early := claim.Add(-r.domain.Delay.Window / 10); early.Before(latest) {
		return early
	}
	return latest
}
