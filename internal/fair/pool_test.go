package fair_test

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/axtasks/ax/internal/fair"
)

// chooser is a scheduler: ours, the model, or a wrong one. A run is named by a
// number.
type chooser interface {
	Pick(now time.Time, head func(int) (time.Time, bool)) (fair.Choice, bool)
	Start(now time.Time, c fair.Choice, expected time.Duration, run int)
	End(now time.Time, run int)
}

// maker makes one.
type maker func(fair.Config) chooser

// ours is the scheduler that is tested.
type ours struct {
	*fair.Scheduler
	runs map[int]fair.Run
}

func newOurs(c fair.Config) chooser { return &ours{fair.New(epoch, c), map[int]fair.Run{}} }

func (o *ours) Start(now time.Time, c fair.Choice, expected time.Duration, run int) {
	o.runs[run] = o.Scheduler.Start(now, c, expected)
}

func (o *ours) End(now time.Time, run int) {
	o.Scheduler.End(now, o.runs[run])
	delete(o.runs, run)
}

// source is the work of one simulated lane.
type source struct {
	// backlog says whether the lane has work at an instant since the start.
	backlog func(at time.Duration) bool
	// takes returns the run time of the lane's next task.
	takes func() time.Duration
	// expect is the estimate that a start is charged with; nil: what it takes.
	expect func(takes time.Duration) time.Duration
}

// pool simulates slots that run tasks in virtual time.
type pool struct {
	fair.Config
	s       chooser
	sources []source
	now     time.Duration
	running runs
	since   []time.Duration // when the lane's head became its head; -1: no head
	held    []int

	used    []time.Duration // slot time given
	base    []time.Duration // of that, before the measurement began
	waited  []time.Duration // the longest wait of a head
	longest []time.Duration // the longest run
	started []int
	aged    []int // starts, by rule
	gaps    []int
	check   func(picked int) // after each decision, before the start
}

type run struct {
	began, end time.Duration
	lane, id   int
}

type runs []run

func (r runs) Len() int           { return len(r) }
func (r runs) Less(i, j int) bool { return r[i].end < r[j].end }
func (r runs) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *runs) Push(x any)        { *r = append(*r, x.(run)) }
func (r *runs) Pop() any {
	old := *r
	x := old[len(old)-1]
	*r = old[:len(old)-1]
	return x
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newPool(make_ maker, c fair.Config, sources []source) *pool {
	n := len(c.Lanes)
	durations := func() []time.Duration { return make([]time.Duration, n) }
	p := &pool{
		Config: c, s: make_(c), sources: sources, held: make([]int, n), since: durations(), used: durations(), base: durations(),
		waited: durations(), longest: durations(), started: make([]int, n), aged: make([]int, n), gaps: make([]int, n),
	}
	for i := range p.since {
		p.since[i] = -1
	}
	return p
}

func (p *pool) head(i int) (time.Time, bool) { return epoch.Add(max(p.since[i], 0)), p.since[i] >= 0 }

// runUntil simulates until the instant; tick is how often new work is noticed
// while nothing ends.
func (p *pool) runUntil(until, tick time.Duration) {
	for p.now < until {
		for i, src := range p.sources {
			if p.since[i] < 0 && src.backlog(p.now) {
				p.since[i] = p.now
			}
		}
		for {
			c, ok := p.s.Pick(epoch.Add(p.now), p.head)
			if !ok {
				c.Lane = -1
			}
			if p.check != nil {
				p.check(c.Lane)
			}
			if !ok {
				break
			}
			p.start(c)
		}
		next := min(p.now+tick, until)
		if len(p.running) > 0 {
			next = min(next, p.running[0].end)
		}
		p.now = next
		for len(p.running) > 0 && p.running[0].end <= p.now {
			r := heap.Pop(&p.running).(run)
			p.held[r.lane]--
			p.used[r.lane] += r.end - r.began
			p.s.End(epoch.Add(p.now), r.id)
		}
	}
}

func (p *pool) start(c fair.Choice) {
	i := c.Lane
	took := p.sources[i].takes()
	expected := took
	if p.sources[i].expect != nil {
		expected = p.sources[i].expect(took)
	}
	p.waited[i] = max(p.waited[i], p.now-p.since[i])
	p.longest[i] = max(p.longest[i], took)
	p.started[i]++
	switch c.Rule {
	case fair.Aged:
		p.aged[i]++
	case fair.Gap:
		p.gaps[i]++
	}
	p.held[i]++
	p.since[i] = -1
	if p.sources[i].backlog(p.now) {
		p.since[i] = p.now // the next task becomes the head
	}
	id := 0
	for _, n := range p.started {
		id += n
	}
	p.s.Start(epoch.Add(p.now), c, expected, id)
	heap.Push(&p.running, run{p.now, p.now + took, i, id})
}

// usedNow returns the slot time that each lane has had until now.
func (p *pool) usedNow() []time.Duration {
	out := append([]time.Duration(nil), p.used...)
	for _, r := range p.running {
		out[r.lane] += p.now - r.began
	}
	return out
}

// measure begins a measurement: shares are of what follows.
func (p *pool) measure() { p.base = p.usedNow() }

// shares returns the part of the slot time that each lane had since then.
func (p *pool) shares() []float64 {
	used, sum := p.usedNow(), time.Duration(0)
	for i := range used {
		used[i] -= p.base[i]
		sum += used[i]
	}
	out := make([]float64, len(used))
	for i := range used {
		out[i] = used[i].Seconds() / sum.Seconds()
	}
	return out
}

// bound is the longest that the lane's head may have waited.
func (p *pool) bound(lane int) time.Duration {
	all := time.Duration(0)
	for _, l := range p.longest {
		all = max(all, l)
	}
	return fair.Bound(p.Config, lane, p.longest[lane], all)
}

func (p *pool) runningNow() (n int) {
	for _, h := range p.held {
		n += h
	}
	return n
}

// mayStart is the definition of the reserves: each lane and all after it may
// hold together what the lanes before it have not reserved, and at least one.
func (p *pool) mayStart(lane int) bool {
	reserved := 0
	for j := 0; j <= lane; j++ {
		held := 0
		for _, n := range p.held[j:] {
			held += n
		}
		if held >= max(p.Slots-reserved, 1) {
			return false
		}
		reserved += p.Lanes[j].Reserve
	}
	return true
}

func busy(time.Duration) bool { return true }

func fixed(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// between returns random run times.
func between(rng *rand.Rand, lo, hi time.Duration) func() time.Duration {
	return func() time.Duration { return lo + time.Duration(rng.Int64N(int64(hi-lo)+1)) }
}

// set changes the configuration while it runs.
func (p *pool) set(c fair.Config) {
	p.Config = c
	p.s.(*ours).Set(epoch.Add(p.now), c)
}
