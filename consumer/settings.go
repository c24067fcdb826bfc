package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
)

// Settings are what can be changed while a worker runs. They are one worker's;
// the domain's file is not changed.
type Settings struct {
	// Slots is how many tasks run at once, as [WithSlots] says.
	Slots int `json:"slots"`
	// Aging and Strict are those of ax.Sharing; so an Aging of 0 is the default.
	Aging  float64 `json:"aging"`
	Strict bool    `json:"strict"`
	// Lanes are those of the domain, in its order.
	Lanes []LaneSettings `json:"lanes"`
	// Kinds are those that have a handler, by name.
	Kinds []KindSettings `json:"kinds"`
}

// LaneSettings are of one lane. The fields have the meaning, the bounds and the
// defaults of those of ax.Lane.
type LaneSettings struct {
	Lane    string        `json:"lane"`
	Weight  int           `json:"weight"`
	MaxWait time.Duration `json:"max_wait"` // nanoseconds in JSON, as is MaxGap
	MaxGap  time.Duration `json:"max_gap"`
	Reserve int           `json:"reserve"`
	// Limit holds in the whole cluster only if all workers have it: while they
	// differ, each owner of a partition goes by its own.
	Limit int `json:"limit"`
}

// KindSettings are of one kind.
type KindSettings struct {
	Kind        string `json:"kind"`
	Concurrency int    `json:"concurrency"` // 0: no limit but the slots
	// Breaker is [Auto], or holds the kind's breaker open, so that nothing of
	// it starts and no attempt is spent, or closed, so that it runs whatever
	// fails.
	Breaker Hold `json:"breaker,omitempty"`
}

// Hold is what an operator wants of a breaker.
type Hold string

const (
	Auto       Hold = ""       // it opens and closes by itself
	HoldOpen   Hold = "open"   // it stays open
	HoldClosed Hold = "closed" // it stays closed
)

// Lane returns the settings of a lane, to be changed in place, or nil if there
// is none of that name.
func (s *Settings) Lane(name string) *LaneSettings {
	for i := range s.Lanes {
		if s.Lanes[i].Lane == name {
			return &s.Lanes[i]
		}
	}
	return nil
}

// Kind returns the settings of a kind, to be changed in place, or nil if there
// is none of that name.
func (s *Settings) Kind(name string) *KindSettings {
	for i := range s.Kinds {
		if s.Kinds[i].Kind == name {
			return &s.Kinds[i]
		}
	}
	return nil
}

func (s *Settings) clone() Settings {
	out := *s
	out.Lanes, out.Kinds = slices.Clone(s.Lanes), slices.Clone(s.Kinds)
	return out
}

// settings guards those of a worker.
type settings struct {
	mu  sync.Mutex
	now Settings
}

// settingsOf returns what the domain says.
func (w *Worker) settingsOf(d ax.Domain, slots int) Settings {
	s := Settings{Slots: slots, Aging: d.Sharing.Aging, Strict: d.Sharing.Strict}
	for _, l := range d.Lanes {
		s.Lanes = append(s.Lanes, LaneSettings{Lane: l.Name, Weight: l.Weight, MaxWait: l.MaxWait, MaxGap: l.MaxGap, Reserve: l.Reserve, Limit: l.Limit})
	}
	for _, name := range slices.Sorted(maps.Keys(w.kinds)) {
		s.Kinds = append(s.Kinds, KindSettings{Kind: name, Concurrency: d.Kind(name).Concurrency})
	}
	return s
}

// Settings returns a copy of what the worker goes by now. It doesn't block, and
// may be called at any time.
func (w *Worker) Settings() Settings {
	w.settings.mu.Lock()
	defer w.settings.mu.Unlock()
	return w.settings.now.clone()
}

// Change changes the worker's settings: change gets a copy and edits it, and
// must not call the worker. All of it holds from the next start on, or, if a
// value is out of range or a lane or kind was added, removed or renamed, nothing
// does, and the error names each fault. What runs is not touched: with fewer
// slots, or a lower limit, nothing starts until enough of it is over. No task is
// lost, repeated or run out of turn by a change. It may be called at any time,
// also before Run and by several goroutines; changes follow each other.
//
//	err := worker.Change(func(s *consumer.Settings) {
//		s.Slots = 64
//		s.Lane("low").Weight = 4
//	})
func (w *Worker) Change(change func(*Settings)) error {
	w.settings.mu.Lock()
	defer w.settings.mu.Unlock()
	asked := w.settings.now.clone()
	change(&asked)
	d, err := w.changed(&asked)
	if err != nil {
		return fmt.Errorf("ax: worker of domain %s: change: %w", w.domain.Name, err)
	}
	next := w.settingsOf(d, asked.Slots) // the caller may keep what it got
	for i := range next.Kinds {
		next.Kinds[i].Breaker = asked.Kinds[i].Breaker
	}
	before := w.settings.now
	w.settings.now = next
	if w.sched != nil {
		w.sched.apply(next, clock.Now())
	}
	w.log.Info("worker's settings were changed", "domain", w.domain.Name, "from", before, "to", next)
	return nil
}

// changed returns the worker's domain with other settings, or what is wrong
// with them.
func (w *Worker) changed(s *Settings) (ax.Domain, error) {
	now := &w.settings.now
	d := w.domain
	var errs []error
	if !slices.EqualFunc(s.Lanes, now.Lanes, func(a, b LaneSettings) bool { return a.Lane == b.Lane }) {
		errs = append(errs, errors.New("lanes can't be added, removed, renamed or moved"))
	}
	if !slices.EqualFunc(s.Kinds, now.Kinds, func(a, b KindSettings) bool { return a.Kind == b.Kind }) {
		errs = append(errs, errors.New("kinds can't be added, removed, renamed or moved"))
	}
	if len(errs) > 0 {
		return d, errors.Join(errs...)
	}
	d.Sharing = ax.Sharing{Aging: s.Aging, Strict: s.Strict}
	d.Lanes, d.Kinds = slices.Clone(d.Lanes), maps.Clone(d.Kinds)
	if d.Kinds == nil {
		d.Kinds = map[string]ax.Kind{}
	}
	for i, l := range s.Lanes {
		l.to(&d.Lanes[i])
	}
	for _, k := range s.Kinds {
		conf := d.Kind(k.Kind)
		conf.Concurrency = k.Concurrency
		d.Kinds[k.Kind] = conf
	}
	for i, k := range s.Kinds {
		if b := k.Breaker; b != Auto && b != HoldOpen && b != HoldClosed {
			errs = append(errs, &ax.FieldError{Path: fmt.Sprintf("kinds[%d].breaker", i), Value: fmt.Sprintf("%q", b), Reason: "want open, closed or nothing"})
		}
	}
	d = d.WithDefaults()
	return d, errors.Join(append(errs, checkSlots(s.Slots), d.Validate())...)
}

func (s LaneSettings) to(l *ax.Lane) {
	l.Weight, l.MaxWait, l.MaxGap, l.Reserve, l.Limit = s.Weight, s.MaxWait, s.MaxGap, s.Reserve, s.Limit
}

// apply lets new settings hold. Lanes that the domain no longer names keep what
// they had.
func (s *scheduler) apply(next Settings, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if c := next.Lane(l.conf.Name); c != nil && l.leftover == nil {
			c.to(&l.conf)
		}
	}
	resort := false
	for _, c := range next.Kinds {
		if k := s.kinds[c.Kind]; k != nil {
			k.breaker.hold(c.Breaker)
		}
		if k := s.kinds[c.Kind]; k != nil && k.conf.Concurrency != c.Concurrency {
			resort = resort || (k.conf.Concurrency == 0) != (c.Concurrency == 0)
			k.conf.Concurrency = c.Concurrency
		}
	}
	if resort {
		for _, l := range s.lanes {
			for _, p := range l.parts {
				p.resort()
			}
		}
	}
	s.fair.Set(now, shares(next.Slots, ax.Sharing{Aging: next.Aging, Strict: next.Strict}, s.lanes))
	s.resize(next.Slots)
	// All look again: those that are too many end, and a limit may be higher.
	s.cond.Broadcast()
}

// resize makes slots, where there are too few. Those that are too many end when
// they next look for a task.
func (s *scheduler) resize(n int) {
	s.want = n
	for s.serve != nil && !s.stopping && len(s.slots) < n+s.deaf {
		s.addSlot()
	}
}

func (s *scheduler) addSlot() {
	sl := &slot{}
	s.slots = append(s.slots, sl)
	s.serve(sl)
}

// begin makes the slots, each served by serve, which must not block.
func (s *scheduler) begin(serve func(*slot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve = serve
	s.resize(s.want)
}

// surplus takes the slot away if there are too many. The job that it has ended
// may have held up another, by a limit, which this slot does not take any more; so
// another one looks.
func (s *scheduler) surplus(sl *slot) bool {
	if len(s.slots) <= s.want+s.deaf {
		return false
	}
	s.slots = slices.DeleteFunc(s.slots, func(have *slot) bool { return have == sl })
	s.cond.Signal()
	return true
}

// resort puts the jobs that wait into the queues that they belong to now.
func (p *part) resort() {
	var all []*job
	for _, q := range p.queues {
		all = append(all, q.jobs[q.head:]...)
	}
	first := func(j *job) int {
		if p.Alert() && p.Marked(j.ticket) {
			return 0 // the others wait for it
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b *job) int {
		return cmp.Or(first(a)-first(b), a.ready.Compare(b.ready), cmp.Compare(a.task.Source.Offset, b.task.Source.Offset))
	})
	p.queues = nil
	for _, j := range all {
		p.queue(j).push(j)
	}
}
