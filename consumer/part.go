package consumer

import (
	"slices"

	"github.com/axtasks/ax/internal/group"
)

// part is what a lane holds of one assignment of one partition. The scheduler's
// lock guards it.
type part struct {
	*group.Partition
	lane   *lane
	queues []*queue // the first is that of all kinds without a limit

	gone     bool // it is given up: nothing of it is kept any more
	running  int
	settling int // publishes without an answer

	// keys are those at work in a lane with order by key, each with the jobs
	// that wait behind it; parked counts those jobs, and those that wait in
	// place, with their bytes.
	keys        map[string][]*job
	parked      int
	parkedBytes int
}

// queue holds jobs in the order in which they became ready.
type queue struct {
	kind *kind // nil for all kinds without a limit
	jobs []*job
	head int
}

func (q *queue) empty() bool { return q.head == len(q.jobs) }

func (q *queue) push(j *job) { q.jobs = append(q.jobs, j) }

// pushFirst puts a job before all others.
func (q *queue) pushFirst(j *job) {
	if q.head > 0 {
		q.head--
		q.jobs[q.head] = j
		return
	}
	q.jobs = slices.Insert(q.jobs, 0, j)
}

func (q *queue) first() *job { return q.jobs[q.head] }

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

// queue returns the queue that the job belongs to.
func (p *part) queue(j *job) *queue {
	var k *kind
	if j.kind.conf.Concurrency > 0 {
		k = j.kind
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

// each calls f with every job that waits, but for those in the gate.
func (p *part) each(f func(*job)) {
	for _, q := range p.queues {
		for _, j := range q.jobs[q.head:] {
			f(j)
		}
	}
	for _, jobs := range p.keys {
		for _, j := range jobs {
			f(j)
		}
	}
}

// claim reports whether the job may run as far as its key goes. If not, it
// waits behind the one that is at work.
func (p *part) claim(j *job) bool {
	key := j.task.Key
	if !p.lane.ordered() || key == "" || j.keyed {
		return true
	}
	if waiting, busy := p.keys[key]; busy {
		p.keys[key] = append(waiting, j)
		p.park(j, 1)
		return false
	}
	if p.keys == nil {
		p.keys = map[string][]*job{}
	}
	p.keys[key], j.keyed = nil, true
	return true
}

// passOn gives the job's key to the next that waits for it, and returns that,
// or nil.
func (p *part) passOn(j *job) *job {
	key := j.task.Key
	j.keyed = false
	waiting, held := p.keys[key]
	if !held {
		return nil // it was dropped
	}
	if len(waiting) == 0 {
		delete(p.keys, key)
		return nil
	}
	next := waiting[0]
	waiting[0] = nil
	p.keys[key], next.keyed = waiting[1:], true
	p.park(next, -1)
	return next
}

// park counts a job that waits for its key, or in place. A partition where
// many do is not read on, so that one key that fails can't fill the lane's
// buffer: the lane's other partitions flow.
func (p *part) park(j *job, n int) {
	p.parked += n
	p.parkedBytes += n * j.size
	count, bytes := p.lane.maxKeep/4, p.lane.maxBytes/4
	switch {
	case p.parked >= max(count, 1) || p.parkedBytes >= bytes:
		p.Pause(group.PauseKeys)
	case p.parked <= count/2 && p.parkedBytes <= bytes/2:
		p.Resume(group.PauseKeys)
	}
}
