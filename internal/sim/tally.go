package sim

import (
	"time"

	"github.com/axtasks/ax/internal/fair"
)

// tally counts what became of a lane in the measured time.
type tally struct {
	usedBefore float64 // slot seconds, of the warm-up
	used       time.Duration
	starts     uint64
	aged, gap  uint64
	wait, late histogram
	head       time.Duration // the longest that a head waited
	headFree   time.Duration // of those that no limit has held
	done       uint64
	dead       uint64
	expired    uint64
	retries    uint64
	writes     uint64 // of the tasks that ended
	dry        bool   // it had no work for some time
	limited    bool   // a limit held all that it had
}

// totals counts over all lanes.
type totals struct{ writes uint64 }

// begin begins to measure.
func (s *simulation) begin() {
	now := s.instant(s.from)
	for i, l := range s.lanes {
		l.tally = tally{usedBefore: s.fair.Stats(i, now).Used, dry: l.buffered == 0, limited: l.held}
	}
	s.totals = totals{}
}

// write counts a record that is written.
func (s *simulation) write() { s.totals.writes++ }

// tookHead counts how long the head of a lane has waited that starts now.
func (s *simulation) tookHead(l *lane) {
	if !s.measuring {
		return
	}
	wait := time.Duration(s.now - l.since)
	l.head = max(l.head, wait)
	if !l.held {
		l.headFree = max(l.headFree, wait)
	}
}

func (s *simulation) started(c fair.Choice, t *task, src *source) {
	if !s.measuring {
		return
	}
	l := s.lanes[c.Lane]
	l.starts++
	switch c.Rule {
	case fair.Aged:
		l.aged++
	case fair.Gap:
		l.gap++
	}
	if src.Flood && t.attempt == 1 {
		return // how long it has waited is for nobody to say
	}
	l.wait.add(time.Duration(s.now - t.ready))
	s.line.wait(c.Lane, time.Duration(s.now-t.ready))
	if t.due != 0 {
		l.late.add(time.Duration(s.now - t.due))
	}
}

// settled counts a task that has ended.
func (s *simulation) settled(l *lane, t *task, r running) {
	if !s.measuring {
		return
	}
	l.writes += uint64(t.writes)
	switch {
	case r.failed:
		l.dead++
	case r.expire:
		l.expired++
	default:
		l.done++
	}
}

// finish takes what is known at the end.
func (s *simulation) finish() {
	s.line.close(s.to-s.from, s.used)
	for i, l := range s.lanes {
		l.used = s.used(i, s.to-s.from)
		if l.buffered > 0 {
			s.tookHead(l) // it waits at least for so long
		}
	}
}
