package group

import (
	"context"
	"errors"
	"sync"

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
	finished offset.Finished // by an earlier owner, above its commit
	epoch    uint32          // counts windows
	dirty    bool            // something was finished since the last commit
	active   int             // started and neither done nor aborted
	idle     chan struct{}
	stopping bool // nothing more may start
	fenced   bool // no longer owned
	pauses   Pause
}

// Ticket stands for one record that was read.
type Ticket struct {
	window uint32
	offset offset.Ticket
}

// Pause is a set of reasons not to read a partition.
type Pause uint8

const (
	PauseWait    Pause = 1 << iota // the head may not leave yet
	PauseWindow                    // too many offsets wait for one that is unfinished
	PauseCommand                   // an operator asked for it
)

// Context ends when the partition is lost, with ax.ErrPartitionLost as cause.
func (p *Partition) Context() context.Context { return p.ctx }

// Owned reports whether a finish would still count.
func (p *Partition) Owned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.fenced
}

// add takes in records. It returns those that have to be worked, which are
// none once the partition is fenced, with their tickets, and whether offsets
// went back. What an earlier owner had finished is left out.
func (p *Partition) add(rs []*kgo.Record) (todo []*kgo.Record, ts []Ticket, backwards bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced {
		return nil, nil, false
	}
	skip := !p.finished.Beyond(rs[0].Offset)
	if !skip {
		todo = rs
	}
	ts = make([]Ticket, 0, len(rs))
	for _, r := range rs {
		t, ok := p.window.Add(r.Offset, r.LeaderEpoch)
		if !ok {
			// The log was cut: these are other records under offsets that were
			// seen before. What was known of the offsets is worth nothing.
			p.window, p.finished = offset.Window{}, offset.Finished{}
			p.epoch++
			backwards = true
			t, _ = p.window.Add(r.Offset, r.LeaderEpoch)
		}
		if skip && p.finished.Has(r.Offset, r.LeaderEpoch) {
			p.window.Done(t)
			p.dirty = true
			continue
		}
		ts = append(ts, Ticket{window: p.epoch, offset: t})
		if skip {
			todo = append(todo, r)
		}
	}
	return todo, ts, backwards
}

// fetched takes in what the last commit of the partition says.
func (p *Partition) fetched(at int64, metadata string) error {
	f, err := offset.ParseMetadata(metadata, p.topicID, at)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = f
	return nil
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

// Done finishes the record of the ticket, whose work was started.
func (p *Partition) Done(t Ticket) {
	p.mu.Lock()
	if !p.fenced && t.window == p.epoch {
		p.window.Done(t.offset)
		p.dirty = true
	}
	p.end()
	p.mu.Unlock()
	p.member.wake()
}

// Abort ends work that was started without finishing the record: whoever owns
// the partition next reads it again.
func (p *Partition) Abort() {
	p.mu.Lock()
	p.end()
	p.mu.Unlock()
}

func (p *Partition) end() {
	if p.active--; p.active == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// Span returns how many offsets the window holds, finished or not.
func (p *Partition) Span() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.window.Span()
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

// position returns what is to be committed, and false if that is no news.
func (p *Partition) position() (at kgo.EpochOffset, metadata string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced || !p.dirty {
		return kgo.EpochOffset{}, "", false
	}
	p.dirty = false
	o, epoch, _ := p.window.Commit()
	if sabotage.CommitEarly && p.window.Unfinished() > 0 {
		o++
	}
	return kgo.EpochOffset{Epoch: epoch, Offset: o}, p.window.Metadata(p.topicID, p.finished), true
}

// failed says that what position returned was not committed.
func (p *Partition) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirty = true
}

// Pause adds a reason not to read the partition.
func (p *Partition) Pause(why Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced {
		return
	}
	if p.pauses == 0 {
		p.member.kafka.PauseFetchPartitions(map[string][]int32{p.Topic: {p.ID}})
	}
	p.pauses |= why
}

// Resume takes a reason away; with the last one the partition is read again.
func (p *Partition) Resume(why Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced || p.pauses&why == 0 {
		return
	}
	if p.pauses &^= why; p.pauses == 0 {
		p.member.kafka.ResumeFetchPartitions(map[string][]int32{p.Topic: {p.ID}})
	}
}

// Paused returns the reasons not to read the partition.
func (p *Partition) Paused() Pause {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pauses
}

var errClosed = errors.New("the member is closed")
