package consumer

import (
	"container/heap"
	"context"
	"time"

	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/group"
)

// gate holds the jobs that may not start yet: tasks that came a moment before
// they are due, and those that wait in place. It takes no slot and no room in
// a lane's buffer. The scheduler's lock guards it.
type gate struct {
	jobs byInstant
	wake chan struct{}
}

// hold keeps a job until its instant. Called with the lock held.
func (s *scheduler) hold(j *job) {
	j.lane.held++
	j.lane.heldSize += j.size
	heap.Push(&s.gate.jobs, j)
	if s.gate.jobs[0] == j {
		select {
		case s.gate.wake <- struct{}{}:
		default:
		}
	}
}

// again holds a job that was started and aborted.
func (s *scheduler) again(j *job, until time.Time) {
	j.until = until
	s.mu.Lock()
	s.hold(j)
	s.mu.Unlock()
}

// drop forgets the jobs of partitions that are given up.
func (g *gate) drop(gone map[*group.Partition]bool) {
	kept := g.jobs[:0]
	for _, j := range g.jobs {
		if gone[j.part] {
			j.lane.held--
			j.lane.heldSize -= j.size
		} else {
			kept = append(kept, j)
		}
	}
	clear(g.jobs[len(kept):])
	g.jobs = kept
	heap.Init(&g.jobs)
}

// open lets jobs through at their instant, until ctx ends.
func (s *scheduler) open(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(s.release(clock.Now()))
		select {
		case <-timer.C:
		case <-s.gate.wake:
		case <-ctx.Done():
			return
		}
	}
}

// release makes ready what is due at now, and returns how long nothing is.
func (s *scheduler) release(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for len(s.gate.jobs) > 0 {
		j := s.gate.jobs[0]
		if wait := j.until.Sub(now); wait > 0 {
			s.signal(n)
			// Never longer, so that a wall clock that jumps ahead is noticed.
			return min(wait, time.Minute)
		}
		heap.Pop(&s.gate.jobs)
		j.lane.held--
		j.lane.heldSize -= j.size
		j.lane.mayPoll(s.maxKeep, s.maxBytes)
		j.ready = j.until
		s.requeue(j, now)
		n++
	}
	s.signal(n)
	return time.Minute
}

// requeue makes a held job ready. A job that waited in place still has its
// key.
func (s *scheduler) requeue(j *job, now time.Time) {
	if !j.keyed {
		s.enqueue(j, now)
		return
	}
	l := j.lane
	if l.buffered == 0 {
		l.since = now
	}
	l.buffered++
	l.bytes += j.size
	q := l.queue(j)
	q.jobs = append(q.jobs, j)
}

// byInstant is a heap.
type byInstant []*job

func (g byInstant) Len() int { return len(g) }
func (g byInstant) Less(i, j int) bool {
	if !g[i].until.Equal(g[j].until) {
		return g[i].until.Before(g[j].until)
	}
	return g[i].task.Source.Offset < g[j].task.Source.Offset
}
func (g byInstant) Swap(i, j int) { g[i], g[j] = g[j], g[i] }
func (g *byInstant) Push(x any)   { *g = append(*g, x.(*job)) }
func (g *byInstant) Pop() any {
	n := len(*g) - 1
	j := (*g)[n]
	(*g)[n] = nil
	*g = (*g)[:n]
	return j
}
