package fair

import (
	"time"

	"github.com/axtasks/ax"
)

// Lane describes one lane to the scheduler, the most urgent lane first.
type Lane struct {
	Weight  int           // its share of the time relative to others; at least 1
	MaxWait time.Duration // a head that waits for longer is aged
	MaxGap  time.Duration // without a start for so long, and with nothing running, it goes next
	Reserve int           // slots that the lanes after this one can't hold together
}

// Config is what a scheduler goes by.
type Config struct {
	Slots int
	// Aging is the part of the time that belongs to aged lanes, from 0 (none)
	// to below 1.
	Aging float64
	// Strict starts the first lane that has work, but for what MaxGap, Aging
	// and reserves say.
	Strict bool
	Lanes  []Lane
}

// ConfigOf returns what a worker's lanes say, with the domain's defaults filled
// in.
func ConfigOf(slots int, s ax.Sharing, lanes []ax.Lane) Config {
	c := Config{Slots: slots, Aging: max(s.Aging, 0), Strict: s.Strict, Lanes: make([]Lane, len(lanes))}
	for i, l := range lanes {
		c.Lanes[i] = Lane{Weight: l.Weight, MaxWait: l.MaxWait, MaxGap: l.MaxGap, Reserve: l.Reserve}
	}
	return c
}

// Rule is why a lane goes next.
type Rule uint8

// The rules.
const (
	Share Rule = iota // it is its turn by weight, or by order
	Aged              // the aged lanes' part of the time
	Gap               // it had no start for its MaxGap
)

// Choice is a lane that goes next.
type Choice struct {
	Lane int
	Rule Rule
}

// Run is one start, to be ended.
type Run struct {
	lane            int32
	rule            Rule
	began, expected int64
}

// Lane returns the index of the run's lane.
func (r Run) Lane() int { return int(r.lane) }

// Expected returns what the run was charged with at its start.
func (r Run) Expected() time.Duration { return time.Duration(r.expected) }

// Scheduler shares slots among lanes. It is not safe for concurrent use.
type Scheduler struct {
	epoch   time.Time
	slots   int
	aging   float64
	strict  bool
	running int
	lanes   []state
	// The lanes, once in the account of all and once in that of the aged; and
	// these two accounts.
	all, aged, accounts level
}

const (
	allLanes = iota // in accounts
	agedLanes
)

// state is a lane.
type state struct {
	maxWait, maxGap int64
	limit           int   // how many slots this lane and all after it may hold together
	held            int   // slots
	since           int64 // of its head, in the last decision
	stats           Stats
}

// Stats counts what became of a lane.
type Stats struct {
	Running int
	Used    float64 // slot seconds, of what is over and of what runs
	Starts  uint64  // by all rules
	Aged    uint64  // of these by [Aged]
	Gap     uint64  // and by [Gap]
	// MaxWait is the longest that a head has waited from when it became the
	// head to its start.
	MaxWait time.Duration
}

// least is charged for every start, so that a clock too coarse to see a run
// does not make it free.
const least = int64(time.Microsecond)

// New returns a scheduler. now is any instant before those that it is given
// later.
func New(now time.Time, c Config) *Scheduler {
	n := len(c.Lanes)
	s := &Scheduler{
		epoch: now, lanes: make([]state, n),
		all: level{flows: make([]flow, n)}, aged: level{flows: make([]flow, n)}, accounts: level{flows: make([]flow, 2)},
	}
	s.Set(now, c)
	return s
}

// Set changes everything but the number of lanes. What runs is not touched:
// where more slots are taken than there are now, nothing starts until enough
// of them are free. A lane keeps what it is ahead of the others, or behind them.
func (s *Scheduler) Set(now time.Time, c Config) {
	at := s.instant(now)
	if s.strict && !c.Strict {
		// The order has kept time from lanes that they can't claim now.
		for i := range s.all.flows {
			s.all.flows[i].lift(s.all.reached, at)
		}
	}
	s.slots, s.aging, s.strict = c.Slots, c.Aging, c.Strict
	s.accounts.weigh(allLanes, 1-c.Aging, at)
	if c.Aging > 0 {
		s.accounts.weigh(agedLanes, c.Aging, at)
	}
	for i, l := range c.Lanes {
		st := &s.lanes[i]
		st.maxWait, st.maxGap = int64(l.MaxWait), int64(l.MaxGap)
		st.limit = limit(c, i)
		s.all.weigh(i, float64(l.Weight), at)
		s.aged.weigh(i, float64(l.Weight), at)
	}
}

// limit returns how many slots the lane and all after it may hold together. It
// is at least one: a reserve of all slots must not stop the others.
func limit(c Config, lane int) int {
	n := c.Slots
	for _, l := range c.Lanes[:lane] {
		n -= l.Reserve
	}
	return max(n, 1)
}

// Bound returns the longest that a head of the lane can wait, where no run of
// the lane takes longer than own and none of any lane longer than longest. See
// the package's doc.
func Bound(c Config, lane int, own, longest time.Duration) time.Duration {
	m, n := len(c.Lanes), limit(c, lane)
	return max(c.Lanes[lane].MaxGap, own) + time.Duration((m+n-1)/n)*longest
}

func (s *Scheduler) instant(t time.Time) int64 { return int64(t.Sub(s.epoch)) }

// Running returns how many slots are taken.
func (s *Scheduler) Running() int { return s.running }

// Stats returns what became of a lane until now.
func (s *Scheduler) Stats(lane int, now time.Time) Stats {
	at := s.instant(now)
	out := s.lanes[lane].stats
	out.Running = s.lanes[lane].held
	for _, l := range []*level{&s.all, &s.aged} {
		f := &l.flows[lane]
		out.Used += time.Duration(f.running*at - f.began).Seconds()
	}
	return out
}

// Pick returns the lane that starts next, or false where none may. head
// reports since when a lane's first task is its head, and false where the
// lane has no task that may run. A start must follow by [Scheduler.Start], or
// another Pick where it came to nothing.
func (s *Scheduler) Pick(now time.Time, head func(lane int) (since time.Time, ok bool)) (Choice, bool) {
	if s.running >= s.slots {
		return Choice{}, false
	}
	at := s.instant(now)
	overdue, forbidden := s.look(at, head)
	s.all.admit(at)
	s.aged.admit(at)
	s.accounts.admit(at)
	if overdue >= 0 {
		return Choice{overdue, Gap}, true
	}
	all, aged := &s.accounts.flows[allLanes], &s.accounts.flows[agedLanes]
	switch {
	case all.stands != active:
		return Choice{}, false
	case aged.stands == active && aged.tag(at) <= all.tag(at):
		i := s.aged.least(at)
		s.accounts.choose(agedLanes, 0, at)
		s.aged.choose(i, forbidden, at)
		return Choice{i, Aged}, true
	}
	i := s.first()
	if !s.strict {
		i = s.all.least(at)
	}
	s.accounts.choose(allLanes, 0, at)
	s.all.choose(i, forbidden, at)
	return Choice{i, Share}, true
}

// look asks for the heads. It returns the lane that is past its MaxGap for
// longest, or -1, and from which lane on a reserve forbids a start.
func (s *Scheduler) look(at int64, head func(int) (time.Time, bool)) (overdue, forbidden int) {
	overdue, forbidden = -1, len(s.lanes)
	held := s.running // by the lane and all after it
	gap := int64(0)   // by how much that lane is past it
	all, aged := idle, idle
	for i := range s.lanes {
		st := &s.lanes[i]
		if held >= st.limit && i < forbidden {
			forbidden = i
		}
		held -= st.held
		since, ok := head(i)
		if !ok {
			s.all.come(i, idle)
			s.aged.come(i, idle)
			continue
		}
		st.since = s.instant(since)
		waits := at - st.since
		stands := active
		if i >= forbidden {
			stands = blocked
		} else if past := waits - st.maxGap; st.held == 0 && past >= 0 && (overdue < 0 || past > gap) {
			overdue, gap = i, past
		}
		s.all.come(i, stands)
		all = max(all, stands)
		if s.aging == 0 || waits < st.maxWait {
			stands = idle
		}
		s.aged.come(i, stands)
		aged = max(aged, stands)
	}
	s.accounts.come(allLanes, all)
	s.accounts.come(agedLanes, aged)
	return overdue, forbidden
}

// first returns the first lane that may start.
func (s *Scheduler) first() int {
	for i := range s.all.flows {
		if s.all.flows[i].stands == active {
			return i
		}
	}
	return -1
}

// Start takes a slot for what [Scheduler.Pick] has chosen, and charges the
// lane with the run time that is expected.
func (s *Scheduler) Start(now time.Time, c Choice, expected time.Duration) Run {
	at := s.instant(now)
	st := &s.lanes[c.Lane]
	r := Run{lane: int32(c.Lane), rule: c.Rule, began: at, expected: max(int64(expected), least)}
	s.running++
	st.held++
	st.stats.Starts++
	switch c.Rule {
	case Aged:
		st.stats.Aged++
	case Gap:
		st.stats.Gap++
	}
	st.stats.MaxWait = max(st.stats.MaxWait, time.Duration(at-st.since))
	lanes, account := s.account(c.Rule)
	lanes.flows[c.Lane].start(at, r.expected)
	account.start(at, r.expected)
	return r
}

// End gives the run's slot back.
func (s *Scheduler) End(now time.Time, r Run) {
	took := max(s.instant(now)-r.began, least)
	st := &s.lanes[r.lane]
	s.running--
	st.held--
	st.stats.Used += time.Duration(took).Seconds()
	lanes, account := s.account(r.rule)
	lanes.flows[r.lane].end(r.began, r.expected, took)
	account.end(r.began, r.expected, took)
}

// account returns the account to which a rule charges.
func (s *Scheduler) account(r Rule) (*level, *flow) {
	if r == Aged {
		return &s.aged, &s.accounts.flows[agedLanes]
	}
	return &s.all, &s.accounts.flows[allLanes]
}
