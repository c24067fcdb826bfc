package fair_test

import (
	"container/heap"
	"time"

	"github.com/axtasks/ax/internal/fair"
)

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
	s       *fair.Scheduler
	lanes   []fair.Lane
	slots   int
	sources []source
	now     time.Duration
	running runs
	since   []time.Duration // when the lane's head became its head; -1: no head
	held    []int

	used    []time.Duration // slot time given, of what has ended and of what runs
	waited  []time.Duration // the longest wait of a head
	started []int
	check   func(p *pool, picked int) // after each pick, before the start
	onStart func(lane int)
}

type run struct {
	end, expected, took time.Duration
	lane                int
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

func newPool(slots int, lanes []fair.Lane, sources []source) *pool {
	n := len(lanes)
	p := &pool{
		s: fair.New(slots, lanes), lanes: lanes, slots: slots, sources: sources, held: make([]int, n), since: make([]time.Duration, n),
		used: make([]time.Duration, n), waited: make([]time.Duration, n), started: make([]int, n),
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
			i := p.s.Pick(epoch.Add(p.now), p.head)
			if p.check != nil {
				p.check(p, i)
			}
			if i < 0 {
				break
			}
			p.start(i)
		}
		next := min(p.now+tick, until)
		if len(p.running) > 0 {
			next = min(next, p.running[0].end)
		}
		p.now = next
		for len(p.running) > 0 && p.running[0].end <= p.now {
			r := heap.Pop(&p.running).(run)
			p.held[r.lane]--
			p.s.End(r.lane, r.expected, r.took)
		}
	}
}

func (p *pool) start(i int) {
	took := p.sources[i].takes()
	expected := took
	if p.sources[i].expect != nil {
		expected = p.sources[i].expect(took)
	}
	p.waited[i] = max(p.waited[i], p.now-p.since[i])
	p.started[i]++
	p.used[i] += took
	p.held[i]++
	p.since[i] = -1
	if p.sources[i].backlog(p.now) {
		p.since[i] = p.now // the next task becomes the head
	}
	p.s.Start(i, expected)
	heap.Push(&p.running, run{p.now + took, expected, took, i})
	if p.onStart != nil {
		p.onStart(i)
	}
}

// total returns the slot time given to all lanes.
func (p *pool) total() (sum time.Duration) {
	for _, u := range p.used {
		sum += u
	}
	return sum
}

func busy(time.Duration) bool { return true }

func fixed(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
