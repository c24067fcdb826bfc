package router

import (
	"slices"
	"time"
)

// FewHops is the number of hops that [Router.ProposeTiers] wants no delay to
// exceed: one tier twice, and the near tier.
const FewHops = 3

// maxCandidates bounds what a round of a proposal tries, and with it its cost.
const maxCandidates = 64

// ProposeTiers returns the tiers to add to the domain's own, the shortest
// first, so that its delays, those of [Router.Plans], take few hops. It returns
// none if no delay takes more than [FewHops].
//
// It is greedy: each round adds, out of the delays that take more than two hops,
// the one that as a tier saves most hops summed over all, until none takes more
// than FewHops or nothing helps. A tier of exactly a delay brings that delay to
// two.
// What would be no valid domain is not proposed (a longer tier may need a longer
// retention), nor a tier by which one of the delays would take more hops than it
// does today: with one of 25m, a delay of 30m takes that and then 1m five times.
// So delays with more hops are left only where the domain may have no more tiers,
// or retention forbids them. The number of tiers need not be the least: that
// would mean to try all sets. It computes the hops of all delays
// for at most 64 candidates in each of at most 32 rounds.
func (r *Router) ProposeTiers(more ...time.Duration) []time.Duration {
	plans := r.Plans(more...)
	now := ladderOf(r.domain.Delay)
	var added []time.Duration
	for {
		var best time.Duration
		least := now.total(plans)
		tried := 0
		for _, p := range slices.Backward(plans) { // the longest first
			tier := p.Delay.Truncate(time.Millisecond)
			if now.hops(p.Delay) <= 2 || slices.Contains(now.tiers, tier) || tried == maxCandidates {
				continue
			}
			tried++
			with := now.with(tier)
			if total := with.total(plans); total < least && !with.harms(plans) && r.valid(with) {
				best, least = tier, total
			}
		}
		if best == 0 || !slices.ContainsFunc(plans, func(p DelayPlan) bool { return now.hops(p.Delay) > FewHops }) {
			slices.Sort(added)
			return added
		}
		now, added = now.with(best), append(added, best)
	}
}

// total returns how many hops the delays take together.
func (l ladder) total(plans []DelayPlan) (n int) {
	for _, p := range plans {
		n += l.hops(p.Delay)
	}
	return n
}

// harms reports whether one of the delays takes more hops than by the domain's
// own tiers.
func (l ladder) harms(plans []DelayPlan) bool {
	return slices.ContainsFunc(plans, func(p DelayPlan) bool { return l.hops(p.Delay) > p.Hops })
}

// valid reports whether the domain may have these tiers.
func (r *Router) valid(l ladder) bool {
	d := r.domain
	d.Delay.Tiers = l.tiers
	return d.Validate() == nil
}

// WithTiers returns how many hops the delay would take with these tiers beside
// the domain's own.
func (r *Router) WithTiers(delay time.Duration, tiers ...time.Duration) int {
	l := ladderOf(r.domain.Delay)
	for _, t := range tiers {
		l = l.with(t)
	}
	return l.hops(delay)
}
