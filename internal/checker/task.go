package checker

import (
	"cmp"
	"slices"
	"time"
)

// task is all facts of one task.
type task struct {
	id        string
	offered   *Fact
	submitted *Fact
	runs      map[string]*run
	dead      []*Fact
	waiting   []*Fact
}

// run is one start of a handler.
type run struct {
	id    string
	start *Fact
	end   *Fact // nil: it never returned
}

func (r *run) settledAt() int64 {
	if r.end == nil {
		return 0
	}
	return r.end.At
}

func (r *run) outcome() string {
	if r.end == nil {
		return ""
	}
	return r.end.Outcome
}

func (t *task) add(f *Fact) {
	switch f.Type {
	case Offered:
		t.offered = f
	case Submitted:
		t.submitted = f
	case Dead:
		t.dead = append(t.dead, f)
	case Waiting:
		t.waiting = append(t.waiting, f)
	case Started:
		t.run(f.Run).start = f
	case Settled:
		t.run(f.Run).end = f
	}
}

func (t *task) run(id string) *run {
	r := t.runs[id]
	if r == nil {
		r = &run{id: id}
		t.runs[id] = r
	}
	return r
}

// sorted returns the runs by their start. A run whose start is not known is
// left out: its fact was the last, unfinished line of a file.
func (t *task) sorted() []*run {
	rs := make([]*run, 0, len(t.runs))
	for _, r := range t.runs {
		if r.start != nil {
			rs = append(rs, r)
		}
	}
	slices.SortFunc(rs, func(a, b *run) int {
		return cmp.Or(cmp.Compare(a.start.At, b.start.At), cmp.Compare(a.id, b.id))
	})
	return rs
}

func (t *task) lane() string {
	if t.offered != nil {
		return t.offered.Lane
	}
	for _, r := range t.runs {
		if r.start != nil {
			return r.start.Lane
		}
	}
	return ""
}

// ended reports whether the task is over: it was done or cancelled, or is in
// the dead topic.
func (t *task) ended() bool {
	if len(t.dead) > 0 {
		return true
	}
	for _, r := range t.runs {
		if o := r.outcome(); o == Done || o == Cancelled {
			return true
		}
	}
	return false
}

// judgeEnd judges whether the task was lost, and whether it waits in vain.
func (j *judge) judgeEnd(t *task) {
	lost, idle := j.report.Promise(Lost), j.report.Promise(Idle)
	end := j.opts.End.UnixNano()
	if t.offered == nil {
		lost.Checked++
		lost.violated("task %s: nobody has submitted it", t.id)
		return
	}
	for _, w := range t.waiting {
		due := max(w.Due, t.offered.Due, t.offered.At)
		idle.Checked++
		if end-due > int64(j.opts.Patience) {
			idle.violated("task %s: waits at %s/%d@%d, due since %s, for %s", t.id, w.Topic, w.Partition, w.Offset, clockTime(due), span(end-due))
		}
	}
	if t.submitted == nil {
		return // it may be in the log or not
	}
	lost.Checked++
	if t.ended() || len(t.waiting) > 0 || t.offered.Expires != 0 && t.offered.Expires <= end {
		return
	}
	last := "it never started"
	if rs := t.sorted(); len(rs) > 0 {
		r := rs[len(rs)-1]
		last = "its last start, attempt " + num(r.start.Attempt) + " by " + r.start.Proc + " at " + clockTime(r.start.At)
		if r.end == nil {
			last += ", never returned"
		} else {
			last += ", ended " + r.end.Outcome + " at " + clockTime(r.end.At)
		}
	}
	due := t.submitted.At
	if t.offered.Due != 0 {
		due = t.offered.Due
	}
	lost.violated("task %s (%s): acknowledged at %s in %s/%d@%d, due %s: %s", t.id, t.offered.Kind, clockTime(t.submitted.At),
		t.submitted.Topic, t.submitted.Partition, t.submitted.Offset, clockTime(due), last)
}

// judgeStarts judges the times of the starts.
func (j *judge) judgeStarts(t *task, rs []*run) {
	early, idle := j.report.Promise(Early), j.report.Promise(Idle)
	for i, r := range rs {
		s := r.start
		due := s.Due
		if t.offered != nil {
			due = max(due, t.offered.Due)
		}
		early.Checked++
		if s.Own < due {
			early.violated("task %s: run %s by %s starts at %s, %s before it is due", t.id, r.id, s.Proc, clockTime(s.At), span(due-s.Own))
		}
		if p := before(rs[:i], s); p != nil && s.Own < p.end.Own+p.end.Wait {
			early.violated("task %s: run %s by %s starts at %s, %s before the wait is over that run %s asked for",
				t.id, r.id, s.Proc, clockTime(s.At), span(p.end.Own+p.end.Wait-s.Own), p.id)
		}
	}
	if len(rs) == 0 || t.submitted == nil || t.offered == nil {
		return
	}
	first := rs[0].start
	ready := max(t.submitted.At, t.offered.Due)
	late := j.world.quiet(ready, first.At)
	j.late, j.latest = max(j.late, time.Duration(first.At-ready)), max(j.latest, late)
	if j.opts.MaxLate == 0 {
		return
	}
	idle.Checked++
	if late > j.opts.MaxLate {
		idle.violated("task %s: ready at %s in %s/%d@%d, started at %s by %s: %s late while nothing was wrong", t.id, clockTime(ready),
			first.Topic, first.Partition, first.Offset, clockTime(first.At), first.Proc, late.Round(time.Millisecond))
	}
}

// before returns the run that makes s possible, which is one of the attempt or
// the deferral before it, or nil where s is the first of all or none is known.
// Where that was repeated, it is the one whose wait is over first.
func before(rs []*run, s *Fact) *run {
	var first *run
	for _, r := range rs {
		if r.end == nil || r.end.At > s.At {
			continue
		}
		b := r.start
		failed := b.Attempt == s.Attempt-1 && b.Deferrals == s.Deferrals && r.end.Outcome == Failed
		snoozed := b.Attempt == s.Attempt && b.Deferrals == s.Deferrals-1 && r.end.Outcome == Snoozed
		if (failed || snoozed) && (first == nil || r.end.Own+r.end.Wait < first.end.Own+first.end.Wait) {
			first = r
		}
	}
	return first
}

// judgeAttempts judges how attempts are counted.
func (j *judge) judgeAttempts(t *task, rs []*run) {
	p := j.report.Promise(Attempts)
	spent, permanent, limit := 0, false, 0
	if t.offered != nil {
		limit = t.offered.Limit
	}
	for _, r := range rs {
		if limit == 0 {
			limit = r.start.Limit
		}
		switch r.outcome() {
		case Failed:
			spent = max(spent, r.start.Attempt)
		case Permanent:
			permanent = true
		}
	}
	for i, r := range rs {
		s := r.start
		p.Checked++
		if limit > 0 && s.Attempt > limit {
			p.violated("task %s: run %s by %s at %s is attempt %d of %d", t.id, r.id, s.Proc, clockTime(s.At), s.Attempt, limit)
		}
		if s.Attempt > 1 && !slices.ContainsFunc(rs[:i], func(b *run) bool {
			return b.start.Attempt == s.Attempt-1 && b.outcome() == Failed && b.end.At <= s.At
		}) {
			p.violated("task %s: run %s by %s at %s is attempt %d, and attempt %d has not failed", t.id, r.id, s.Proc,
				clockTime(s.At), s.Attempt, s.Attempt-1)
		}
	}
	for _, d := range t.dead {
		p.Checked++
		switch d.Reason {
		case "failed", "timeout", "panic":
			if spent < limit {
				p.violated("task %s: dead (%s) after attempt %d of %d", t.id, d.Reason, spent, limit)
			}
		case "permanent":
			if !permanent {
				p.violated("task %s: dead (permanent), and no run said so", t.id)
			}
		default:
			p.violated("task %s: dead (%s) without a cause", t.id, d.Reason)
		}
	}
}

// judgeTokens judges the claims of a store, where one was used.
func (j *judge) judgeTokens(t *task, rs []*run) {
	p := j.report.Promise(Lease)
	var done *run
	for i, r := range rs {
		if r.start.Token == 0 {
			continue
		}
		p.Checked++
		if i > 0 && r.start.Token <= rs[i-1].start.Token {
			p.violated("task %s: run %s by %s at %s has token %d, the run before it %d", t.id, r.id, r.start.Proc,
				clockTime(r.start.At), r.start.Token, rs[i-1].start.Token)
		}
		if r.outcome() != Done {
			continue
		}
		if done != nil {
			p.violated("task %s: done by run %s at %s, and again by run %s at %s", t.id, done.id, clockTime(done.end.At), r.id, clockTime(r.end.At))
		}
		done = r
	}
}
