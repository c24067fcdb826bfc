package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fair"
	"github.com/axtasks/ax/router"
)

// epoch is when every simulation begins: no clock has a part in it.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// leastRun is the shortest run. The scheduler charges no less either, and time
// must pass where a lane never runs dry.
const leastRun = time.Microsecond

// source is a load, and what is known of its tasks.
type source struct {
	Source
	lane       int
	kind       *kind
	rng        *rand.Rand
	begin, end time.Duration // since the simulation began
}

// running is a run that is not over.
type running struct {
	run    fair.Run
	task   int32
	failed bool
	expire bool // it was not worth a start any more
	began  int64
}

// simulation is one, while it goes.
type simulation struct {
	load   Load
	router *router.Router
	lead   time.Duration
	most   time.Duration // the longest delay, as the domain's horizon has it
	now    int64
	events events

	feeds    []feed
	pending  []arrival // what each of them brings next
	sources  []source
	recorded map[[2]string]int32 // the sources of a recording, by kind and lane
	kinds    map[string]*kind
	laneOf   map[string]int
	tiers    map[string]router.Tier

	fair      *fair.Scheduler
	shares    fair.Config
	lanes     []*lane
	heads     []*queue // scratch of pick
	head      func(int) (time.Time, bool)
	tasks     []task
	freeTasks []int32
	runs      []running
	freeRuns  []int32
	scratch   ax.Task

	from, to  int64 // what is measured; to is -1 where it ends with the work
	measuring bool
	longest   time.Duration // run of any lane
	totals    totals
	line      *timeline
}

// Run simulates a load, or a recording if that is not nil, on a domain that has
// its defaults. A fault of the load is joined of [*ax.FieldError], one of the
// recording a [*spec.Error].
func Run(ctx context.Context, d ax.Domain, load Load, recording *Recording) (*Result, error) {
	r, err := router.New(d)
	if err != nil {
		return nil, err
	}
	s, err := newSimulation(r, load, recording)
	if err != nil {
		return nil, err
	}
	if err := s.loop(ctx); err != nil {
		return nil, err
	}
	return s.result(), nil
}

func newSimulation(r *router.Router, load Load, recording *Recording) (*simulation, error) {
	d := r.Domain()
	if err := joined(load.Validate(d)); err != nil {
		return nil, err
	}
	s := &simulation{
		load: load, router: r, lead: max(d.Delay.Lead, 0), most: d.Delay.Horizon, recorded: map[[2]string]int32{}, kinds: map[string]*kind{},
		laneOf: map[string]int{}, tiers: map[string]router.Tier{}, heads: make([]*queue, len(d.Lanes)),
		from: int64(load.Warmup), to: int64(load.Warmup + load.For), line: newTimeline(load, len(d.Lanes)),
	}
	if load.For == 0 {
		s.to = -1
	}
	s.shares = fair.ConfigOf(load.Slots, d.Sharing, d.Lanes)
	for i, l := range d.Lanes {
		s.lanes = append(s.lanes, newLane(l))
		s.laneOf[l.Name] = i
	}
	for _, t := range r.Tiers() {
		s.tiers[t.Topic] = t
	}
	s.fair = fair.New(epoch, s.shares)
	s.head = func(i int) (time.Time, bool) {
		s.heads[i] = s.headOf(s.lanes[i])
		return s.instant(s.lanes[i].since), s.heads[i] != nil
	}
	for i := range load.Loads {
		if err := s.add(load.Loads[i]); err != nil {
			return nil, err
		}
	}
	if recording != nil {
		if err := s.feed(recording); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// instant returns an instant of the simulation as others want it.
func (s *simulation) instant(at int64) time.Time { return epoch.Add(time.Duration(at)) }

// since is the reverse.
func since(t time.Time) int64 { return int64(t.Sub(epoch)) }

// newSource makes a load's source.
func (s *simulation) newSource(load Source) int32 {
	d := s.router.Domain()
	k := s.kinds[load.Kind]
	if k == nil {
		k = &kind{conf: d.Kind(load.Kind)}
		s.kinds[load.Kind] = k
	}
	name := load.Lane
	if name == "" {
		name = k.conf.Lane
	}
	s.sources = append(s.sources, source{
		Source: load, lane: s.laneOf[name], kind: k, rng: newRand(s.load.Seed, len(s.sources), ofRuns), end: 1<<63 - 1,
	})
	return int32(len(s.sources) - 1)
}

func (s *simulation) add(load Source) error {
	id := s.newSource(load)
	src := &s.sources[id]
	if load.Begin != nil {
		src.begin = s.load.Warmup + *load.Begin
	}
	if load.End != nil {
		src.end = s.load.Warmup + *load.End
	}
	if load.Flood {
		s.lanes[src.lane].flooded = true
		s.events.push(int64(src.begin), floods, id)
		s.feeds, s.pending = append(s.feeds, nil), append(s.pending, arrival{})
		return nil
	}
	own := *src // s.sources may move
	return s.feed(&pattern{source: &own, rng: newRand(s.load.Seed, int(id), ofArrivals), backlog: load.Backlog})
}

// feed adds a feed. Those of loads have the index of their source.
func (s *simulation) feed(f feed) error {
	s.feeds, s.pending = append(s.feeds, f), append(s.pending, arrival{})
	return s.await(int32(len(s.feeds) - 1))
}

// await takes the next arrival of a feed.
func (s *simulation) await(feed int32) error {
	a, ok, err := s.feeds[feed].next()
	if err != nil || !ok {
		return err
	}
	s.pending[feed] = a
	s.events.push(int64(a.at), arrives, feed)
	return nil
}

// checkEvery is after how many events it is asked whether the caller still wants
// an answer.
const checkEvery = 1 << 14

func (s *simulation) loop(ctx context.Context) error {
	for n := 0; len(s.events.all) > 0; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return fmt.Errorf("sim: after %s of virtual time: %w", time.Duration(s.now), context.Cause(ctx))
		}
		e := s.events.pop()
		if s.to >= 0 && e.at >= s.to {
			break
		}
		s.pass(e.at)
		if err := s.handle(e); err != nil {
			return err
		}
		// What comes at the same instant is there before a slot is given.
		if e.what != ends && len(s.events.all) > 0 && s.events.all[0].at == s.now && s.events.all[0].what != ends {
			continue
		}
		for s.pick() {
		}
	}
	if s.to < 0 {
		s.to = max(s.now, s.from+1)
	}
	s.pass(s.to)
	s.finish()
	return nil
}

// pass moves the time on, and takes what is to be taken on the way.
func (s *simulation) pass(to int64) {
	if !s.measuring && to >= s.from {
		s.measuring = true
		s.begin()
	}
	if s.measuring {
		s.line.pass(to-s.from, s.used)
	}
	s.now = to
}

// used returns the slot time of a lane in the measured time until at.
func (s *simulation) used(lane int, at int64) time.Duration {
	seconds := s.fair.Stats(lane, s.instant(s.from+at)).Used - s.lanes[lane].usedBefore
	return time.Duration(seconds * float64(time.Second))
}

func (s *simulation) handle(e event) error {
	switch e.what {
	case arrives:
		return s.arrive(e.of)
	case floods:
		src := &s.sources[e.of]
		for i := range s.lanes[src.lane].parts {
			s.flood(e.of, int32(i))
		}
	case moves:
		t := &s.tasks[e.of]
		s.lanes[s.sources[t.source].lane].onWay--
		at := s.now
		if t.leave != 0 {
			at = t.leave
		}
		s.send(e.of, at)
	case due:
		s.lanes[s.sources[s.tasks[e.of].source].lane].onWay--
		s.enqueue(e.of)
	case ends:
		s.end(e.of)
	}
	return nil
}

// arrive submits what a feed has brought.
func (s *simulation) arrive(feed int32) error {
	a, id := s.pending[feed], feed
	t := task{run: -1}
	if int(feed) >= len(s.load.Loads) { // a recording
		key := [2]string{a.kind, a.lane}
		var known bool
		if id, known = s.recorded[key]; !known {
			if len(s.recorded) >= maxKinds {
				return fmt.Errorf("sim: the recording has more than %d kinds; a kind is what a task is, not which one", maxKinds)
			}
			id = s.newSource(Source{Kind: a.kind, Lane: a.lane})
			s.recorded[key] = id
		}
		t.run = int64(a.run)
	}
	t.source, t.attempt = id, 1
	src := &s.sources[id]
	base := s.now
	if a.delay > 0 {
		t.due = s.now + int64(min(a.delay, s.most))
		base = t.due
	}
	if x := src.kind.conf.Expires; x > 0 {
		t.expires = base + int64(x)
	}
	s.send(s.keep(t), s.now)
	return s.await(feed)
}

// maxKinds bounds the kinds of a recording, and so memory.
const maxKinds = 10_000

// flood adds one task to a partition of a lane that never runs dry. Each start of
// one adds the next, so that one always waits.
func (s *simulation) flood(id, part int32) {
	src := &s.sources[id]
	if s.now >= int64(src.end) {
		return
	}
	t := task{run: -1, source: id, part: part, attempt: 1, writes: 1}
	if x := src.kind.conf.Expires; x > 0 {
		t.expires = s.now + int64(x)
	}
	s.write()
	t.ready = s.now
	s.buffer(s.lanes[src.lane], s.keep(t)) // it is read as soon as it is wanted
}

// keep returns the number of a task until it is dropped.
func (s *simulation) keep(t task) int32 {
	if n := len(s.freeTasks); n > 0 {
		id := s.freeTasks[n-1]
		s.freeTasks = s.freeTasks[:n-1]
		s.tasks[id] = t
		return id
	}
	s.tasks = append(s.tasks, t)
	return int32(len(s.tasks) - 1)
}

// send routes a task, as whoever has it does: at is the instant from which the
// wait counts. Each call is one write.
func (s *simulation) send(id int32, at int64) {
	t := &s.tasks[id]
	l := s.lanes[s.sources[t.source].lane]
	s.scratch = ax.Task{Lane: l.conf.Name}
	if t.due != 0 {
		s.scratch.Due = s.instant(t.due)
	}
	now := s.instant(s.now)
	topic := s.router.Next(&s.scratch, s.instant(at), now)
	t.writes++
	s.write()
	if tier, ok := s.tiers[topic]; ok {
		t.leave = since(s.scratch.Leave)
		l.onWay++
		s.events.push(max(since(s.router.LeaveAt(tier, s.scratch.Leave, now)), s.now), moves, id)
		return
	}
	if topic == s.router.Near() {
		t.leave = 0
		l.onWay++
		s.events.push(max(t.due-int64(s.lead), s.now), moves, id)
		return
	}
	t.part = l.spread()
	if t.due > s.now {
		l.onWay++
		s.events.push(t.due, due, id)
		return
	}
	s.enqueue(id)
}
