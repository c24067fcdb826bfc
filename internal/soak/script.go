package main

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// The faults of a script.
const (
	faultKill         = "kill"          // kill -9 a process; back after a while
	faultFreeze       = "freeze"        // SIGSTOP, SIGCONT
	faultStop         = "stop"          // SIGTERM; back after a while
	faultStart        = "start"         // a process that is not there is started
	faultDeploy       = "deploy"        // all workers are stopped and started, one after the other
	faultSkew         = "skew"          // stopped, and started with a wrong clock
	faultCut          = "cut"           // nothing passes between a process and a broker
	faultDelay        = "delay"         // what passes between them takes longer
	faultBrokerKill   = "broker kill"   // kill -9 a broker; back after a while
	faultBrokerFreeze = "broker freeze" // SIGSTOP, SIGCONT
	faultLeader       = "leader"        // the leaders of a topic move
	faultReset        = "reset"         // a group's commits are deleted
	faultPartitions   = "partitions"    // a topic gets a partition more
)

// step is one fault of a script.
type step struct {
	at     time.Duration // since the beginning
	what   string
	slot   string // of a process
	broker int
	about  string // a topic or a group, by its short name
	length time.Duration
	amount time.Duration // of a delay or a skew
}

func (s step) String() string {
	text := fmt.Sprintf("%6.1fs %s", s.at.Seconds(), s.what)
	for _, part := range []string{s.slot, s.about} {
		if part != "" {
			text += " " + part
		}
	}
	if s.broker > 0 {
		text += fmt.Sprintf(" broker %d", s.broker)
	}
	if s.amount != 0 {
		text += fmt.Sprintf(" by %s", s.amount)
	}
	if s.length > 0 {
		text += fmt.Sprintf(" for %s", s.length)
	}
	return text
}

// scenario says which faults happen, and how often relative to each other.
type scenario struct {
	faults map[string]int
	slots  []string      // whom process faults hit; none: workers, movers, producers
	pause  time.Duration // the mean time between two faults; zero: 5 s
	length time.Duration // of each stop and freeze; zero: what the dice say
	// away lets the process that the last fault hits stay away, so that the
	// others have its partitions at the end.
	away bool
	// nearBuffer bounds the mover's near tier, so that it pauses partitions.
	nearBuffer int
	// buffer is that of role, for all workers and movers.
	buffer int
	// saturate makes all tasks slow and due at once, and asks for the lanes'
	// shares of slot time.
	saturate bool
	tune     bool   // workers' settings change all the time
	rate     int    // where none is given; zero: 200
	crowd    *crowd // if not nil, the number of workers changes
}

// workers returns how many workers there can be where so many are wanted at
// the beginning.
func (s scenario) workers(wanted int) int {
	if s.crowd != nil {
		return max(wanted, s.crowd.most)
	}
	return wanted
}

// someRecords is room for the records of two or three tasks.
const someRecords = 1000

var scenarios = map[string]scenario{
	"all": {faults: map[string]int{
		faultKill: 5, faultFreeze: 3, faultStop: 3, faultSkew: 2, faultCut: 3, faultDelay: 2,
		faultBrokerKill: 3, faultBrokerFreeze: 1, faultLeader: 2, faultReset: 1, faultPartitions: 1,
	}, tune: true},
	"none":      {},
	"processes": {faults: map[string]int{faultKill: 4, faultFreeze: 2, faultStop: 4, faultSkew: 1}},
	"brokers":   {faults: map[string]int{faultBrokerKill: 3, faultBrokerFreeze: 1, faultLeader: 2, faultCut: 2, faultDelay: 1}},
	// The mover that stays gets partitions back which it had paused.
	"pauses":    {faults: map[string]int{faultStop: 1}, slots: []string{"mover-2"}, pause: 3 * time.Second, length: 1500 * time.Millisecond, away: true, nearBuffer: 15},
	"topics":    {faults: map[string]int{faultLeader: 1, faultReset: 1, faultPartitions: 1}, pause: 8 * time.Second},
	"publishes": {buffer: someRecords, rate: 1200},
	"workers":   {crowd: workersCrowd, rate: 150, tune: true},
	"shares":    {saturate: true, rate: 600},
	"evictions": {faults: map[string]int{faultFreeze: 1}, slots: []string{"worker-1", "worker-2", "worker-3"}, pause: 6 * time.Second, length: 9 * time.Second},
}

func scenarioNames() []string { return slices.Sorted(maps.Keys(scenarios)) }

// targets is what a script can aim at.
type targets struct {
	workers, movers, producers int
	first                      int  // of the workers, those that are there at the beginning
	brokers                    int  // zero: they are out of reach
	skew                       bool // this build can skew a clock
}

// tail is how long before the end the last fault begins.
const tail = 4 * time.Second

// makeScript returns the faults of a soak. It follows from its arguments
// alone.
func makeScript(seed uint64, length time.Duration, sc scenario, t targets) []step {
	if sc.crowd != nil {
		return makeCrowdScript(seed, length, sc.crowd, t)
	}
	dice := rand.New(rand.NewPCG(seed, 0x5eed))
	between := func(lo, hi time.Duration) time.Duration {
		return (lo + time.Duration(dice.Int64N(int64(hi-lo)))).Round(100 * time.Millisecond)
	}
	pause := sc.pause
	if pause == 0 {
		pause = 5 * time.Second
	}
	var steps []step
	busy := map[string]time.Duration{} // until when a target is being harmed
	for at := 3 * time.Second; at < length-tail; at += between(pause/2, pause*3/2) {
		s := step{at: at, what: pickFault(dice, sc.faults, t)}
		if s.what == "" {
			break
		}
		aim(&s, dice, between, sc, t)
		key := s.slot
		if key == "" {
			key = "brokers"
		}
		if busy[key] > at {
			continue
		}
		busy[key] = at + s.length + 2*time.Second
		if s.what == faultBrokerKill || s.what == faultBrokerFreeze {
			busy[key] += 6 * time.Second // until the replicas have caught up
		}
		steps = append(steps, s)
	}
	if sc.away && len(steps) > 0 {
		steps[len(steps)-1].length = length
	}
	return steps
}

func pickFault(dice *rand.Rand, faults map[string]int, t targets) string {
	sum := 0
	possible := func(what string) bool {
		switch what {
		case faultBrokerKill, faultBrokerFreeze, faultCut, faultDelay:
			return t.brokers > 0
		case faultSkew:
			return t.skew
		}
		return true
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(faults)), func(n string) bool { return !possible(n) })
	for _, n := range names {
		sum += faults[n]
	}
	if sum == 0 {
		return ""
	}
	at := dice.IntN(sum)
	for _, n := range names {
		if at -= faults[n]; at < 0 {
			return n
		}
	}
	return ""
}

// aim gives a fault its target, length and amount.
func aim(s *step, dice *rand.Rand, between func(lo, hi time.Duration) time.Duration, sc scenario, t targets) {
	roles := []string{"worker", "worker", "mover", "mover", "producer"}
	counts := map[string]int{"worker": t.workers, "mover": t.movers, "producer": t.producers}
	slot := func() string {
		if len(sc.slots) > 0 {
			return sc.slots[dice.IntN(len(sc.slots))]
		}
		r := roles[dice.IntN(len(roles))]
		return fmt.Sprintf("%s-%d", r, 1+dice.IntN(counts[r]))
	}
	switch s.what {
	case faultKill, faultStop:
		s.slot, s.length = slot(), between(300*time.Millisecond, 4*time.Second)
	case faultFreeze:
		s.slot, s.length = slot(), between(2*time.Second, 12*time.Second)
	case faultSkew:
		s.slot, s.amount = slot(), between(200*time.Millisecond, 2*time.Second)
		if dice.IntN(2) == 0 {
			s.amount = -s.amount
		}
	case faultCut:
		s.slot, s.broker, s.length = slot(), 1+dice.IntN(t.brokers), between(2*time.Second, 10*time.Second)
	case faultDelay:
		s.slot, s.broker, s.length = slot(), 1+dice.IntN(t.brokers), between(4*time.Second, 10*time.Second)
		s.amount = between(50*time.Millisecond, 300*time.Millisecond)
	case faultBrokerKill:
		s.broker, s.length = 1+dice.IntN(t.brokers), between(time.Second, 8*time.Second)
	case faultBrokerFreeze:
		s.broker, s.length = 1+dice.IntN(t.brokers), between(2*time.Second, 8*time.Second)
	case faultLeader:
		s.about = []string{"critical", "normal", keyedLane, "near", "far"}[dice.IntN(5)]
	case faultReset:
		s.about = []string{"critical", "low", keyedLane, "near", "far"}[dice.IntN(5)]
	case faultPartitions:
		s.about = []string{"high", "normal", "near", "far"}[dice.IntN(4)]
	}
	if sc.length > 0 && s.length > 0 {
		s.length = sc.length
	}
}

func printScript(out io.Writer, steps []step) {
	for _, s := range steps {
		fmt.Fprintln(out, s)
	}
}
