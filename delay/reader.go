package delay

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/publish"
	"github.com/axtasks/ax/internal/telemetry"
	"github.com/axtasks/ax/router"
)

const (
	// A far partition's queue only has to bridge the time that a resumed
	// partition takes to deliver.
	farHigh, farLow = 1024, 256
	farBytes        = 1 << 20
	nearBytes       = 16 << 20
	// maxOpen bounds the records that are published and not acknowledged.
	maxOpen = 8192
)

// reader moves the records of the far tiers, or of the near tier.
type reader struct {
	m      *Mover
	name   string
	group  string
	topics []string
	tiers  map[string]router.Tier // of the far tiers; nil in the near tier
	ids    map[string][16]byte

	member *group.Member
	pub    *publish.Publisher
	wake   chan struct{} // something new may leave
	full   atomic.Bool   // the loop stopped at maxOpen

	mu    sync.Mutex
	parts map[*group.Partition]*source
}

func (r *reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take queues what a poll returned.
func (r *reader) take(b group.Batch) {
	now := clock.Now()
	r.m.tel.Consumed(context.Background(), b.Partition.Topic, r.group, len(b.Records))
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.parts[b.Partition]
	if s == nil {
		s = &source{p: b.Partition}
		if tier, ok := r.tiers[b.Partition.Topic]; ok {
			s.tier, s.queue.far = &tier, true
		}
		r.parts[b.Partition] = s
	}
	for i, rec := range b.Records {
		t, err := ax.Decode(rec, r.ids[rec.Topic])
		if err != nil {
			r.bury(s.p, b.Tickets[i], rec, ax.ReasonMalformed, err, 0)
			continue
		}
		e := &entry{task: t, ticket: b.Tickets[i], order: rec.Offset, size: sizeOf(t)}
		e.leave = r.leave(s, rec, t, now)
		if e.leave.After(now) {
			own(t)
		}
		s.queue.add(e)
		s.bytes += e.size
	}
	r.bound(s)
	r.signal()
}

// leave returns when the task may leave its tier.
func (r *reader) leave(s *source, rec *kgo.Record, t *ax.Task, now time.Time) time.Time {
	d := r.m.domain.Delay
	if s.tier != nil {
		appended := now
		if rec.Attrs.TimestampType() == 1 { // the broker's clock
			appended = rec.Timestamp
		}
		claim := t.Leave
		at := r.m.router.LeaveAt(*s.tier, claim, appended)
		if claim.IsZero() {
			t.Leave = at
		}
		return at
	}
	if t.Due.Sub(now) > d.Tiers[0]+d.Window {
		return now // it is not near: back to the far tiers
	}
	return t.Due.Add(-max(d.Lead, 0))
}

// bound pauses a partition that has enough waiting, and resumes one that has
// little. Called with the lock held.
func (r *reader) bound(s *source) {
	high, low, bytes := r.m.domain.Delay.Buffer, r.m.domain.Delay.Buffer/2, nearBytes
	if s.tier != nil {
		high, low, bytes = farHigh, farLow, farBytes
	}
	switch n := s.queue.Len(); {
	case n >= high || s.bytes >= bytes:
		s.p.Pause(group.PauseWait)
	case n <= low && s.bytes <= bytes/2:
		s.p.Resume(group.PauseWait)
	}
}

// dropped forgets partitions that are given up. What was published of them is
// waited for by their revocation.
func (r *reader) dropped(ps []*group.Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range ps {
		delete(r.parts, p)
	}
}

// moveLoop sends on what may leave, and sleeps until the next instant.
func (r *reader) moveLoop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(r.move(clock.Now()))
		select {
		case <-timer.C:
		case <-r.wake:
		case <-ctx.Done():
		}
	}
}

// move sends on all that may leave at now, and returns how long nothing more
// will.
func (r *reader) move(now time.Time) time.Duration {
	type ready struct {
		s *source
		e *entry
	}
	var run []ready
	// The timer is never set further, so that a wall clock that jumps ahead is
	// noticed.
	next := time.Minute
	r.mu.Lock()
	room := maxOpen - r.pub.Open()
	for _, s := range r.parts {
		for e := s.queue.first(); e != nil; e = s.queue.first() {
			if wait := e.leave.Sub(now); wait > 0 {
				next = min(next, wait)
				break
			}
			if len(run) >= room {
				r.full.Store(true)
				break // an answer wakes the loop
			}
			if !s.p.Start() {
				break // it is being given up
			}
			s.queue.remove()
			s.bytes -= e.size
			run = append(run, ready{s, e})
		}
		r.bound(s)
	}
	r.mu.Unlock()
	for _, x := range run {
		r.send(x.s, x.e, now)
	}
	r.answered() // the answers may have come before the loop ran out of room
	return next
}

// send publishes the task to where it goes next. Work on it was started.
func (r *reader) send(s *source, e *entry, now time.Time) {
	at := now
	if s.tier != nil && !e.task.Leave.IsZero() {
		at = e.task.Leave
	}
	from := e.task.Source
	topic := r.m.router.Next(e.task, at, now)
	span := r.m.tel.Hop(context.Background(), e.task, r.m.router.Lane(e.task.Lane))
	rec := ax.Encode(e.task)
	rec.Topic = topic
	began := time.Now()
	r.pub.Send(rec, func(_ *kgo.Record, err error) {
		class := ""
		if err != nil {
			class = "refused"
		}
		r.m.tel.Sent(context.Background(), topic, class, time.Since(began))
		telemetry.End(span, class)
		if errors.Is(err, publish.ErrNever) {
			raw := ax.Encode(e.task)
			raw.Topic, raw.Partition, raw.Offset, raw.LeaderEpoch = from.Topic, from.Partition, from.Offset, from.Epoch
			r.sendDead(s.p, e.ticket, raw, ax.ReasonTooLarge, err, e.task.Attempt-1)
			return
		}
		s.p.Done(e.ticket)
		r.answered()
	})
}

// answered wakes the loop where it stopped for want of room.
func (r *reader) answered() {
	if r.full.Load() && r.pub.Open() <= maxOpen/2 && r.full.CompareAndSwap(true, false) {
		r.signal()
	}
}

// bury starts work on a record that is no task and sends it to the dead topic.
func (r *reader) bury(p *group.Partition, t group.Ticket, rec *kgo.Record, why ax.Reason, err error, attempts int) {
	if p.Start() {
		r.sendDead(p, t, rec, why, err, attempts)
	}
}

func (r *reader) sendDead(p *group.Partition, t group.Ticket, rec *kgo.Record, why ax.Reason, cause error, attempts int) {
	r.m.cfg.log.Error("a record goes to the dead topic", "role", r.name, "reason", string(why), "topic", rec.Topic,
		"partition", rec.Partition, "offset", rec.Offset, "error", cause)
	dead := ax.DeadRecord(rec, ax.Death{Reason: why, Error: cause.Error(), At: clock.Now(), Attempt: attempts, TopicID: r.ids[rec.Topic]})
	dead.Topic = r.m.router.Dead()
	r.pub.Queue(dead, func(_ *kgo.Record, err error) {
		if err != nil {
			// It stays unfinished: nothing is lost, and the window shows it.
			r.m.cfg.log.Error("a record can't even enter the dead topic", "role", r.name, "topic", rec.Topic,
				"partition", rec.Partition, "offset", rec.Offset, "error", err)
			p.Abort()
			return
		}
		p.Done(t)
		r.answered()
	})
}
