package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/publish"
)

// intake polls the lane while there is room for more, until ctx ends.
func (w *Worker) intake(ctx context.Context, l *lane, m *group.Member) {
	for {
		for w.sched.full(l) {
			select {
			case <-l.room:
			case <-ctx.Done():
				return
			}
		}
		if err := m.Poll(ctx, func(b group.Batch) { w.take(l, b) }); err != nil {
			return
		}
	}
}

// take decodes what a poll returned and queues it.
func (w *Worker) take(l *lane, b group.Batch) {
	now := clock.Now()
	w.tel.Consumed(context.Background(), l.topic, l.group, len(b.Records))
	jobs := make([]*job, 0, len(b.Records))
	for i, r := range b.Records {
		t, err := ax.Decode(r, w.ids[l.topic])
		if err == nil {
			err = w.domain.CheckDue(t, now)
		}
		if err != nil {
			w.bury(l, b.Partition, b.Tickets[i], r, err)
			continue
		}
		t.Lane = l.conf.Name
		j := &job{
			task: t, lane: l, kind: w.kind(t.Kind), part: b.Partition, ticket: b.Tickets[i],
			size: jobBytes + len(t.Payload), ready: r.Timestamp,
		}
		if j.ready.After(now) {
			j.ready = now
		}
		if t.Due.After(now) {
			if t.Due.Sub(now) > w.domain.Delay.Tiers[0] {
				w.sendBack(j, now)
				continue
			}
			j.until = t.Due
			kafka.Detach(t)
		}
		jobs = append(jobs, j)
	}
	w.sched.push(jobs, now)
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
func (w *Worker) bury(l *lane, p *group.Partition, ticket group.Ticket, r *kgo.Record, cause error) {
	if !p.Start() {
		return
	}
	w.log.Error("a record that is no task goes to the dead topic", "topic", r.Topic, "partition", r.Partition,
		"offset", r.Offset, "error", cause)
	w.tel.Ended(context.Background(), l.conf.Name, "(malformed)", "dead", -1)
	dead := ax.DeadRecord(r, ax.Death{Reason: ax.ReasonMalformed, Error: cause.Error(), At: clock.Now(), TopicID: w.ids[r.Topic]})
	dead.Topic = w.router.Dead()
	w.sched.settle(l, 1)
	w.pub.SendWhile(p.Owned, dead, func(_ *kgo.Record, err error) {
		w.sched.settle(l, -1)
		if errors.Is(err, publish.ErrGivenUp) {
			p.Abort()
			return
		}
		if err != nil {
			w.log.Error("a record can't even enter the dead topic; it stays unfinished", "topic", r.Topic,
				"partition", r.Partition, "offset", r.Offset, "error", err)
			p.Abort()
			return
		}
		p.Done(ticket)
	})
}
