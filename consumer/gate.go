package consumer

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/kafka"
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
	if j.part.gone {
		s.unblock(j)
		return
	}
	l := j.lane()
	l.held++
	l.heldBytes += j.size
	if j.inPlace = j.keyed; j.inPlace {
		j.part.park(j, 1)
	}
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
func (g *gate) drop(gone map[*part]bool) {
	kept := g.jobs[:0]
	for _, j := range g.jobs {
		if gone[j.part] {
			l := j.lane()
			l.held--
			l.heldBytes -= j.size
		} else {
			kept = append(kept, j)
		}
	}
	clear(g.jobs[len(kept):])
	g.jobs = kept
	heap.Init(&g.jobs)
}

// open lets jobs through at their instant, until ctx ends, and copies out of
// their fetches what waits for long.
func (s *scheduler) open(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	sweep := time.NewTimer(detachAfter)
	defer sweep.Stop()
	for {
		timer.Reset(s.release(clock.Now()))
		select {
		case <-timer.C:
		case <-s.gate.wake:
		case <-sweep.C:
			if s.detach(clock.Now()) {
				sweep.Reset(10 * time.Millisecond)
			} else {
				sweep.Reset(detachAfter)
			}
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
			return min(wait, clock.Longest)
		}
		heap.Pop(&s.gate.jobs)
		l := j.lane()
		l.held--
		l.heldBytes -= j.size
		if j.inPlace {
			j.part.park(j, -1)
		}
		l.mayPoll()
		j.ready = j.until
		s.enqueue(j, now)
		n++
	}
	s.signal(n)
	return clock.Longest
}

const (
	// What waits for longer is copied out of its fetch, which it would
	// otherwise keep in memory whole; so much of it in one go.
	detachAfter = time.Second
	detachBytes = 1 << 20
)

// detach copies what waits for long out of its fetch. It reports whether more
// is left.
func (s *scheduler) detach(now time.Time) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := detachBytes
	for _, l := range s.lanes {
		for _, p := range l.parts {
			p.each(func(j *job) {
				switch {
				case j.detached || now.Sub(j.ready) < detachAfter:
				case left <= 0:
					more = true
				default:
					left -= j.size
					j.detach()
				}
			})
		}
	}
	return more
}

// detach copies the task out of its fetch, and out of the tasks that were
// decoded with it.
func (j *job) detach() {
	if !j.detached {
		j.detached = true
		own := *j.task
		own.Headers = slices.Clone(own.Headers)
		j.task = &own
		kafka.Detach(j.task)
	}
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
