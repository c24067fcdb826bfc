package delay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/kafka"
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
	// They bound what is published to one topic and not acknowledged.
	maxOpen      = 4096
	maxOpenBytes = 32 << 20
	// maxSkew is how far a broker's clock may be behind.
	maxSkew = 10 * time.Minute
)

// reader moves the records of the far tiers, or of the near tier.
type reader struct {
	m      *Mover
	name   string
	group  string
	topics []string
	fetch  int32                  // bytes of one fetch
	tiers  map[string]router.Tier // of the far tiers; nil in the near tier
	ids    map[string][16]byte

	member *group.Member
	pub    *publish.Publisher
	wake   chan struct{} // something new may leave

	mu    sync.Mutex
	parts map[*group.Partition]*source
	loads map[string]*load // by topic
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
	var run []ready
	r.mu.Lock()
	s := r.parts[b.Partition]
	if s == nil {
		s = &source{p: b.Partition}
		if tier, ok := r.tiers[b.Partition.Topic]; ok {
			s.tier, s.queue.far = &tier, true
		}
		r.parts[b.Partition] = s
	}
	if last := b.Records[len(b.Records)-1]; brokerTime(last) {
		s.measure(now.Sub(last.Timestamp))
	}
	for i, rec := range b.Records {
		e := &entry{ticket: b.Tickets[i], order: rec.Offset}
		t, err := ax.Decode(rec, r.ids[rec.Topic])
		if err == nil {
			err = r.m.domain.CheckDue(t, now)
		}
		if err != nil {
			e.dead = r.dead(rec, ax.ReasonMalformed, err, 0)
			detach(e.dead)
			e.size = sizeOf(&ax.Task{Payload: rec.Value, Key: string(rec.Key)})
			s.bytes += e.size
			if _, ok := r.place(ready{s, e}, now); ok {
				run = append(run, ready{s, e})
			}
			continue
		}
		e.task, e.size = t, sizeOf(t)
		r.schedule(s, rec, e, now)
		if e.leave.After(now) {
			kafka.Detach(t)
		}
		s.queue.add(e)
		s.bytes += e.size
	}
	r.bound(s)
	r.mu.Unlock()
	for _, x := range run {
		r.send(x, r.m.router.Dead())
	}
	r.signal()
}

func brokerTime(rec *kgo.Record) bool { return rec.Attrs.TimestampType() == 1 }

// schedule sets when the entry may leave its tier.
func (r *reader) schedule(s *source, rec *kgo.Record, e *entry, now time.Time) {
	d, t := r.m.domain.Delay, e.task
	if s.tier == nil {
		if e.leave = t.Due.Add(-max(d.Lead, 0)); t.Due.Sub(now) > d.Tiers[0]+d.Window {
			e.leave = now // it is not near: back to the far tiers
		}
		return
	}
	appended := now
	if brokerTime(rec) {
		appended = rec.Timestamp
		if !t.Leave.IsZero() {
			// A broker whose clock is behind by more than the wait would
			// bound every claim into the past, and the task would go round
			// in this tier as fast as the broker can.
			appended = appended.Add(min(s.skew, maxSkew))
		}
	}
	e.leave, e.at = r.m.router.LeaveAt(*s.tier, t.Leave, appended), t.Leave
	if e.at.IsZero() {
		e.at = e.leave
	}
}

// bound pauses a partition that has enough waiting, and resumes one that has
// little. Called with the lock held.
func (r *reader) bound(s *source) {
	high, low, bytes := r.m.domain.Delay.Buffer, r.m.domain.Delay.Buffer/2, nearBytes
	if s.tier != nil {
		high, low, bytes = farHigh, farLow, farBytes
	}
	switch n := s.queue.Len() + s.held; {
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
	gone := map[*source]bool{}
	for _, p := range ps {
		gone[r.parts[p]] = true
		delete(r.parts, p)
	}
	for _, l := range r.loads {
		l.held = slices.DeleteFunc(l.held, func(x ready) bool { return gone[x.s] })
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
	var run []ready
	var topics []string
	place := func(x ready) {
		if topic, ok := r.place(x, now); ok {
			run, topics = append(run, x), append(topics, topic)
		}
	}
	// The timer is never set further, so that a wall clock that jumps ahead is
	// noticed.
	next := time.Minute
	r.mu.Lock()
	for _, l := range r.loads {
		for len(l.held) > 0 && !l.full() {
			x := l.held[0]
			l.held[0] = ready{}
			l.held = l.held[1:]
			x.s.held--
			place(x)
		}
	}
	for _, s := range r.parts {
		for e := s.queue.first(); e != nil; e = s.queue.first() {
			if wait := e.leave.Sub(now); wait > 0 {
				next = min(next, wait)
				break
			}
			place(ready{s, s.queue.remove()})
		}
		r.bound(s)
	}
	r.mu.Unlock()
	for i, x := range run {
		r.send(x, topics[i])
	}
	return next
}

// place chooses the topic to which the entry goes next and starts work on it;
// where the topic has no room, the entry is held until an answer wakes the
// loop. Called with the lock held; send must follow.
func (r *reader) place(x ready, now time.Time) (topic string, ok bool) {
	topic = r.m.router.Dead()
	if x.e.dead == nil {
		at := x.e.at
		if at.IsZero() {
			at = now
		}
		topic = r.m.router.Next(x.e.task, at, now)
	}
	l := r.load(topic)
	if l.full() {
		l.held = append(l.held, x)
		x.s.held++
		return "", false
	}
	x.s.bytes -= x.e.size
	if !x.s.p.Start() {
		return "", false // it is being given up
	}
	l.n++
	l.bytes += x.e.size
	return topic, true
}

func (r *reader) load(topic string) *load {
	l := r.loads[topic]
	if l == nil {
		l = &load{}
		r.loads[topic] = l
	}
	return l
}

// answered gives back the room that a record took on its way to the topic.
func (r *reader) answered(topic string, size int) {
	r.mu.Lock()
	l := r.load(topic)
	l.n--
	l.bytes -= size
	wake := len(l.held) > 0 && l.n <= maxOpen/2 && l.bytes <= maxOpenBytes/2
	r.mu.Unlock()
	if wake {
		r.signal()
	}
}

// send publishes the entry that was placed.
func (r *reader) send(x ready, topic string) {
	if x.e.dead != nil {
		r.sendDead(x)
		return
	}
	task := x.e.task
	span := r.m.tel.Hop(context.Background(), task, topic)
	rec := ax.Encode(task)
	rec.Topic = topic
	began := time.Now()
	r.pub.Publish(publish.Item{Record: rec, Source: x.s.p, Owned: x.s.p.Owned, Done: func(_ *kgo.Record, err error) {
		class := ""
		if err != nil {
			class = "refused"
		}
		r.m.tel.Sent(context.Background(), topic, class, time.Since(began))
		telemetry.End(span, class)
		r.answered(topic, x.e.size)
		switch {
		case err == nil:
			x.s.p.Done(x.e.ticket)
		case errors.Is(err, publish.ErrNever):
			from := task.Source
			raw := ax.Encode(task)
			raw.Topic, raw.Partition, raw.Offset, raw.LeaderEpoch = from.Topic, from.Partition, from.Offset, from.Epoch
			x.e.dead = r.dead(raw, ax.ReasonTooLarge, err, task.Attempt-1)
			r.mu.Lock()
			l := r.load(r.m.router.Dead())
			l.n++
			l.bytes += x.e.size
			r.mu.Unlock()
			r.sendDead(x)
		default:
			x.s.p.Abort()
		}
	}})
}

// dead returns the record that enters the dead topic in the place of rec.
func (r *reader) dead(rec *kgo.Record, why ax.Reason, cause error, attempts int) *kgo.Record {
	r.m.cfg.log.Error("a record goes to the dead topic", "role", r.name, "reason", string(why), "topic", rec.Topic,
		"partition", rec.Partition, "offset", rec.Offset, "error", cause)
	dead := ax.DeadRecord(rec, ax.Death{Reason: why, Error: cause.Error(), At: clock.Now(), Attempt: attempts, TopicID: r.ids[rec.Topic]})
	dead.Topic = r.m.router.Dead()
	return dead
}

func (r *reader) sendDead(x ready) {
	r.pub.Publish(publish.Item{Record: x.e.dead, Source: x.s.p, Owned: x.s.p.Owned, Done: func(_ *kgo.Record, err error) {
		r.answered(x.e.dead.Topic, x.e.size)
		if err == nil {
			x.s.p.Done(x.e.ticket)
			return
		}
		if errors.Is(err, publish.ErrNever) {
			// It stays unfinished: nothing is lost, and the window shows it.
			r.m.cfg.log.Error("a record can't even enter the dead topic", "role", r.name, "topic", x.s.p.Topic,
				"partition", x.s.p.ID, "offset", x.e.order, "error", err)
		}
		x.s.p.Abort()
	}})
}
