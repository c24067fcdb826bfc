package consumer

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/fair"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/sabotage"
	"github.com/axtasks/ax/router"
)

// job is one task on its way through the worker.
type job struct {
	task   *ax.Task
	kind   *kind
	part   *part
	ticket group.Ticket
	size   int
	ready  time.Time // when it could first have started
	until  time.Time // while held
	picked time.Time // when a slot took it
	ended  time.Time // when its slot was as good as free; zero: when it asks for the next
	run    fair.Run  // its slot, and what that is charged with
	since  time.Time // when it first had to wait in place
	noted  uint64    // the note that must be committed before it starts again
	// finishing is set once the handler is done and only what follows from
	// that is left: the handler must not run again.
	finishing *finishing
	open      int // publishes without an answer
	verdict   group.Verdict
	active    atomic.Pointer[runContext] // while its handler runs
	lent      bool                       // its slot is lent to others, since its handler is deaf
	keyed     bool                       // it is the one of its key that is at work, in an ordered lane
	inPlace   bool                       // it is in the gate with its key
	detached  bool                       // it shares no memory with its fetch
}

func (j *job) lane() *lane { return j.part.lane }

// kind is what the scheduler knows of a kind.
type kind struct {
	name    string
	conf    ax.Kind
	handler Handler // nil if unknown
	breaker *breaker
	budget  budget

	running int // guarded by the scheduler's lock, as is takes
	takes   fair.Average
}

// lane is what the scheduler knows of a lane. All but the first fields are
// guarded by the scheduler's lock.
type lane struct {
	conf     ax.Lane
	topic    string
	group    string
	member   *group.Member    // nil in tests of the scheduler
	leftover *router.Leftover // where the domain doesn't name the lane any more
	maxKeep  int              // tasks and bytes in the buffer, and again in the gate
	maxBytes int

	parts     []*part
	buffered  int // tasks queued, and their bytes
	bytes     int
	held      int // tasks in the gate, and their bytes
	heldBytes int
	since     time.Time // when the head became the head
	room      chan struct{}
	settling  int // publishes without an answer, and their bytes
	settBytes int
}

func (l *lane) ordered() bool { return l.conf.Order == ax.OrderKey }

// topicID returns the id of the lane's topic as it is now.
func (l *lane) topicID() [16]byte {
	if l.member == nil {
		return [16]byte{}
	}
	return l.member.TopicID(l.topic)
}

// part returns what the lane holds of a partition.
func (l *lane) part(p *group.Partition) *part {
	for _, have := range l.parts {
		if have.Partition == p {
			return have
		}
	}
	fresh := &part{Partition: p, lane: l}
	l.parts = append(l.parts, fresh)
	return fresh
}

// slot is the right to run one task. The scheduler's lock guards it.
type slot struct{ job *job }

// scheduler hands tasks to slots. Its lock is taken once for each task, by the
// slot that ends one and takes the next.
type scheduler struct {
	mu       sync.Mutex
	cond     *sync.Cond
	fair     *fair.Scheduler
	lanes    []*lane
	kinds    map[string]*kind // those that have a handler
	gate     gate
	idle     int // slots that wait
	deaf     int // slots that are lent
	stopping bool
	heads    []*queue // scratch of pick
	alone    *job     // the suspect that is at work, or that is kept from it
	slots    []*slot
	want     int               // how many there should be
	serve    func(*slot)       // starts the goroutine of a slot; nil before begin
	settling map[*job]struct{} // what is published and not answered
	// interrupted are the jobs that a stop has ended before they were done.
	interrupted []*job
}

func newScheduler(slots int, lanes []*lane, kinds map[string]*kind) *scheduler {
	s := &scheduler{
		fair: fair.New(clock.Now(), shares(slots, ax.Sharing{}, lanes)), lanes: lanes, kinds: kinds, heads: make([]*queue, len(lanes)),
		gate: gate{wake: make(chan struct{}, 1)}, settling: map[*job]struct{}{}, want: slots,
	}
	s.cond = sync.NewCond(&s.mu)
	return s
}

// shares returns what the lanes share the slots by.
func shares(slots int, sharing ax.Sharing, lanes []*lane) fair.Config {
	confs := make([]ax.Lane, len(lanes))
	for i, l := range lanes {
		confs[i] = l.conf
	}
	return fair.ConfigOf(slots, sharing, confs)
}

// partOf returns what the lane holds of a partition.
func (s *scheduler) partOf(l *lane, p *group.Partition) *part {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.part(p)
}

// push queues jobs of one lane, and holds those that are not due.
func (s *scheduler) push(jobs []*job, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, j := range jobs {
		if !j.part.claim(j) {
			continue
		}
		if j.until.After(now) && !sabotage.StartEarly {
			s.hold(j)
			continue
		}
		s.enqueue(j, now)
		n++
	}
	s.signal(n)
}

func (s *scheduler) signal(n int) {
	if n >= s.idle {
		s.cond.Broadcast()
		return
	}
	for range n {
		s.cond.Signal()
	}
}

// poke lets idle slots look again: something may start that could not.
func (s *scheduler) poke() {
	s.mu.Lock()
	s.signal(s.idle)
	s.mu.Unlock()
}

// enqueue makes a job ready that has its key. Called with the lock held.
func (s *scheduler) enqueue(j *job, now time.Time) {
	if j.part.gone {
		s.unblock(j)
		return
	}
	l := j.lane()
	if l.buffered == 0 {
		l.since = now
	}
	l.buffered++
	l.bytes += j.size
	q := j.part.queue(j)
	if j.part.Alert() && j.part.Marked(j.ticket) {
		q.pushFirst(j) // the others wait for it
		return
	}
	q.push(j)
}

// next ends the job that the slot has run, if it has, and returns the next
// one, on which work has been started. It waits for one; it returns nil when
// the worker stops. Where it can, it takes the end of that run as the time: to
// read the clock is a good part of what a short task costs.
func (s *scheduler) next(sl *slot) *job {
	var now time.Time
	if sl.job != nil {
		now = sl.job.ended
	}
	if now.IsZero() {
		now = clock.Now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl.job != nil {
		s.end(sl.job, now)
		sl.job = nil
	}
	for !s.stopping && !s.surplus(sl) {
		if j := s.pick(now); j != nil {
			sl.job = j
			return j
		}
		s.idle++
		s.cond.Wait()
		s.idle--
		now = clock.Now()
	}
	return nil
}

func (s *scheduler) pick(now time.Time) *job {
	for {
		c, ok := s.fair.Pick(now, func(i int) (time.Time, bool) {
			s.heads[i] = s.headOf(s.lanes[i], now)
			return s.lanes[i].since, s.heads[i] != nil
		})
		if !ok {
			return nil
		}
		l, q := s.lanes[c.Lane], s.heads[c.Lane]
		j := q.pop()
		l.unbuffer(j)
		l.since = now
		if !j.part.Start() {
			s.unblock(j)
			continue // the partition is being given up
		}
		if j.verdict != group.Free {
			s.alone = j
		}
		j.part.running++
		j.kind.running++
		j.run = s.fair.Start(now, c, j.kind.takes.Mean())
		j.picked, j.ended = now, time.Time{}
		return j
	}
}

const (
	// They bound what is published and not answered. A partition that has
	// so much of it waits, and the others flow: where a topic can't be
	// written, only those stop that need it.
	maxPartSettling = 1024
	// And of a whole lane, so that memory stays bounded.
	maxSettling  = 16_384
	maxSettBytes = 64 << 20
	// So many jobs of a partition may wait in place before no further key of
	// it starts.
	maxInPlace = 32
)

// headOf returns the queue whose head waits longest, among those that may run.
func (s *scheduler) headOf(l *lane, now time.Time) *queue {
	if l.buffered == 0 || l.settling >= maxSettling || l.settBytes >= maxSettBytes || l.member != nil && !l.member.Known(now) {
		return nil
	}
	var best *queue
	for _, p := range l.parts {
		if !p.Ready() || p.settling >= maxPartSettling || l.conf.Limit > 0 && p.running >= permits(l.conf, p.ID) {
			continue
		}
		for _, q := range p.queues {
			if q.empty() || q.kind != nil && q.kind.running >= q.kind.conf.Concurrency {
				continue
			}
			j := q.first()
			if best != nil && !j.ready.Before(best.first().ready) {
				continue
			}
			if !s.mayStart(p, j) {
				continue
			}
			// A suspect is not held up: the others that wait in place wait for it.
			if l.ordered() && j.since.IsZero() && j.keyed && j.verdict == group.Free && p.Notes()+p.running >= maxInPlace {
				continue
			}
			best = q
		}
	}
	return best
}

// mayStart asks what is to become of a record whose partition is suspected.
func (s *scheduler) mayStart(p *part, j *job) bool {
	j.verdict = group.Free
	if !p.Alert() {
		return true
	}
	if j.verdict = p.Verdict(j.ticket); j.verdict == group.Free {
		return true
	}
	return j.verdict != group.Behind && (s.alone == nil || s.alone == j)
}

// permits is the partition's part of the lane's limit: the first ones have one
// more where the limit is no multiple of the partitions.
func permits(l ax.Lane, partition int32) int {
	n := l.Limit / l.Partitions
	if int(partition) < l.Limit%l.Partitions {
		n++
	}
	return max(n, 1)
}

// unbuffer takes a job out of the lane's buffer, and lets the lane be polled
// again when less than half of it is left.
func (l *lane) unbuffer(j *job) {
	l.buffered--
	l.bytes -= j.size
	l.mayPoll()
}

func (l *lane) mayPoll() {
	if l.buffered <= l.maxKeep/2 && l.bytes <= l.maxBytes/2 && l.held < l.maxKeep && l.heldBytes < l.maxBytes {
		select {
		case l.room <- struct{}{}:
		default:
		}
	}
}

// full reports whether the lane must not be polled; its room channel then gets
// a token when it may.
func (s *scheduler) full(l *lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.buffered < l.maxKeep && l.bytes < l.maxBytes && l.held < l.maxKeep && l.heldBytes < l.maxBytes {
		return false
	}
	select {
	case <-l.room: // an old token
	default:
	}
	l.mayPoll()
	return true
}

// end gives back what the job held. Called with the lock held.
func (s *scheduler) end(j *job, now time.Time) {
	j.kind.running--
	j.part.running--
	if j.lent {
		s.deaf--
	} else {
		s.fair.End(now, j.run)
		j.kind.takes.Observe(now.Sub(j.picked)) // a deaf run says nothing of the next
	}
	if j.verdict != group.Probe || j.part.gone {
		s.unblock(j)
	}
}

// unblock lets another suspect run, if the job is the one that keeps the others
// from it.
func (s *scheduler) unblock(j *job) {
	if s.alone == j {
		s.alone = nil
		s.signal(s.idle)
	}
}

// free lets the next task of an ordered key run. It is called when the job's
// record is finished, or never will be by this worker.
func (s *scheduler) free(j *job) {
	if !j.lane().ordered() {
		return
	}
	now := clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !j.keyed {
		return
	}
	next := j.part.passOn(j)
	switch {
	case next == nil:
	case next.until.After(now):
		s.hold(next)
	default:
		s.enqueue(next, now)
		s.signal(1)
	}
}

// settle counts a publish without an answer, n = 1, or one that was answered,
// n = -1.
func (s *scheduler) settle(j *job, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := j.lane()
	full := l.settling >= maxSettling || l.settBytes >= maxSettBytes || j.part.settling >= maxPartSettling
	j.part.settling += n
	l.settling += n
	l.settBytes += n * j.size
	if j.open += n; j.open > 0 {
		s.settling[j] = struct{}{}
	} else {
		delete(s.settling, j)
	}
	if full && n < 0 {
		s.signal(s.idle)
	}
}

// drop forgets all of the partitions that waits.
func (s *scheduler) drop(l *lane, ps []*group.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := map[*part]bool{}
	kept := l.parts[:0]
	for _, p := range l.parts {
		if !slices.Contains(ps, p.Partition) {
			kept = append(kept, p)
			continue
		}
		gone[p], p.gone = true, true
		for _, q := range p.queues {
			for !q.empty() {
				l.unbuffer(q.pop())
			}
		}
		p.keys, p.parked, p.parkedBytes = nil, 0, 0
	}
	clear(l.parts[len(kept):])
	l.parts = kept
	s.gate.drop(gone)
	if a := s.alone; a != nil && gone[a.part] && !slices.ContainsFunc(s.slots, func(sl *slot) bool { return sl.job == a }) {
		s.alone = nil // it was waiting; one that runs ends first
	}
	l.mayPoll()
	s.signal(s.idle)
}

// leave keeps a job that a stop has interrupted, to be handed back.
func (s *scheduler) leave(j *job) {
	s.mu.Lock()
	if s.stopping {
		s.interrupted = append(s.interrupted, j)
	}
	s.mu.Unlock()
}

// stop lets no slot start anything more.
func (s *scheduler) stop() {
	s.mu.Lock()
	s.stopping = true
	s.cond.Broadcast()
	s.mu.Unlock()
}

// busy returns how many slots run a task.
func (s *scheduler) busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fair.Running() + s.deaf
}
