package consumer

import (
	"slices"
	"sync"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/fair"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/sabotage"
)

// job is one task on its way through the worker.
type job struct {
	task   *ax.Task
	lane   *lane
	kind   *kind
	part   *group.Partition
	ticket group.Ticket
	size   int
	ready  time.Time     // when it could first have started
	until  time.Time     // while held
	picked time.Time     // when a slot took it
	charge time.Duration // to its lane, when it was picked
	// finishing is set once the handler is done and only the store has not
	// heard of it: the handler must not run again.
	finishing *finishing
	keyed     bool // it is the one of its key that is at work, in an ordered lane
}

// kind is what the scheduler knows of a kind.
type kind struct {
	name    string
	conf    ax.Kind
	handler Handler // nil if unknown
	breaker *breaker

	running int           // guarded by the scheduler's lock, as is expect
	expect  time.Duration // moving average of the run time
}

// lane is what the scheduler knows of a lane. All but the first fields are
// guarded by the scheduler's lock.
type lane struct {
	conf  ax.Lane
	topic string
	group string
	index int

	queues   []*queue
	buffered int // tasks queued, and their bytes
	bytes    int
	held     int // tasks in the gate, and their bytes
	heldSize int
	since    time.Time // when the head became the head
	room     chan struct{}
	parts    map[*group.Partition]*laneParts
	settling int // publishes without an answer
}

// laneParts is what a lane with an order or a limit keeps by partition.
type laneParts struct {
	running int
	keys    map[string][]*job // the jobs that wait behind the one at work, by key
}

// queue holds the tasks of one partition, and of one kind where that is
// limited, in the order in which they became ready.
type queue struct {
	part *group.Partition
	kind *kind // nil for all kinds without a limit
	jobs []*job
	head int
}

func (q *queue) empty() bool { return q.head == len(q.jobs) }

func (q *queue) pop() *job {
	j := q.jobs[q.head]
	q.jobs[q.head] = nil
	if q.head++; q.head == len(q.jobs) {
		q.jobs, q.head = q.jobs[:0], 0
	} else if q.head >= 1024 && q.head*2 >= len(q.jobs) {
		q.jobs, q.head = slices.Delete(q.jobs, 0, q.head), 0
	}
	return j
}

// scheduler hands tasks to slots. Its lock is taken once for each task, by the
// slot that ends one and takes the next.
type scheduler struct {
	mu       sync.Mutex
	cond     *sync.Cond
	fair     *fair.Scheduler
	lanes    []*lane
	gate     gate
	idle     int // slots that wait
	stopping bool
	maxKeep  int // tasks and bytes in a lane's buffer, and again in its gate
	maxBytes int
	heads    []*queue // scratch of pick
}

func newScheduler(slots, maxKeep, maxBytes int, lanes []*lane) *scheduler {
	shares := make([]fair.Lane, len(lanes))
	for i, l := range lanes {
		shares[i] = fair.Lane{Weight: l.conf.Weight, MaxWait: l.conf.MaxWait, Reserve: l.conf.Reserve}
	}
	s := &scheduler{
		fair: fair.New(slots, shares), lanes: lanes, heads: make([]*queue, len(lanes)),
		maxKeep: maxKeep, maxBytes: maxBytes, gate: gate{wake: make(chan struct{}, 1)},
	}
	s.cond = sync.NewCond(&s.mu)
	return s
}

// push queues jobs of one lane, and holds those that are not due.
func (s *scheduler) push(jobs []*job, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, j := range jobs {
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

// enqueue makes the job ready. Called with the lock held.
func (s *scheduler) enqueue(j *job, now time.Time) {
	l := j.lane
	if l.buffered == 0 {
		l.since = now
	}
	l.buffered++
	l.bytes += j.size
	if l.conf.Order == ax.OrderKey && j.task.Key != "" {
		p := l.part(j.part)
		if waiting, busy := p.keys[j.task.Key]; busy {
			p.keys[j.task.Key] = append(waiting, j)
			return
		}
		p.keys[j.task.Key], j.keyed = nil, true
	}
	q := l.queue(j)
	q.jobs = append(q.jobs, j)
}

func (l *lane) part(p *group.Partition) *laneParts {
	st := l.parts[p]
	if st == nil {
		st = &laneParts{keys: map[string][]*job{}}
		l.parts[p] = st
	}
	return st
}

func (l *lane) queue(j *job) *queue {
	var k *kind
	if j.kind.conf.Concurrency > 0 {
		k = j.kind
	}
	for _, q := range l.queues {
		if q.part == j.part && q.kind == k {
			return q
		}
	}
	q := &queue{part: j.part, kind: k}
	l.queues = append(l.queues, q)
	return q
}

// next ends the job that the slot has run, if it has, and returns the next
// one, on which work has been started. It waits for one; it returns nil when
// the worker stops. The clock is read once: a job ends when the next is picked.
func (s *scheduler) next(ended *job) *job {
	now := clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if ended != nil {
		s.end(ended, now.Sub(ended.picked))
	}
	for !s.stopping {
		if j := s.pick(now); j != nil {
			return j
		}
		s.idle++
		s.cond.Wait()
		s.idle--
		now = clock.Now()
	}
	return nil
}

// least is charged for every start, so that a clock too coarse to see a run
// does not make it free.
const least = time.Microsecond

func (s *scheduler) pick(now time.Time) *job {
	for {
		i := s.fair.Pick(now, func(i int) (time.Time, bool) {
			s.heads[i] = s.lanes[i].next()
			return s.lanes[i].since, s.heads[i] != nil
		})
		if i < 0 {
			return nil
		}
		l, q := s.lanes[i], s.heads[i]
		j := q.pop()
		l.unbuffer(j, s.maxKeep, s.maxBytes)
		l.since = now
		if !j.part.Start() {
			continue // the partition is being given up
		}
		if l.conf.Limit > 0 {
			l.part(j.part).running++
		}
		j.kind.running++
		j.charge = max(j.kind.expect, least)
		s.fair.Start(l.index, j.charge)
		j.picked = now
		return j
	}
}

// maxSettling bounds a lane's publishes without an answer: where a topic can't
// be written, the lanes that need it stop, and memory stays bounded.
const maxSettling = 4096

// next returns the queue whose head waits longest, among those that may run.
func (l *lane) next() *queue {
	if l.buffered == 0 || l.settling >= maxSettling {
		return nil
	}
	var best *queue
	for _, q := range l.queues {
		if q.empty() || q.kind != nil && q.kind.running >= q.kind.conf.Concurrency {
			continue
		}
		if l.conf.Limit > 0 && l.part(q.part).running >= permits(l.conf, q.part.ID) {
			continue
		}
		if best == nil || q.jobs[q.head].ready.Before(best.jobs[best.head].ready) {
			best = q
		}
	}
	return best
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
func (l *lane) unbuffer(j *job, maxKeep, maxBytes int) {
	l.buffered--
	l.bytes -= j.size
	l.mayPoll(maxKeep, maxBytes)
}

func (l *lane) mayPoll(maxKeep, maxBytes int) {
	if l.buffered <= maxKeep/2 && l.bytes <= maxBytes/2 && l.held < maxKeep && l.heldSize < maxBytes {
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
	if l.buffered < s.maxKeep && l.bytes < s.maxBytes && l.held < s.maxKeep && l.heldSize < s.maxBytes {
		return false
	}
	select {
	case <-l.room: // an old token
	default:
	}
	l.mayPoll(s.maxKeep, s.maxBytes)
	return true
}

// end gives back what the job held. Called with the lock held.
func (s *scheduler) end(j *job, took time.Duration) {
	l := j.lane
	j.kind.running--
	s.fair.End(l.index, j.charge, max(took, least))
	j.kind.expect += (took - j.kind.expect) / 8
	if st := l.parts[j.part]; st != nil && l.conf.Limit > 0 {
		if st.running--; st.running == 0 && !j.part.Owned() {
			delete(l.parts, j.part)
		}
	}
}

// free lets the next task of an ordered key run. It is called when the job's
// record is finished, or never will be by this worker.
func (s *scheduler) free(j *job) {
	if !j.keyed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j.keyed = false
	p, ok := j.lane.parts[j.part]
	if !ok {
		return // dropped
	}
	waiting := p.keys[j.task.Key]
	if len(waiting) == 0 {
		delete(p.keys, j.task.Key)
		return
	}
	p.keys[j.task.Key], waiting[0].keyed = waiting[1:], true
	q := j.lane.queue(waiting[0])
	q.jobs = append(q.jobs, waiting[0])
	s.signal(1)
}

// settle counts a publish without an answer.
func (s *scheduler) settle(l *lane, n int) {
	s.mu.Lock()
	l.settling += n
	if n < 0 && l.settling == maxSettling-1 {
		s.signal(s.idle)
	}
	s.mu.Unlock()
}

// drop forgets all of the partitions that waits.
func (s *scheduler) drop(l *lane, ps []*group.Partition) {
	gone := map[*group.Partition]bool{}
	for _, p := range ps {
		gone[p] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := l.queues[:0]
	for _, q := range l.queues {
		if !gone[q.part] {
			kept = append(kept, q)
			continue
		}
		for !q.empty() {
			l.unbuffer(q.pop(), s.maxKeep, s.maxBytes)
		}
	}
	clear(l.queues[len(kept):])
	l.queues = kept
	for _, p := range ps {
		if st := l.parts[p]; st != nil {
			for _, jobs := range st.keys {
				for _, j := range jobs {
					l.unbuffer(j, s.maxKeep, s.maxBytes)
				}
			}
			if st.running == 0 {
				delete(l.parts, p)
			} else {
				clear(st.keys)
			}
		}
	}
	s.gate.drop(gone)
	l.mayPoll(s.maxKeep, s.maxBytes)
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
	return s.fair.Running()
}
