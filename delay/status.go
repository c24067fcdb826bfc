package delay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/telemetry"
	"github.com/axtasks/ax/router"
)

// Status is what a mover does at one moment.
type Status struct {
	Running bool `json:"running"` // Run has made its clients, and not ended yet
	Moving  int  `json:"moving"`  // publishes without an answer
	// Problems are why it is not well, as [Mover.Healthy] says it.
	Problems []string `json:"problems,omitempty"`
	// Warnings are what endangers tasks and what no restart mends: settings of
	// topics that would lose waiting tasks, and clocks that disagree.
	Warnings []string     `json:"warnings,omitempty"`
	Tiers    []TierStatus `json:"tiers"` // the shortest first, then the near tier
}

// TierStatus is a mover's part in one tier.
type TierStatus struct {
	Tier       string `json:"tier"` // its delay, such as "1h", or "near"
	Topic      string `json:"topic"`
	Joined     bool   `json:"joined"`     // the group gave this mover its partitions, none perhaps
	Partitions int    `json:"partitions"` // that it owns
	// Depth is how many records of these have not left the tier yet, as far as
	// it knows, those on their way among them: what it heard of a log's end may
	// be some seconds old.
	Depth int64 `json:"depth"`
	Held  int   `json:"held"` // those of them that it has in memory, and are not on their way
	// Next is when the next one leaves, by the mover's clock: in the past for
	// one that is overdue. Zero: none was read.
	Next time.Time `json:"next,omitzero"`
	// Moved counts the records that left since Run began; Rate is how many did
	// a second, over the last minute or so.
	Moved int64   `json:"moved"`
	Rate  float64 `json:"rate"`
	// Paused says that [Mover.Pause] was called for it. Pauses counts the
	// partitions that are not read now, by reason: "wait" (what was read may
	// not leave yet), "full" (as much as may be is held), "target" (where it
	// goes to has no room), "window" and "command".
	Paused bool           `json:"paused"`
	Pauses map[string]int `json:"pauses,omitempty"`
	// Clock is how far a broker's clock is ahead of the mover's, that of the
	// partition where it is most, where Timed says that it was measured: to some
	// milliseconds, and only while records are read as they are written.
	Clock time.Duration `json:"clock_ns"`
	Timed bool          `json:"timed"`
}

// Status returns what the mover does now. It asks nobody and doesn't block;
// what it tells of the brokers is at most some seconds old. It may be called at
// any time.
func (m *Mover) Status() Status {
	s := Status{Running: m.working.Load()}
	for _, r := range m.readers {
		s.Tiers = append(s.Tiers, r.status(s.Running)...)
		if s.Running {
			s.Moving += r.pub.Open()
		}
	}
	if !s.Running {
		return s
	}
	for _, err := range m.problems() {
		s.Problems = append(s.Problems, err.Error())
	}
	s.Warnings = append(m.danger.list(), clocks(s.Tiers, m.domain.Delay.Window)...)
	return s
}

// measure returns what the metrics tell.
func (m *Mover) measure() telemetry.Mover {
	out := telemetry.Mover{Endangered: m.danger.count()}
	now := clock.Now()
	for _, r := range m.readers {
		for _, t := range r.status(true) {
			out.Tiers = append(out.Tiers, telemetry.Tier{
				Topic: t.Topic, Depth: t.Depth, Next: t.Next.Sub(now), Any: !t.Next.IsZero(),
				Moved: t.Moved, Paused: t.Pauses, Clock: t.Clock, Timed: t.Timed,
			})
		}
	}
	return out
}

// clocks returns a warning of the broker's clock that is off most, where that is
// so much that hops come out wrong.
func clocks(tiers []TierStatus, bound time.Duration) []string {
	worst := slices.MaxFunc(tiers, func(a, b TierStatus) int { return cmp.Compare(a.Clock.Abs(), b.Clock.Abs()) })
	if worst.Clock.Abs() <= bound {
		return nil
	}
	word := "ahead of"
	if worst.Clock < 0 {
		word = "behind"
	}
	return []string{fmt.Sprintf("tier %s: a broker's clock is %s %s this mover's", worst.Tier, worst.Clock.Abs().Round(time.Millisecond), word)}
}

// status tells of the reader's tiers; while it doesn't run, only what was
// commanded and moved.
func (r *reader) status(running bool) []TierStatus {
	now := time.Now()
	tiers := map[string]*TierStatus{}
	r.mu.Lock()
	for topic, t := range r.tracks {
		tiers[topic] = &TierStatus{
			Tier: t.name, Topic: topic, Joined: running && r.member.Joined(), Moved: t.moved, Rate: t.rateAt(now),
			Paused: t.paused,
		}
	}
	for _, s := range r.parts {
		t := tiers[s.p.Topic]
		t.Held += s.queue.Len() + s.held
		if e := s.queue.first(); e != nil && (t.Next.IsZero() || e.leave.Before(t.Next)) {
			t.Next = e.leave
		}
		if ahead, ok := s.skew.ahead(); ok && (!t.Timed || ahead.Abs() > t.Clock.Abs()) {
			t.Clock, t.Timed = ahead, true
		}
	}
	r.mu.Unlock()
	var owned []*group.Partition
	if running {
		owned = r.member.Partitions()
	}
	for _, p := range owned {
		t := tiers[p.Topic]
		if t == nil {
			continue
		}
		t.Partitions++
		t.Depth += p.Lag() + int64(p.Unfinished())
		for _, name := range p.Paused().Names() {
			if t.Pauses == nil {
				t.Pauses = map[string]int{}
			}
			t.Pauses[name]++
		}
	}
	all := make([]TierStatus, 0, len(tiers))
	for _, t := range tiers {
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b TierStatus) int {
		return cmp.Or(cmp.Compare(r.tiers[a.Topic].Delay, r.tiers[b.Topic].Delay), strings.Compare(a.Topic, b.Topic))
	})
	return all
}

// track returns what is known of a tier. Called with the lock held.
func (r *reader) track(topic string) *track {
	t := r.tracks[topic]
	if t == nil {
		t = &track{name: router.NearName}
		if tier, ok := r.tiers[topic]; ok {
			t.name = tier.Name()
		}
		r.tracks[topic] = t
	}
	return t
}

// Pause lets nothing more leave the tier, named as in [TierStatus] or by its
// topic, until [Mover.Resume]: in this process, whatever partitions it is given
// meanwhile. What is on its way is not held back. It returns an error that
// names the tiers for one that is unknown.
func (m *Mover) Pause(tier string) error { return m.command(tier, true) }

// Resume ends a [Mover.Pause]; what is overdue by then leaves at once. Pauses
// for other reasons stay. It does nothing for a tier that isn't paused.
func (m *Mover) Resume(tier string) error { return m.command(tier, false) }

func (m *Mover) command(tier string, pause bool) error {
	var names []string
	for _, r := range m.readers {
		found := false
		r.mu.Lock()
		for topic, t := range r.tracks {
			names = append(names, t.name)
			if tier == t.name || tier == topic {
				found, t.paused = true, pause
			}
		}
		r.mu.Unlock()
		if found {
			m.cfg.log.Warn("an operator's command", "domain", m.domain.Name, "tier", tier, "paused", pause)
			r.obey()
			return nil
		}
	}
	slices.Sort(names)
	return fmt.Errorf("ax: mover of domain %s: tier %q: want one of %s", m.domain.Name, tier, strings.Join(names, ", "))
}

// obey pauses and resumes partitions as commanded.
func (r *reader) obey() {
	if r.m.working.Load() {
		for _, p := range r.member.Partitions() {
			r.command(p)
		}
	}
	r.signal()
}

// command pauses or resumes the partition as commanded.
func (r *reader) command(p *group.Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.track(p.Topic).paused {
		p.Pause(group.PauseCommand)
	} else {
		p.Resume(group.PauseCommand)
	}
}

// assigned pauses partitions of tiers that an operator has paused.
func (r *reader) assigned(ps []*group.Partition) {
	for _, p := range ps {
		r.command(p)
	}
}

// overdue names the partitions whose first record should have left long ago.
func (r *reader) overdue() (errs []error) {
	at := clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Sub(r.passed) < stallAfter {
		at = r.passed // a wall clock that has jumped since makes nothing overdue
	}
	for p, s := range r.parts {
		if e := s.queue.first(); e != nil && !r.track(p.Topic).paused && at.Sub(e.leave) > stallAfter {
			errs = append(errs, fmt.Errorf("%s: %s/%d@%d should have left %s ago", r.name, p.Topic, p.ID, e.order, at.Sub(e.leave).Round(time.Second)))
		}
	}
	return errs
}
