package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// repeats counts the repeats of starts, by what explains them.
type repeats struct {
	hits    map[struck]int64
	thawed  map[struck]int64 // of them, those of runs that began after a freeze
	resets  int64
	derived int64            // copies that follow from a repeat of the run before them
	copies  map[*Fact]int64  // the other copies
	blame   map[string]int64 // those that nothing explains, by what came before
}

// struck is one process as one fault hit it.
type struck struct {
	fault *Fact
	proc  string
}

func newRepeats() repeats {
	return repeats{hits: map[struck]int64{}, thawed: map[struck]int64{}, copies: map[*Fact]int64{}, blame: map[string]int64{}}
}

// level is what runs have in common that are repeats of each other.
type level struct{ attempt, deferrals int }

func (r *run) level() level { return level{r.start.Attempt, r.start.Deferrals} }

func (r *run) sameRecord(o *run) bool {
	return r.start.Topic == o.start.Topic && r.start.Partition == o.start.Partition && r.start.Offset == o.start.Offset
}

// judgeRepeats judges whether each repeat of a start is explained. Starts of
// one attempt and one count of deferrals are repeats of each other.
func (j *judge) judgeRepeats(t *task, rs []*run) {
	p := j.report.Promise(Doubled)
	seen := map[level][]*run{}
	for i, r := range rs {
		earlier := seen[r.level()]
		seen[r.level()] = append(earlier, r)
		p.Checked++
		if len(earlier) == 0 {
			continue
		}
		same := slices.DeleteFunc(slices.Clone(earlier), func(e *run) bool { return !e.sameRecord(r) })
		if len(same) == 0 {
			if e := earlier[len(earlier)-1]; !j.copyExplained(t, rs[:i], earlier[0], r) {
				j.repeats.blame["copies without a hit"]++
				p.violated("%s, a record of its own that no hit explains; before it %s", t.again(r), e.said())
			}
			continue
		}
		if e := j.unexplained(same, r); e != nil {
			why := j.why(e, r)
			j.repeats.blame[why]++
			p.violated("%s, %s; before it %s", t.again(r), why, e.said())
		}
	}
}

// again tells of a repeat.
func (t *task) again(r *run) string {
	return fmt.Sprintf("task %s: attempt %d (deferrals %d) starts again at %s by %s from %s", t.id, r.start.Attempt, r.start.Deferrals,
		clockTime(r.start.At), r.start.Proc, r.record())
}

func (r *run) record() string {
	return fmt.Sprintf("%s/%d@%d", r.start.Topic, r.start.Partition, r.start.Offset)
}

// said tells of a run.
func (r *run) said() string {
	text := fmt.Sprintf("run %s by %s from %s started at %s", r.id, r.start.Proc, r.record(), clockTime(r.start.At))
	if r.end == nil {
		return text + " and never returned"
	}
	return text + " and ended " + r.end.Outcome + " at " + clockTime(r.end.At)
}

// unexplained returns the run of those earlier ones of a record whose finish
// must have been committed before r began, or nil. All of them must be
// explained: had one been committed, nobody would have read the record again.
func (j *judge) unexplained(earlier []*run, r *run) *run {
	// One that is cut off starts what it had read before it learns that this
	// is another's by now; one that was frozen only what it had chosen.
	if f := j.world.hit(r.start.Proc, r.start.At, r.start.At, r.start.At); f != nil {
		j.repeats.add(f, r)
		return nil
	}
	var by *Fact
	var last *run
	for _, e := range earlier {
		if j.world.reset(e.start.Topic, e.start.At) {
			continue
		}
		to := e.settledAt()
		if to == 0 {
			to = r.start.At
		}
		f := j.world.hit(e.start.Proc, e.start.At, to, r.start.At)
		if f == nil {
			return e
		}
		by, last = f, e
	}
	if by == nil {
		j.repeats.resets++
	} else {
		j.repeats.add(by, last)
	}
	return nil
}

// add counts a repeat that f explains by what it did to the process of r.
func (s *repeats) add(f *Fact, r *run) {
	k := struck{f, r.start.Proc}
	s.hits[k]++
	if f.What == Freeze && r.start.At > f.Until {
		s.thawed[k]++
	}
}

// why says what came before a repeat of e that no fault explains.
func (j *judge) why(e, r *run) string {
	const soon = int64(10 * time.Second)
	for _, one := range []*run{r, e} {
		if f := j.world.last(one.start.Proc, one.start.At-soon, one.start.At); f != nil && f.What == Freeze {
			return "by a process that was thawed"
		}
	}
	if f := j.world.last(e.start.Proc, e.start.At, r.start.At); f != nil {
		switch {
		case f.What == "stop" || f.What == "skew":
			return "after a clean stop"
		case f.What == Kill && e.settledAt() != 0:
			return "finished too long before a kill"
		case f.What == Freeze && e.settledAt() != 0 && j.world.hits(f):
			return "finished too long before a freeze"
		}
	}
	if e.outcome() == Interrupted {
		return "interrupted without a hit"
	}
	return "without a fault of its process"
}

// copyExplained judges a repeat of first that has a record of its own, from the
// runs before it.
func (j *judge) copyExplained(t *task, before []*run, first, r *run) bool {
	if j.derived(before, r) {
		j.repeats.derived++
		return true
	}
	since := r.start.At
	if t.offered != nil {
		since = t.offered.At
	}
	if j.world.reset("", since) {
		j.repeats.resets++
		return true
	}
	// Who wrote it died, or was taken for dead, before it could commit what it
	// had read. That can have been anywhere on the way.
	f := j.world.copier(since, first.start.At, r.start.At)
	if f != nil {
		j.repeats.copies[f]++
	}
	return f != nil
}

// derived reports whether each record of r's level has a run of its own that
// asked for it: a run that is repeated asks again.
func (j *judge) derived(before []*run, r *run) bool {
	at := r.level()
	records := []*run{r}
	asked := 0
	for _, b := range before {
		l := b.level()
		switch {
		case l == at && !slices.ContainsFunc(records, b.sameRecord):
			records = append(records, b)
		case l == level{at.attempt - 1, at.deferrals} && b.outcome() == Failed,
			l == level{at.attempt, at.deferrals - 1} && b.outcome() == Snoozed:
			asked++
		}
	}
	return asked >= len(records)
}

// bound returns how many repeats a hit of a process explains: what ran, and
// what was finished and not committed. least is that without the time that a
// commit takes.
func (j *judge) bound(s struck) (bound, least int64) {
	f, o := s.fault, j.opts
	if f.What == Cut || f.What == Broker {
		n := o.Slots + j.pace.settled(s.proc, f.At-j.world.window, j.world.end(f))
		return n, n
	}
	// A process that has just taken over a backlog is faster than its second.
	rate := max(float64(j.pace.settled(s.proc, f.At-int64(time.Second), f.At)),
		float64(j.pace.settled(s.proc, f.At-j.world.window, f.At))/time.Duration(j.world.window).Seconds())
	of := func(d time.Duration) int64 { return o.Slots + int64(rate*d.Seconds()+0.5) }
	return of(o.CommitEvery + o.RoundTrip), of(o.CommitEvery)
}

// judgeHits judges whether each hit explains so many repeats.
func (j *judge) judgeHits() {
	r := &j.repeats
	all := slices.SortedFunc(maps.Keys(r.hits), func(a, b struck) int {
		return cmp.Or(cmp.Compare(a.fault.At, b.fault.At), cmp.Compare(a.proc, b.proc))
	})
	explained := map[string]int64{}
	worst := worstHit{text: ""}
	for _, s := range all {
		explained[s.fault.What] += r.hits[s]
		if j.opts.Slots > 0 {
			j.judgeHit(s, &worst)
		}
	}
	if r.resets > 0 {
		explained[Reset] = r.resets
	}
	if r.derived > 0 {
		explained["copies that follow from these"] = r.derived
	}
	n, most := j.judgeCopies()
	if n > 0 {
		explained["copies by movers"] = n
	}
	j.note(Doubled, "explained: %s%s%s", counts(explained), worst.text, most)
	if len(r.blame) > 0 {
		j.note(Doubled, "; not explained: %s", counts(r.blame))
	}
}

// worstHit is the kill or freeze that came closest to its bound.
type worstHit struct {
	part float64
	text string
}

func (j *judge) judgeHit(s struck, worst *worstHit) {
	n := j.repeats.hits[s]
	bound, least := j.bound(s)
	if n > bound {
		text := ""
		if late := j.repeats.thawed[s]; late > 0 {
			text = fmt.Sprintf("; %d of them are of runs that began after the thaw", late)
		}
		j.report.Promise(Doubled).violated("%s of %s at %s: %d repeats, at most %d are explained%s", s.fault.What, s.proc, clockTime(s.fault.At), n, bound, text)
	}
	if part := float64(n) / float64(bound); part > worst.part && (s.fault.What == Kill || s.fault.What == Freeze) {
		o := j.opts
		*worst = worstHit{part, fmt.Sprintf("; worst hit: %s of %s at %s, %d repeats / %d (%d slots, %d finished in %s; in %s alone: %d)", s.fault.What,
			s.proc, clockTime(s.fault.At), n, bound, o.Slots, bound-o.Slots, o.CommitEvery+o.RoundTrip, o.CommitEvery, least-o.Slots)}
	}
}

// judgeCopies judges whether each hit explains so many copies, and returns
// their sum and a text about the hit with most of them.
func (j *judge) judgeCopies() (sum int64, text string) {
	var most int64
	for _, f := range j.world.faults {
		n := j.repeats.copies[f]
		sum += n
		span := j.world.window
		if f.What == Cut || f.What == Broker {
			span += j.world.end(f) - f.At
		}
		limit := int64(float64(j.opts.Copies) * time.Duration(span).Seconds())
		if n > limit {
			j.report.Promise(Doubled).violated("%s of %s at %s: %d copies of tasks, at most %d are explained", f.What, f.Proc, clockTime(f.At), n, limit)
		}
		if n > most {
			most, text = n, fmt.Sprintf("; most copies: %s of %s at %s, %d / %d", f.What, f.Proc, clockTime(f.At), n, limit)
		}
	}
	return sum, text
}

// counts lists numbers by name.
func counts(m map[string]int64) string {
	if len(m) == 0 {
		return "none"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(parts, ", ")
}
