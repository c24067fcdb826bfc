package group

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/offset"
	"github.com/axtasks/ax/internal/sabotage"
)

// Partition is one assignment of one partition. A partition that is lost and
// regained is a new value. Methods are safe for concurrent use.
type Partition struct {
	Topic string
	ID    int32

	member *Member
	id     string // of the member, in the session that assigned or kept it; under the member's lock
	ctx    context.Context
	cancel context.CancelCauseFunc

	topicID [16]byte

	mu       sync.Mutex
	window   offset.Window
	meta     offset.Metadata // what an earlier owner has finished, and what the next must know
	base     int64           // the commit at assignment, -1 if there was none, or something was read since
	found    position        // that commit
	cuts     []int64         // where the log was cut
	dirty    bool            // there is news to commit
	stale    bool            // the last commit is so old that it is made again
	from     int64           // where reading began, -1 if that is not known
	end      int64           // of the log, as far as it is known
	read     time.Time       // when something was last read
	behind   time.Time       // since when it is known that there is more to read
	full     time.Time       // since when the window is full
	active   int             // started and neither done nor aborted
	idle     chan struct{}
	stopping bool // nothing more may start
	left     bool // its last commit was made: none must open it again
	fenced   bool // no longer owned
	pauses   Pause
	rests    int       // how often it was paused
	took     time.Time // when a broker last took a commit, or told of one

	life life
	said uint64 // counts changes of notes and marks
	kept uint64 // of them, those that a commit has taken
}

// Ticket stands for one record that was read.
type Ticket struct {
	cuts   int // of the log, before it was read
	offset int64
	epoch  int32
}

// Context ends when the partition is lost, with ax.ErrPartitionLost as cause.
func (p *Partition) Context() context.Context { return p.ctx }

// Owned reports whether a finish would still count.
func (p *Partition) Owned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.fenced
}

// news is what a fetch brought to the attention of a partition's owner.
type news struct {
	backwards bool     // offsets went back: the log was cut
	skipped   [2]int64 // records from … to that were deleted before they were committed
	commit    bool     // something is finished that has to be committed
}

// add takes in what a fetch returned. It returns the records that have to be
// worked, none once the partition is fenced, with their tickets. What an
// earlier owner had finished is left out.
func (p *Partition) add(f *kgo.FetchPartition) (todo []*kgo.Record, ts []Ticket, n news) {
	rs := f.Records
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced {
		return nil, nil, n
	}
	p.read, p.behind = time.Now(), time.Time{}
	p.end = max(f.HighWatermark, rs[len(rs)-1].Offset+1)
	if p.base >= 0 && f.LogStartOffset > p.base {
		n.skipped = [2]int64{p.base, f.LogStartOffset}
	}
	p.base = -1
	skip := rs[0].Offset < p.meta.Finished.End()
	todo = rs // shared for as long as all of them have to be worked
	own := false
	ts = make([]Ticket, 0, len(rs))
	for i, r := range rs {
		if !p.window.Add(r.Offset, r.LeaderEpoch) {
			p.cut(r.Offset)
			n.backwards = true
			p.window.Add(r.Offset, r.LeaderEpoch)
		}
		if r.Attrs.IsControl() || skip && p.meta.Finished.Has(r.Offset, r.LeaderEpoch) {
			p.window.Done(r.Offset)
			p.dirty = true
			if !own {
				own, todo = true, append([]*kgo.Record(nil), rs[:i]...)
			}
			continue
		}
		ts = append(ts, Ticket{cuts: len(p.cuts), offset: r.Offset, epoch: r.LeaderEpoch})
		if own {
			todo = append(todo, r)
		}
	}
	p.life.read(&p.window, rs)
	n.commit = p.dirty
	return todo, ts, n
}

// fills reports whether the window has become full, and of its lowest unfinished
// offset and how many there are.
func (p *Partition) fills() (holder int64, unfinished int, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced || p.pauses&PauseWindow != 0 || !p.isFull(p.member.cfg.MaxUnfinished) {
		return 0, 0, false
	}
	holder, _ = p.window.Lowest()
	return holder, p.window.Len(), true
}

func (p *Partition) isFull(limit int) bool {
	return p.window.Len() >= limit || p.member.cfg.Exact && p.window.Scattered()
}

// cut is told that the log was cut at an offset: what is known of the offsets
// from there on is worth nothing, they are other records'. What is below stays:
// it may be at work still, and must not be passed by a commit. Called with the
// lock held.
func (p *Partition) cut(at int64) {
	p.window.Cut(at)
	p.meta.Finished = p.meta.Finished.Below(at)
	maps.DeleteFunc(p.meta.Notes, func(o int64, _ offset.Note) bool { return o >= at })
	p.life.cut(at)
	p.cuts = append(p.cuts, at)
	p.dirty = true
}

// current reports whether a ticket stands for a record that is in the log as
// it is now. Called with the lock held.
func (p *Partition) current(t Ticket) bool {
	for _, at := range p.cuts[t.cuts:] {
		if t.offset >= at {
			return false
		}
	}
	return true
}

// lost is told that the client found the log cut at an offset.
func (p *Partition) lost(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at < p.window.Next() {
		p.cut(at)
		p.member.wake()
	}
}

// fetched takes in what the last commit of the partition says. It fails for
// metadata that is not ours, which is ignored.
func (p *Partition) fetched(at int64, epoch int32, text string, now time.Time) error {
	m, err := offset.Parse(text, p.topicID, at)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.base, p.from, p.meta, p.took = at, at, m, now
	p.found = position{at: kgo.EpochOffset{Epoch: epoch, Offset: at}, metadata: text}
	p.life.takeOver(m.Life, at, m.Finished, now, p.member.alive.lasts())
	return err
}

// Start reports whether work on one of the partition's records may begin. If
// so, [Partition.Done] or [Partition.Abort] must follow.
func (p *Partition) Start() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping || p.fenced {
		return false
	}
	p.active++
	return true
}

// Done finishes the record of the ticket, whose work was started. Only the first
// one after a commit wakes the committer.
func (p *Partition) Done(t Ticket) {
	p.mu.Lock()
	wake, moved := false, false
	if !p.fenced && p.current(t) && p.window.Done(t.offset) {
		if len(p.meta.Notes) > 0 {
			delete(p.meta.Notes, t.offset)
		}
		moved = p.life.done(&p.window, t.offset)
		wake = !p.dirty
		p.dirty = true
	}
	p.ended()
	p.mu.Unlock()
	if wake {
		p.member.wake()
	}
	if moved {
		p.member.moved()
	}
}

// Abort ends work that was started without finishing the record: whoever owns
// the partition next reads it again.
func (p *Partition) Abort() {
	p.mu.Lock()
	p.ended()
	p.mu.Unlock()
}

func (p *Partition) ended() {
	if p.active--; p.active == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// Note keeps what is known of an unfinished record beside what it holds
// itself, so that the next owner knows it too. It returns a mark for
// [Partition.Noted]. It does nothing for a ticket of the past.
func (p *Partition) Note(t Ticket, n offset.Note) (mark uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced || !p.current(t) {
		return 0
	}
	if p.meta.Notes == nil {
		p.meta.Notes = map[int64]offset.Note{}
	}
	n.Epoch = t.epoch
	p.meta.Notes[t.offset] = n
	p.said++
	p.dirty = true
	p.member.wake()
	return p.said
}

// Noted reports whether a commit has taken the note: until then, a crash would
// forget it.
func (p *Partition) Noted(mark uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept >= mark
}

// NoteOf returns what an earlier owner, or this one, has noted of the record.
func (p *Partition) NoteOf(t Ticket) (offset.Note, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.meta.Notes[t.offset]
	return n, ok && n.Epoch == t.epoch && p.current(t)
}

// Notes returns how many records are noted.
func (p *Partition) Notes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.meta.Notes)
}

// Open reports whether the record of the ticket is still the owner's to finish.
func (p *Partition) Open(t Ticket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.fenced && p.current(t) && p.window.Unfinished(t.offset)
}

// Unfinished returns how many records were read and are not finished.
func (p *Partition) Unfinished() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.window.Len()
}

// stop lets nothing more start, and returns a channel that is closed once
// nothing is active.
func (p *Partition) stop() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	if p.idle == nil {
		p.idle = make(chan struct{})
		if p.active == 0 {
			close(p.idle)
			done := p.idle
			p.idle = nil
			return done
		}
	}
	return p.idle
}

func (p *Partition) fence() {
	p.mu.Lock()
	p.fenced, p.stopping = true, true
	p.mu.Unlock()
	p.cancel(ax.ErrPartitionLost)
}

// position is what is to be committed of a partition.
type position struct {
	at       kgo.EpochOffset
	metadata string
	said     uint64
	opens    bool
}

// position returns what is to be committed, and false if that is no news.
// leaving says that this member gives the partition up, alive.
func (p *Partition) position(leaving bool) (pos position, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, epoch, any := p.window.Commit()
	if !any && p.stale && p.base >= 0 && !p.fenced {
		p.stale = false // nothing was read: what was committed stands
		return p.found, true
	}
	if p.fenced || !any || p.left && !leaving || !p.dirty && !p.stale && !p.life.news(leaving) {
		return position{}, false
	}
	p.left = p.left || leaving
	p.dirty, p.stale = false, false
	if sabotage.CommitEarly && p.window.Len() > 0 {
		o++
	}
	m := p.meta
	m.Life, pos.opens = p.life.record(leaving)
	pos.at = kgo.EpochOffset{Epoch: epoch, Offset: o}
	pos.metadata, pos.said = m.Encode(&p.window, p.topicID), p.said
	return pos, true
}

// committed says that a broker has taken what position returned.
func (p *Partition) committed(pos position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept, p.took = max(p.kept, pos.said), time.Now()
	if pos.opens {
		p.life.ready.Store(true)
	}
}

// failed says that what position returned was not committed.
func (p *Partition) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirty, p.stale = true, p.base >= 0
	p.member.wake()
}

var errClosed = errors.New("the member is closed")
