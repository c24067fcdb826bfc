package group

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/offset"
)

const (
	// quarantineAfter is how often in a row owners of a partition have to die,
	// without anything of it getting finished at its head, before its tasks
	// are suspected.
	quarantineAfter = 3
	// guiltyAfter is how often a suspect must have been at work, alone, when
	// its process died.
	guiltyAfter = 5
	// And processes must have lived without it for so many times as long as
	// they lived with it on average: were its deaths of another cause, which
	// strikes at any time, that would happen once in e to this power. For each
	// suspect that was cleared, when there is another cause, it is more.
	beyondDoubt, forCleared = 7, 3
	// suspects is how many offsets are suspected at first. Each further death
	// that none of them explains suspects eight times as many.
	suspects = 256
	// Bounds of the time for which a process has to live without the suspect.
	minProbe, maxProbe = 2 * time.Second, 10 * time.Minute
	// A death is noticed late by about this much.
	slack = time.Second
	// More than so many in an hour that crash their processes in one
	// partition are no accident of a task.
	maxCrashed = 5
)

// life is what this owner and the earlier ones leave behind in the commit's
// metadata. It lets the next one tell which task kills its process: such a task
// leaves nothing else behind.
//
// An owner first commits that the partition is open, and at last, if it gives
// it up alive, that it is not. One that finds it open takes it over from an
// owner that died. Where that happens several times without the lowest
// unfinished offset moving on, the records from there on are suspects: they are
// run one at a time in the whole process, and each is marked by a commit before
// its start. A mark that is found again says that the process died while that
// suspect ran. It may have died of anything, so the suspect is then kept from
// running for longer than that process had lived, and if the next one dies in
// that time as well, the suspect is cleared. One that was at work at too many
// deaths is guilty.
//
// The partition's lock guards all but the atomics.
type life struct {
	on    bool
	l     offset.Life
	dirty bool        // the mark is not committed yet
	ready atomic.Bool // the opening commit was acknowledged
	alert atomic.Bool // some records are suspects
}

// takeOver reads what the last owner has left behind, with its commit.
func (f *life) takeOver(l offset.Life, at int64, finished offset.Finished, now time.Time, session time.Duration) {
	if !f.on {
		return
	}
	died := l.Open
	if l.Mark.Offset < at || finished.Has(l.Mark.Offset, -1) {
		l.Mark = offset.Mark{}
	}
	switch {
	case !died:
		l.TakeOvers = 0
	case at > l.Low:
		l.TakeOvers = 1
	default:
		l.TakeOvers++
	}
	l.Low = at
	marked := died && l.Mark.State != offset.MarkNone
	switch {
	case died && l.Mark.State == offset.MarkRun:
		diedWith(&l.Mark, max(now.Sub(l.Mark.At)-session, 0))
	case died && l.Mark.State == offset.MarkProbe:
		l.Mark = offset.Mark{} // it was not at work
		l.Cleared++
	}
	l.Mark.State = offset.MarkNone
	if l.Until <= at {
		l.Until, l.Cleared = 0, 0
	}
	if more := l.TakeOvers - quarantineAfter; more >= 0 && !marked {
		l.Until = max(l.Until, max(at, finished.End())+suspects<<(3*min(more, 6)))
	}
	f.l = l
	f.alert.Store(l.Until > 0)
}

// diedWith counts a death at which the suspect had run for so long.
func diedWith(m *offset.Mark, ran time.Duration) {
	m.Count++
	m.Ran += ran + slack
	if age := m.Age + ran; m.Count == 1 || age < m.Youngest {
		m.Youngest = age
	}
}

// old reports whether a process has lived without the suspect beyond the age at
// which one has died with it.
func old(m *offset.Mark) bool { return m.Longest > m.Youngest || m.Longest >= maxProbe }

// probation returns for how long the marked suspect is kept from running.
func probation(m *offset.Mark) time.Duration {
	d := 2 * m.Ran / time.Duration(max(m.Count, 1))
	if !old(m) {
		d = max(d, m.Youngest+5*time.Second)
	}
	return min(max(d, minProbe), maxProbe)
}

// guilty reports whether it is beyond doubt that the suspect kills.
func (f *life) guilty() bool {
	m := &f.l.Mark
	lived := time.Duration(beyondDoubt+forCleared*f.l.Cleared) * m.Ran / time.Duration(max(m.Count, 1))
	return m.Count >= guiltyAfter && m.Probed >= lived && old(m)
}

// read is told what was read: a marked record that is no longer in the log
// can't be waited for.
func (f *life) read(w *offset.Window, rs []*kgo.Record) {
	m := &f.l.Mark
	if !f.on || *m == (offset.Mark{}) || w.Next() <= m.Offset {
		return
	}
	gone := !w.Unfinished(m.Offset)
	for _, r := range rs {
		gone = gone || r.Offset == m.Offset && r.LeaderEpoch != m.Epoch
	}
	if gone {
		*m = offset.Mark{}
	}
}

// done is told what was finished. It reports whether that lets others start.
func (f *life) done(w *offset.Window, o int64) (moved bool) {
	if !f.alert.Load() {
		return false
	}
	if f.l.Mark.Offset == o && f.l.Mark != (offset.Mark{}) {
		f.l.Mark, f.dirty, moved = offset.Mark{}, true, true
	}
	if at, _, _ := w.Commit(); at >= f.l.Until {
		f.l.Until, f.l.TakeOvers, f.l.Cleared, f.dirty, moved = 0, 0, 0, true, true
		f.alert.Store(false)
	}
	return moved
}

// cut is told that the log was cut at an offset.
func (f *life) cut(at int64) {
	if f.l.Mark.Offset >= at {
		f.l.Mark = offset.Mark{}
	}
	if f.l.Until = min(f.l.Until, at); f.l.Until == 0 {
		f.alert.Store(false)
	}
}

// news reports whether there is something to commit.
func (f *life) news(leaving bool) bool {
	return f.on && (f.dirty || leaving == f.ready.Load())
}

// record returns what a commit of the offset says, and whether it opens the
// partition.
func (f *life) record(leaving bool) (l offset.Life, opens bool) {
	if !f.on {
		return offset.Life{}, false
	}
	f.dirty = false
	l = f.l
	if l.Open = !leaving; leaving {
		l.TakeOvers, l.Low = 0, 0
		if l.Mark.State = offset.MarkNone; l.Mark.Count == 0 {
			l.Mark = offset.Mark{}
		}
	}
	return l, !leaving
}

// Ready reports whether work on the partition may begin at all: not before the
// commit that opens it.
func (p *Partition) Ready() bool { return !p.life.on || p.life.ready.Load() }

// Verdict says how a record of a partition may be started.
type Verdict uint8

const (
	Free   Verdict = iota // like any other
	Alone                 // while no other suspect of the process is at work, once marked
	Probe                 // not for the time that Partition.Probation tells; then alone
	Behind                // not before the marked suspect of its partition
	Guilty                // never
)

// Alert reports whether some of the partition's records are suspects, for which
// [Partition.Verdict] has to be asked.
func (p *Partition) Alert() bool { return p.life.alert.Load() }

// Verdict says how the record of the ticket may be started.
func (p *Partition) Verdict(t Ticket) Verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &p.life
	switch m := f.l.Mark; {
	case !p.current(t) || t.offset >= f.l.Until:
		return Free
	case m.Count > 0 && m.Offset != t.offset:
		if p.window.Next() <= m.Offset {
			// So much is unfinished before the marked one that it may never be
			// read while the others wait for it.
			return Alone
		}
		return Behind
	case m.Count > 0 && f.guilty():
		return Guilty
	case m.Count > 0 && m.State == offset.MarkNone:
		return Probe
	}
	return Alone
}

// Marked reports whether the record of the ticket is the suspect that the
// others of its partition wait for.
func (p *Partition) Marked(t Ticket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.life.l.Mark
	return m.Count > 0 && m.Offset == t.offset && p.current(t)
}

// Probation returns how long the marked suspect is kept from running.
func (p *Partition) Probation() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return probation(&p.life.l.Mark)
}

// Deaths returns how often a process has died while the marked suspect ran.
func (p *Partition) Deaths() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life.l.Mark.Count
}

// Mark commits, before a suspect starts or is kept from it, which of the two
// it is. It blocks until the commit is acknowledged or ctx ends; without a nil
// error nothing may start.
func (p *Partition) Mark(ctx context.Context, t Ticket, state offset.MarkState, now time.Time) error {
	mark := p.mark(t, state, now)
	if mark == 0 {
		return fmt.Errorf("mark %s/%d@%d: %w", p.Topic, p.ID, t.offset, errFenced)
	}
	if err := p.member.commit(ctx, []*Partition{p}, false); err != nil {
		p.unmarked(t)
		return fmt.Errorf("mark %s/%d@%d: %w", p.Topic, p.ID, t.offset, err)
	}
	if !p.Noted(mark) {
		p.unmarked(t)
		return fmt.Errorf("mark %s/%d@%d: %w", p.Topic, p.ID, t.offset, errFenced)
	}
	return nil
}

// mark notes the mark, and returns what [Partition.Noted] is to be asked, or 0.
func (p *Partition) mark(t Ticket, state offset.MarkState, now time.Time) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced || !p.current(t) {
		return 0
	}
	m := &p.life.l.Mark
	if m.Offset != t.offset || m.Epoch != t.epoch {
		*m = offset.Mark{Offset: t.offset, Epoch: t.epoch}
	}
	if m.State == offset.MarkProbe && state == offset.MarkRun {
		survived := now.Sub(m.At)
		m.Probed, m.Longest = m.Probed+survived, max(m.Longest, survived+m.Age)
	}
	m.State, m.At, m.Age, p.life.dirty = state, now, now.Sub(p.member.alive.began), true
	p.said++
	return p.said
}

// unmarked takes back that a suspect is at work, which could not be committed:
// it does not start, and must not be counted.
func (p *Partition) unmarked(t Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := &p.life.l.Mark; m.Offset == t.offset && p.current(t) {
		m.State, p.life.dirty = offset.MarkNone, true
	}
}

// Unmark says that the suspect's run is over, and that the process lives.
func (p *Partition) Unmark(t Ticket) {
	p.mu.Lock()
	if m := &p.life.l.Mark; m.Offset == t.offset && p.current(t) {
		*m, p.life.dirty = offset.Mark{}, true
	}
	p.mu.Unlock()
	p.member.wake()
	p.member.moved()
}

// Crashed counts a task that ends as crashed. It reports false where there were
// too many in the last hour: then it is no task's fault, and nothing more must
// end so.
func (p *Partition) Crashed(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &p.life.l
	if now.Sub(l.CrashedSince) > time.Hour {
		l.Crashed, l.CrashedSince = 0, now
	}
	if l.Crashed >= maxCrashed {
		return false
	}
	l.Crashed++
	p.life.dirty = true
	return true
}

var errFenced = errors.New("the partition is no longer owned")
