package group

import (
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/offset"
)

// Partition is one assignment of one partition. A partition that is lost and
// regained is a new value. Methods are safe for concurrent use.
type Partition struct {
	Topic string
	ID    int32

	member *Member
	id     string // of the member, when it was assigned
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	window    offset.Window
	epoch     uint32 // counts windows
	active    int    // started and neither done nor aborted
	idle      chan struct{}
	stopping  bool // nothing more may start
	fenced    bool // no longer owned
	committed int64
	pauses    Pause
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
	PauseFull                      // what was read fills its buffer
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

// add takes in records. It returns nil once the partition is fenced, and
// whether offsets went back.
func (p *Partition) add(rs []*kgo.Record) (ts []Ticket, backwards bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced {
		return nil, false
	}
	ts = make([]Ticket, len(rs))
	for i, r := range rs {
		t, ok := p.window.Add(r.Offset, r.LeaderEpoch)
		if !ok {
			// The log was cut: these are other records under offsets that were
			// seen before. What was known of the offsets is worth nothing.
			p.window = offset.Window{}
			p.epoch++
			p.committed = -1
			backwards = true
			t, _ = p.window.Add(r.Offset, r.LeaderEpoch)
		}
		ts[i] = Ticket{window: p.epoch, offset: t}
	}
	return ts, backwards
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

// position returns what may be committed, and false if that is no news.
func (p *Partition) position() (kgo.EpochOffset, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, epoch, ok := p.window.Commit()
	if !ok || p.fenced || at <= p.committed {
		return kgo.EpochOffset{}, false
	}
	return kgo.EpochOffset{Epoch: epoch, Offset: at}, true
}

func (p *Partition) acknowledged(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed = max(p.committed, at)
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
