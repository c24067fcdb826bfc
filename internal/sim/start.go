package sim

import (
	"time"
)

// pick gives a free slot to a task, as the worker does, and returns false where
// none may start.
func (s *simulation) pick() bool {
	now := s.instant(s.now)
	c, ok := s.fair.Pick(now, s.head)
	if !ok {
		return false
	}
	l := s.lanes[c.Lane]
	id := s.heads[c.Lane].pop()
	s.tookHead(l)
	l.since, l.held = s.now, false
	s.unbuffer(l)

	t := &s.tasks[id]
	src := &s.sources[t.source]
	l.parts[t.part].running++
	src.kind.running++
	r := running{run: s.fair.Start(now, c, src.kind.takes.Mean()), task: id, began: s.now}
	var takes time.Duration
	if r.expire = t.expires != 0 && s.now >= t.expires; r.expire {
		takes = leastRun
	} else {
		takes, r.failed = s.outcome(t, src)
		l.own, s.longest = max(l.own, takes), max(s.longest, takes)
		s.started(c, t, src)
	}
	s.events.push(s.now+int64(takes), ends, s.occupy(r))
	if src.Flood && t.attempt == 1 {
		s.flood(t.source, t.part) // t may have moved
	}
	if l.buffered == 0 && s.measuring {
		l.dry = true
	}
	return true
}

// outcome returns how long the next run of a task takes, and whether it fails.
func (s *simulation) outcome(t *task, src *source) (takes time.Duration, failed bool) {
	takes = time.Duration(t.run)
	if t.run < 0 {
		takes = src.Run.draw(src.rng)
	}
	takes = max(takes, leastRun)
	failed = src.Fail > 0 && src.rng.Float64() < src.Fail
	if most := src.kind.conf.Timeout; takes > most {
		return most, true
	}
	return takes, failed
}

func (s *simulation) occupy(r running) int32 {
	if n := len(s.freeRuns); n > 0 {
		id := s.freeRuns[n-1]
		s.freeRuns = s.freeRuns[:n-1]
		s.runs[id] = r
		return id
	}
	s.runs = append(s.runs, r)
	return int32(len(s.runs) - 1)
}

// end gives a run's slot back, and settles its task.
func (s *simulation) end(id int32) {
	r := s.runs[id]
	s.freeRuns = append(s.freeRuns, id)
	t := &s.tasks[r.task]
	src := &s.sources[t.source]
	l := s.lanes[src.lane]
	src.kind.running--
	l.parts[t.part].running--
	s.fair.End(s.instant(s.now), r.run)
	src.kind.takes.Observe(time.Duration(s.now - r.began))
	if r.failed && int(t.attempt) < src.kind.conf.Attempts {
		wait := min(backoff(src, int(t.attempt)), s.most)
		t.attempt++
		t.due = s.now + int64(wait)
		if s.measuring {
			l.retries++
		}
		s.send(r.task, s.now)
		return
	}
	if r.failed {
		t.writes++ // to the dead topic
		s.write()
	}
	s.settled(l, t, r)
	s.freeTasks = append(s.freeTasks, r.task)
}

// backoff is [ax.Backoff.Wait] with the source's own random numbers.
func backoff(src *source, attempt int) time.Duration {
	b := src.kind.conf.Backoff
	if len(b.Delays) > 0 {
		return b.Wait(attempt)
	}
	return Spread{Most: b.Ceiling(attempt)}.draw(src.rng)
}
