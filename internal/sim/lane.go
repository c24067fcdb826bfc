package sim

import (
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fair"
)

// task is one on its way. Instants are nanoseconds since the simulation began.
type task struct {
	ready   int64 // when it could first have started
	due     int64 // 0: at once
	leave   int64 // the nominal instant at which it leaves its tier; 0: none
	expires int64 // 0: never
	run     int64 // how long it runs; -1: its source draws that
	source  int32
	part    int32
	attempt int32
	writes  int32
}

// kind is what the worker knows of a kind.
type kind struct {
	conf    ax.Kind
	running int
	takes   fair.Average
}

// queue holds tasks in the order in which they became ready.
type queue struct {
	kind  *kind // nil for all kinds without a limit
	tasks []int32
	head  int
}

func (q *queue) empty() bool { return q.head == len(q.tasks) }

func (q *queue) push(id int32) { q.tasks = append(q.tasks, id) }

func (q *queue) first() int32 { return q.tasks[q.head] }

func (q *queue) pop() int32 {
	id := q.tasks[q.head]
	if q.head++; q.head == len(q.tasks) {
		q.tasks, q.head = q.tasks[:0], 0
	} else if q.head >= 1024 && q.head*2 >= len(q.tasks) {
		q.tasks, q.head = q.tasks[:copy(q.tasks, q.tasks[q.head:])], 0
	}
	return id
}

// part is what waits in a partition.
type part struct {
	queues  []*queue
	running int
	permits int // of the lane's limit
}

func (p *part) queue(k *kind) *queue {
	if k.conf.Concurrency == 0 {
		k = nil
	}
	for _, q := range p.queues {
		if q.kind == k {
			return q
		}
	}
	q := &queue{kind: k}
	p.queues = append(p.queues, q)
	return q
}

// lane is what the worker knows of a lane, and what became of it.
type lane struct {
	conf     ax.Lane
	parts    []*part
	turn     int   // the partition of the next task
	log      queue // what the worker has not read yet
	buffered int
	since    int64 // when the head became the head
	held     bool  // since then a limit held all that waited
	flooded  bool
	onWay    int // in the tiers
	own      time.Duration
	tally
}

func newLane(conf ax.Lane) *lane {
	l := &lane{conf: conf}
	if conf.Limit == 0 {
		// Partitions change nothing then: what is ready first goes first.
		l.parts = []*part{{}}
		return l
	}
	for i := range conf.Partitions {
		l.parts = append(l.parts, &part{permits: permits(conf, i)})
	}
	return l
}

// permits is the partition's part of the lane's limit, as a worker has it: the
// first ones have one more where the limit is no multiple of the partitions.
func permits(l ax.Lane, partition int) int {
	n := l.Limit / l.Partitions
	if partition < l.Limit%l.Partitions {
		n++
	}
	return max(n, 1)
}

// spread returns the partition of the next task.
func (l *lane) spread() int32 {
	l.turn = (l.turn + 1) % len(l.parts)
	return int32(l.turn)
}

// keep is how many tasks of a lane a worker holds ahead of their start. Then it
// reads on when half of them are left.
const keep = 2000

// enqueue makes a task ready.
func (s *simulation) enqueue(id int32) {
	t := &s.tasks[id]
	t.ready = s.now
	l := s.lanes[s.sources[t.source].lane]
	if l.buffered >= keep || !l.log.empty() {
		l.log.push(id)
		return
	}
	s.buffer(l, id)
}

// buffer takes a task into the worker.
func (s *simulation) buffer(l *lane, id int32) {
	if l.buffered == 0 {
		l.since, l.held = s.now, false
		if s.now == s.from {
			l.dry = false // it came as the measured time began
		}
	}
	l.buffered++
	t := &s.tasks[id]
	l.parts[t.part].queue(s.sources[t.source].kind).push(id)
}

// unbuffer counts a task that starts, and reads on.
func (s *simulation) unbuffer(l *lane) {
	if l.buffered--; l.buffered > keep/2 {
		return
	}
	for l.buffered < keep && !l.log.empty() {
		s.buffer(l, l.log.pop())
	}
}

// waiting is how many tasks of the lane may start, but for limits and slots.
func (l *lane) waiting() int { return l.buffered + len(l.log.tasks) - l.log.head }

// headOf returns the queue whose head waits longest, among those that may run,
// as the worker does.
func (s *simulation) headOf(l *lane) *queue {
	if l.buffered == 0 {
		return nil
	}
	var best *queue
	var ready int64
	for _, p := range l.parts {
		if p.permits > 0 && p.running >= p.permits {
			continue
		}
		for _, q := range p.queues {
			if q.empty() || q.kind != nil && q.kind.running >= q.kind.conf.Concurrency {
				continue
			}
			if at := s.tasks[q.first()].ready; best == nil || at < ready {
				best, ready = q, at
			}
		}
	}
	if best == nil {
		l.held, l.limited = true, true
	}
	return best
}
