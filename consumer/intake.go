package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/publish"
)

// intake polls the lane while there is room for more, until ctx ends.
func (w *Worker) intake(ctx context.Context, l *lane) {
	for w.awaitRoom(ctx, l) {
		if err := l.member.Poll(ctx, func(b group.Batch) { w.take(l, b) }); err != nil {
			return
		}
	}
}

// limitedAfter is how long a buffer must stand full of a kind that may not
// start before that is told.
const limitedAfter = 10 * time.Second

// awaitRoom waits until the lane may be polled, and returns false when ctx has
// ended before.
func (w *Worker) awaitRoom(ctx context.Context, l *lane) bool {
	if !w.sched.full(l) {
		return true
	}
	l.member.Busy(true)
	defer l.member.Busy(false)
	tick := time.NewTicker(limitedAfter)
	defer tick.Stop()
	for {
		select {
		case <-l.room:
		case <-tick.C:
			if kind := w.sched.limited(l); kind != "" && w.loud.now("limited "+l.conf.Name) {
				w.log.Warn("the lane's buffer is full of a kind whose concurrency is reached, and is not read on: give that kind a lane of its own",
					"lane", l.conf.Name, "kind", kind)
			}
		case <-ctx.Done():
			return false
		}
		if !w.sched.full(l) {
			return true
		}
	}
}

// limited returns the kind that keeps the lane's buffer full although its
// concurrency is reached, so that the lane is not read on, or "".
func (s *scheduler) limited(l *lane) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limitedBy(l)
}

func (s *scheduler) limitedBy(l *lane) (kind string) {
	if l.buffered <= l.maxKeep/2 && l.bytes <= l.maxBytes/2 {
		return ""
	}
	most := 0
	for _, p := range l.parts {
		for _, q := range p.queues {
			if q.empty() {
				continue
			}
			if q.kind == nil || q.kind.running < q.kind.conf.Concurrency {
				return ""
			}
			if n := len(q.jobs) - q.head; n > most {
				most, kind = n, q.kind.name
			}
		}
	}
	return kind
}

// take decodes what a poll returned and queues it.
func (w *Worker) take(l *lane, b group.Batch) {
	now := clock.Now()
	w.tel.Consumed(context.Background(), l.topic, l.group, len(b.Records))
	p := w.sched.partOf(l, b.Partition)
	jobs := make([]*job, 0, min(pushTogether, len(b.Records)))
	var own []job // some at a time, so that one that stays keeps few others in memory
	id := l.topicID()
	var decoder ax.Decoder
	decoder.Grow(len(b.Records))
	for i, r := range b.Records {
		t, err := decoder.Decode(r, id)
		if err == nil {
			err = w.domain.CheckDue(t, now)
		}
		if err != nil {
			w.bury(&job{part: p, ticket: b.Tickets[i], size: jobBytes + len(r.Value)}, r, err)
			continue
		}
		t.Lane = l.conf.Name
		if len(own) == 0 {
			own = make([]job, min(32, len(b.Records)-i))
		}
		j := &own[0]
		own = own[1:]
		*j = job{
			task: t, kind: w.kind(t.Kind), part: p, ticket: b.Tickets[i],
			size: jobBytes + len(t.Payload), ready: r.Timestamp,
		}
		if j.ready.After(now) {
			j.ready = now
		}
		if l.ordered() && t.Key != "" {
			w.recall(j)
		}
		if t.Due.After(now) {
			if t.Due.Sub(now) > w.domain.Delay.Tiers[0] && j.since.IsZero() {
				w.sendBack(j, now)
				continue
			}
			j.until = t.Due
			j.detach()
		}
		if jobs = append(jobs, j); len(jobs) == pushTogether {
			w.sched.push(jobs, now)
			jobs = jobs[:0]
		}
	}
	w.sched.push(jobs, now)
}

// pushTogether is how many tasks are queued at once: the slots begin while the
// rest of a large fetch is still being decoded.
const pushTogether = 256

// recall takes what an earlier owner has noted of a task that waited in place.
func (w *Worker) recall(j *job) {
	if n, ok := j.part.NoteOf(j.ticket); ok {
		j.task.Attempt, j.task.Deferrals, j.since = max(n.Attempt, 1), n.Deferrals, n.Since
		if n.Due.After(j.task.Due) {
			j.task.Due = n.Due
		}
	}
}

// jobBytes is about what a queued task takes beside its payload.
const jobBytes = 1024

// sendBack returns a task to the tiers that came much too early.
func (w *Worker) sendBack(j *job, now time.Time) {
	if !j.part.Start() {
		return
	}
	if w.loud.now("early") {
		w.log.Warn("a task came much too early: is a clock wrong?", "task", j.task.ID, "kind", j.task.Kind,
			"due", j.task.Due, "ahead", j.task.Due.Sub(now))
	}
	next := *j.task
	topic := w.router.Back(&next, now)
	next.Deferrals++
	w.publish(j, &next, topic)
}

// bury sends a record that is no task to the dead topic.
func (w *Worker) bury(j *job, r *kgo.Record, cause error) {
	if !j.part.Start() {
		return
	}
	log := w.log.With("topic", r.Topic, "partition", r.Partition, "offset", r.Offset)
	log.Error("a record that is no task goes to the dead topic", "error", cause)
	w.tel.Ended(context.Background(), j.lane().conf.Name, "(malformed)", "dead", -1)
	dead := ax.DeadRecord(r, ax.Death{Reason: ax.ReasonMalformed, Error: cause.Error(), At: clock.Now(), TopicID: j.lane().topicID()})
	dead.Topic = w.router.Dead()
	w.write(j, dead, func(err error) {
		if err == nil {
			j.part.Done(j.ticket)
			return
		}
		if !errors.Is(err, publish.ErrGivenUp) {
			log.Error("a record can't even enter the dead topic; it stays unfinished", "error", err)
		}
		j.part.Abort()
	})
}
