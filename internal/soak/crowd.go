package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// crowd is a scenario in which the number of workers changes all the time:
// each is started, stopped, killed and frozen when the dice say so. Movers,
// producers and brokers are hit as well, but rarely.
type crowd struct {
	least, most int // workers that are at work at once
	pause       time.Duration
	events      []crowdEvent
}

// crowdEvent is what can happen to a crowd, and how often relative to the rest.
type crowdEvent struct {
	what, role string
	weight     int
}

var workersCrowd = &crowd{
	least: 2, most: 6, pause: 4500 * time.Millisecond,
	events: []crowdEvent{
		{faultStart, "worker", 36}, {faultStop, "worker", 16}, {faultKill, "worker", 20}, {faultFreeze, "worker", 14},
		{faultKill, "mover", 3}, {faultStop, "mover", 3}, {faultFreeze, "mover", 2},
		{faultKill, "producer", 1}, {faultStop, "producer", 2},
		{faultCut, "worker", 2}, {faultDelay, "worker", 2}, {faultSkew, "worker", 2}, {faultSkew, "mover", 1},
		{faultBrokerKill, "", 4}, {faultBrokerFreeze, "", 2}, {faultLeader, "", 3}, {faultPartitions, "", 1},
	},
}

const (
	// crowdStart is when the first fault may come. Brokers that have just started
	// can take a second to acknowledge a first record or commit, and what is not
	// acknowledged is repeated.
	crowdStart = 8 * time.Second
	// deployEvery is how much of a soak has one deploy.
	deployEvery = 10 * time.Minute
	// deployPause lets a worker that was started join before the next one stops.
	deployPause = 2 * time.Second
	// deployEach is what a script reckons with for each worker of a deploy.
	deployEach = 5 * time.Second
)

// crowdScript is a script that is being made, and what is known of its workers
// at the time that it has come to.
type crowdScript struct {
	*crowd
	dice  *rand.Rand
	t     targets
	up    map[string]bool          // workers that were started
	busy  map[string]time.Duration // until when a target is being harmed
	steps []step
}

func makeCrowdScript(seed uint64, length time.Duration, c *crowd, t targets) []step {
	s := &crowdScript{crowd: c, dice: rand.New(rand.NewPCG(seed, 0xc0de)), t: t, up: map[string]bool{}, busy: map[string]time.Duration{}}
	for n := range t.first {
		s.up[worker(n)] = true
	}
	deploys := max(1, int(length/deployEvery))
	part := length / time.Duration(deploys)
	next := part*2/5 + s.upTo(part/5)
	for at := crowdStart; at < length-tail; at += s.between(c.pause/2, c.pause*3/2) {
		if at >= next && deploys > 0 {
			deploys--
			next += part
			at = s.deploy(at)
			continue
		}
		s.event(at)
	}
	return slices.DeleteFunc(s.steps, func(st step) bool { return st.at >= length-tail })
}

func worker(n int) string { return fmt.Sprintf("worker-%d", n+1) }

func (s *crowdScript) between(lo, hi time.Duration) time.Duration {
	return lo + s.upTo(hi-lo)
}

func (s *crowdScript) upTo(d time.Duration) time.Duration {
	return time.Duration(s.dice.Int64N(int64(d))).Round(100 * time.Millisecond)
}

// deploy adds a deploy of all workers, and returns when it is over. One is
// stopped while the others work, so there must be one more than the least.
func (s *crowdScript) deploy(at time.Duration) time.Duration {
	for s.awake(at) <= s.least {
		if name := s.pick(func(n string) bool { return !s.up[n] }); name != "" {
			s.add(step{at: at, what: faultStart, slot: name})
		} else {
			at += time.Second // until one has thawed
		}
	}
	st := step{at: at + deployPause, what: faultDeploy, length: time.Duration(len(s.up)) * deployEach}
	s.steps = append(s.steps, st)
	return st.at + st.length
}

// event adds what the dice say, unless it is impossible now.
func (s *crowdScript) event(at time.Duration) {
	sum := 0
	for _, e := range s.events {
		sum += e.weight
	}
	dice := s.dice.IntN(sum)
	for _, e := range s.events {
		if dice -= e.weight; dice >= 0 {
			continue
		}
		st := step{at: at, what: e.what}
		if s.aim(&st, e.role) && s.busy[s.target(st)] <= at {
			s.add(st)
		}
		return
	}
}

// aim gives a fault its target, length and amount. It reports false where there
// is no target for it.
func (s *crowdScript) aim(st *step, role string) bool {
	if !s.possible(st.what) {
		return false
	}
	switch st.what {
	case faultBrokerKill, faultBrokerFreeze:
		st.broker, st.length = 1+s.dice.IntN(s.t.brokers), s.between(2*time.Second, 7*time.Second)
		return true
	case faultLeader:
		st.about = []string{"critical", "normal", keyedLane, "near"}[s.dice.IntN(4)]
		return true
	case faultPartitions:
		st.about = []string{"high", "normal", "near", "far"}[s.dice.IntN(4)]
		return true
	case faultFreeze:
		st.length = s.between(2*time.Second, 12*time.Second)
	case faultCut:
		st.broker, st.length = 1+s.dice.IntN(s.t.brokers), s.between(2*time.Second, 10*time.Second)
	case faultDelay:
		st.broker, st.length = 1+s.dice.IntN(s.t.brokers), s.between(2*time.Second, 10*time.Second)
		st.amount = s.between(50*time.Millisecond, 300*time.Millisecond)
	case faultSkew:
		if st.amount = s.between(200*time.Millisecond, 2*time.Second); s.dice.IntN(2) == 0 {
			st.amount = -st.amount
		}
	}
	if role == "worker" {
		st.slot = s.aimAtWorker(*st)
		return st.slot != ""
	}
	n := map[string]int{"mover": s.t.movers, "producer": s.t.producers}[role]
	st.slot = fmt.Sprintf("%s-%d", role, 1+s.dice.IntN(n))
	if st.what == faultKill || st.what == faultStop {
		st.length = s.between(300*time.Millisecond, 4*time.Second)
	}
	return true
}

// possible reports whether a fault is in reach.
func (s *crowdScript) possible(what string) bool {
	switch what {
	case faultBrokerKill, faultBrokerFreeze, faultCut, faultDelay:
		return s.t.brokers > 0
	case faultSkew:
		return s.t.skew
	}
	return true
}

func (s *crowdScript) aimAtWorker(st step) string {
	if st.what == faultStart {
		return s.pick(func(n string) bool { return !s.up[n] })
	}
	if s.awake(st.at) <= s.least {
		return ""
	}
	return s.pick(func(n string) bool { return s.up[n] && s.busy[n] <= st.at })
}

// awake returns how many workers are up and not frozen or cut off.
func (s *crowdScript) awake(at time.Duration) int {
	n := 0
	for name := range s.up {
		if s.busy[name] <= at {
			n++
		}
	}
	return n
}

// pick returns one of the workers that may be picked, or none.
func (s *crowdScript) pick(may func(string) bool) string {
	var names []string
	for n := range s.t.workers {
		if may(worker(n)) {
			names = append(names, worker(n))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return names[s.dice.IntN(len(names))]
}

func (s *crowdScript) target(st step) string {
	if st.slot == "" {
		return "brokers"
	}
	return st.slot
}

func (s *crowdScript) add(st step) {
	if st.what == faultStart {
		s.up[st.slot] = true
	}
	if s.up[st.slot] && (st.what == faultStop || st.what == faultKill) {
		delete(s.up, st.slot)
	}
	if st.length > 0 || st.slot == "" {
		s.busy[s.target(st)] = st.at + st.length + 2*time.Second
	}
	if st.broker > 0 && st.slot == "" {
		s.busy[s.target(st)] += 10 * time.Second // until the replicas have caught up
	}
	s.steps = append(s.steps, st)
}
