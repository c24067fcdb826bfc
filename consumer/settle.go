package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/idempotency"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/publish"
	"github.com/axtasks/ax/internal/telemetry"
)

// settle ends a run by what its handler returned.
func (w *Worker) settle(j *job, c *claim, err error, took time.Duration) {
	class := classOf(err)
	switch class {
	case "partition_lost", "shutdown":
		// The record stays unfinished, and whoever owns the partition next
		// runs the task again under the same attempt.
		w.releaseClaim(c)
		w.ended(j, class, took)
		w.forget(j)
		return
	case "lease_lost":
		// Another run has the task. It comes back here only to learn that it
		// is done, or to take over where that run died as well.
		w.deferral(j, class, w.cfg.lease)
		return
	case "":
		if c == nil {
			w.finish(j, "done", took)
			return
		}
		j.finishing = &finishing{claim: c, took: took}
		w.complete(j)
		return
	}
	w.releaseClaim(c)
	t := j.task
	switch class {
	case "snoozed":
		var snooze *ax.SnoozeError
		errors.As(err, &snooze)
		w.deferral(j, class, snooze.Delay)
	case "cancelled":
		w.log.Info("task cancelled", "task", t.ID, "kind", t.Kind, "run", t.Run, "attempt", t.Attempt, "error", err)
		w.finish(j, class, took)
	case "permanent":
		w.dead(j, ax.ReasonPermanent, err, t.Attempt, took)
	default:
		w.retry(j, class, err, took)
	}
}

// retry lets the task wait for its next attempt, or ends it when none is left.
func (w *Worker) retry(j *job, class string, err error, took time.Duration) {
	t := j.task
	level := w.log.Warn
	if class == "panic" {
		level = w.log.Error
	}
	attrs := []any{"task", t.ID, "run", t.Run, "kind", t.Kind, "attempt", t.Attempt, "topic", t.Source.Topic,
		"partition", t.Source.Partition, "offset", t.Source.Offset, "duration", took, "outcome", class, "error", err}
	if p, ok := errors.AsType[*panicError](err); ok {
		attrs = append(attrs, "stack", p.stack)
	}
	level("attempt failed", attrs...)
	if t.Attempt >= w.limit(t) {
		reason := map[string]ax.Reason{"panic": ax.ReasonPanic, "timeout": ax.ReasonTimeout}[class]
		if reason == "" {
			reason = ax.ReasonFailed
		}
		w.dead(j, reason, err, t.Attempt, took)
		return
	}
	wait := j.kind.conf.Backoff.Wait(t.Attempt)
	if after, ok := errors.AsType[*ax.RetryAfterError](err); ok {
		wait = after.Delay
	}
	w.ended(j, class, took)
	next := *t
	next.Attempt++
	w.later(j, &next, wait)
}

// deferral lets the task wait without spending an attempt.
func (w *Worker) deferral(j *job, why string, wait time.Duration) {
	w.ended(j, why, -1)
	next := *j.task
	next.Deferrals++
	w.later(j, &next, wait)
}

// later sends the task on its way so that it is due after wait. In a lane that
// keeps order it waits in place instead, and holds up its key.
func (w *Worker) later(j *job, next *ax.Task, wait time.Duration) {
	now := clock.Now()
	next.Due = now.Add(min(wait, w.domain.Delay.Horizon))
	if j.lane.conf.Order == ax.OrderKey && j.keyed {
		j.task = next
		w.wait(j, next.Due)
		return
	}
	w.publish(j, next, w.router.Next(next, now, now))
}

// wait holds the job in place.
func (w *Worker) wait(j *job, until time.Time) {
	kafka.Detach(j.task)
	j.part.Abort()
	w.sched.again(j, until)
}

// publish writes what follows the job's record, and finishes that when it is
// acknowledged.
func (w *Worker) publish(j *job, next *ax.Task, topic string) {
	if !j.part.Owned() {
		w.forget(j)
		return
	}
	span := w.tel.Hop(context.Background(), next, w.router.Lane(next.Lane))
	r := ax.Encode(next)
	r.Topic = topic
	w.send(j, r, func(err error) {
		class := ""
		if err != nil {
			class = "refused"
		}
		telemetry.End(span, class)
	}, func(err error) {
		w.deadNow(j, ax.ReasonTooLarge, err, next.Attempt-1)
	})
}

// send publishes r and finishes the job's record when it is acknowledged.
// refused is called in the client's goroutine when r can't be written as it
// is.
func (w *Worker) send(j *job, r *kgo.Record, answered func(error), refused func(error)) {
	w.sched.settle(j.lane, 1)
	began := time.Now()
	done := func(_ *kgo.Record, err error) {
		w.sched.settle(j.lane, -1)
		if errors.Is(err, publish.ErrGivenUp) {
			answered(err)
			w.forget(j)
			return
		}
		w.tel.Sent(context.Background(), r.Topic, "", time.Since(began))
		answered(err)
		if err != nil {
			refused(err)
			return
		}
		j.part.Done(j.ticket)
		w.sched.free(j)
	}
	w.pub.SendWhile(j.part.Owned, r, done)
}

// forget ends the worker's part in a job whose partition is another's now,
// which runs the task again: a copy from here would be a second one.
func (w *Worker) forget(j *job) {
	j.part.Abort()
	w.sched.free(j)
}

// dead ends the task in the dead topic.
func (w *Worker) dead(j *job, reason ax.Reason, cause error, attempts int, took time.Duration) {
	t := j.task
	w.log.Error("task is dead", "task", t.ID, "run", t.Run, "kind", t.Kind, "attempt", t.Attempt, "topic", t.Source.Topic,
		"partition", t.Source.Partition, "offset", t.Source.Offset, "reason", string(reason), "error", cause)
	w.ended(j, "dead", took)
	if !j.part.Owned() {
		w.forget(j)
		return
	}
	w.deadNow(j, reason, cause, attempts)
}

func (w *Worker) deadNow(j *job, reason ax.Reason, cause error, attempts int) {
	t := j.task
	raw := ax.Encode(t)
	raw.Topic, raw.Partition, raw.Offset, raw.LeaderEpoch = t.Source.Topic, t.Source.Partition, t.Source.Offset, t.Source.Epoch
	r := ax.DeadRecord(raw, ax.Death{Reason: reason, Error: cause.Error(), At: clock.Now(), Attempt: attempts, TopicID: w.ids[t.Source.Topic]})
	r.Topic = w.router.Dead()
	refused := func(err error) {
		w.log.Error("a task can't even enter the dead topic; it stays unfinished", "task", t.ID, "kind", t.Kind, "error", err)
		j.part.Abort()
	}
	if reason != ax.ReasonTooLarge {
		w.send(j, r, func(error) {}, refused)
		return
	}
	// This runs in a done function, where the client must not be called.
	w.sched.settle(j.lane, 1)
	w.pub.QueueWhile(j.part.Owned, r, func(_ *kgo.Record, err error) {
		w.sched.settle(j.lane, -1)
		switch {
		case errors.Is(err, publish.ErrGivenUp):
			w.forget(j)
			return
		case err != nil:
			refused(err)
			return
		}
		j.part.Done(j.ticket)
		w.sched.free(j)
	})
}

// finish ends the task without anything that follows.
func (w *Worker) finish(j *job, outcome string, took time.Duration) {
	w.ended(j, outcome, took)
	j.part.Done(j.ticket)
	w.sched.free(j)
}

func (w *Worker) ended(j *job, outcome string, took time.Duration) {
	w.tel.Ended(context.Background(), j.lane.conf.Name, j.kind.name, outcome, took)
}

// finishing is what is left of a run that succeeded: the store has to hear of
// it before the record is finished.
type finishing struct {
	claim *claim
	took  time.Duration
}

// complete tells the store that the task is done. While the store fails, the
// job waits in place; its handler is not run again.
func (w *Worker) complete(j *job) {
	c := j.finishing.claim
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.part.Context()), storeTimeout)
	defer cancel()
	err := w.cfg.store.Complete(ctx, c.key, c.token, w.cfg.doneFor)
	switch {
	case err == nil:
		w.finish(j, "done", j.finishing.took)
	case errors.Is(err, idempotency.ErrLost):
		w.log.Warn("a task was done after its lease had ended; another run may have done it too", "task", c.key, "token", c.token)
		w.finish(j, "done_late", j.finishing.took)
	default:
		if w.loud.now("store") {
			w.log.Error("the store does not take a task as done; it is tried again", "task", c.key, "error", err)
		}
		w.wait(j, clock.Now().Add(storeWait))
	}
}

// releaseClaim gives a claim back so that the next attempt can start at once.
// Where that fails, the next attempt waits for the lease to end.
func (w *Worker) releaseClaim(c *claim) {
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if err := w.cfg.store.Release(ctx, c.key, c.token); err != nil && !errors.Is(err, idempotency.ErrLost) && w.loud.now("release") {
		w.log.Error("a claim was not released; the next attempt waits for its lease", "task", c.key, "error", fmt.Errorf("release: %w", err))
	}
}

// growing returns a wait that doubles with each deferral.
func growing(first time.Duration, n int, most time.Duration) time.Duration {
	d := first
	for range n {
		if d *= 2; d >= most {
			return most
		}
	}
	return d
}

// spread returns d to 1.5 d, so that tasks that wait for the same thing don't
// come back together.
func spread(d time.Duration) time.Duration { return d + rand.N(d/2+1) }
