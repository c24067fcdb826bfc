package delay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/publish"
	"github.com/axtasks/ax/internal/telemetry"
)

// moveLoop sends on what may leave, and sleeps until the next instant. It moves
// what leaves within the gap together: one request for each record costs more
// than all else.
func (r *reader) moveLoop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		next := r.move(clock.Now())
		timer.Reset(r.gap)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Reset(next - r.gap)
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
	next := clock.Longest
	r.mu.Lock()
	r.passed = now
	for _, l := range r.loads {
		l.passed = 0
		r.retry(l, place)
	}
	for _, s := range r.parts {
		t := r.track(s.p.Topic)
		for e := s.queue.first(); e != nil && !t.paused; e = s.queue.first() {
			if s.tier != nil {
				r.bind(s, e)
			}
			if wait := e.leave.Sub(now); wait > 0 {
				next = min(next, wait)
				break
			}
			if s.queue.remove(); r.unpack(s, e) {
				place(ready{s, e})
			} else {
				s.bytes -= e.size
			}
		}
		next = min(next, r.bound(s, now))
	}
	for _, l := range r.loads {
		if l.passed >= maxTogether && len(l.held) > 0 {
			next = 0
		}
	}
	r.mu.Unlock()
	for i, x := range run {
		r.send(x, topics[i])
	}
	return next
}

// retry places what waits for room in a topic, as long as there is some. What is
// of a tier that an operator has paused stays. Called with the lock held.
func (r *reader) retry(l *load, place func(ready)) {
	var kept []ready
	waiting := l.held
	l.held = nil // place may hold some again
	for len(waiting) > 0 && !l.full() {
		x := waiting[0]
		waiting[0] = ready{}
		if waiting = waiting[1:]; r.track(x.s.p.Topic).paused {
			kept = append(kept, x)
			continue
		}
		x.s.held--
		place(x)
	}
	if len(kept) > 0 || len(l.held) > 0 {
		waiting = slices.Concat(kept, l.held, waiting)
	}
	l.held = waiting
}

// place chooses the topic to which the entry goes next and starts work on it;
// where the topic has no room, the entry is held until an answer wakes the
// loop. Called with the lock held; send must follow.
func (r *reader) place(x ready, now time.Time) (topic string, ok bool) {
	topic = r.m.router.Dead()
	if x.e.dead == nil {
		topic = r.next(x, now)
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
	l.passed++
	l.bytes += x.e.size
	return topic, true
}

// next returns the topic to which a task goes.
func (r *reader) next(x ready, now time.Time) string {
	t := x.e.task
	switch {
	case x.s.tier == nil && r.notNear(t, now):
		// Some mover's clock is ahead of ours, or somebody wrote it there. With
		// a claim it could come back at once.
		if !x.e.back {
			t.Deferrals++
			x.e.back = true
		}
		return r.m.router.Back(t, now)
	case x.s.tier == nil:
		return r.m.router.Next(t, now, now)
	case x.e.claim.IsZero():
		return r.m.router.Next(t, x.e.leave, now)
	}
	return r.m.router.Next(t, x.e.claim, now)
}

// notNear reports whether a task of the near tier is due too late for it.
func (r *reader) notNear(t *ax.Task, now time.Time) bool {
	d := &r.m.domain.Delay
	return t.Due.Sub(now) > d.Tiers[0]+d.Window
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
			r.moved(x)
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

// moved finishes the record whose successor is acknowledged.
func (r *reader) moved(x ready) {
	x.s.p.Done(x.e.ticket)
	r.mu.Lock()
	r.track(x.s.p.Topic).count(time.Now())
	r.mu.Unlock()
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
			r.moved(x)
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
