package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/idempotency"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/offset"
	"github.com/axtasks/ax/internal/publish"
	"github.com/axtasks/ax/internal/telemetry"
)

// settlement is what a run has left to be settled.
type settlement struct {
	claim    *claim // nil without a store
	took     time.Duration
	children []ax.Task
	context  context.Context // of the run, for the traces of its children
}

// settle ends a run by what its handler returned.
func (w *Worker) settle(j *job, s *settlement, err error) {
	class, c, took := classOf(err), s.claim, s.took
	if class == "" {
		w.succeed(j, s)
		return
	}
	w.leases.forget(c)
	switch class {
	case "shutdown":
		if w.interrupted(j, s, err) {
			return
		}
		fallthrough
	case "partition_lost":
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

// interrupted settles a run that a stop has ended, and reports whether its
// kind wants that.
func (w *Worker) interrupted(j *job, s *settlement, err error) bool {
	t := j.task
	switch j.kind.conf.OnInterrupt {
	case ax.Dead:
		w.releaseClaim(s.claim)
		w.dead(j, ax.ReasonInterrupted, err, t.Attempt, s.took)
	case ax.Drop:
		w.releaseClaim(s.claim)
		w.log.Warn("a stop has ended the run of a task, and its kind's on_interrupt drops it", "task", t.ID, "kind", t.Kind, "run", t.Run, "attempt", t.Attempt)
		w.finish(j, "dropped", s.took)
	default:
		return false
	}
	return true
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
	if t.Attempt >= w.limit(t) || class == "timeout" && j.kind.conf.OnTimeout == ax.Dead {
		reason := map[string]ax.Reason{"panic": ax.ReasonPanic, "timeout": ax.ReasonTimeout, "deaf": ax.ReasonDeaf}[class]
		if reason == "" {
			reason = ax.ReasonFailed
		}
		w.dead(j, reason, err, t.Attempt, took)
		return
	}
	wait := j.kind.conf.Backoff.Wait(t.Attempt)
	if after, ok := errors.AsType[*ax.RetryAfterError](err); ok {
		wait = after.Delay
	} else if len(j.kind.conf.Backoff.Delays) == 0 {
		if more := j.kind.budget.retry(clock.Now()); more > 0 {
			wait += more
			if w.loud.now("budget " + t.Kind) {
				w.log.Warn("a kind's retries are past their budget, and wait for longer", "kind", t.Kind, "longer", more)
			}
		}
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
	if !j.keyed {
		w.publish(j, next, w.router.Next(next, now, now))
		return
	}
	if j.since.IsZero() {
		j.since = now
	}
	failed := next.Attempt > j.task.Attempt
	if held := next.Due.Sub(j.since); failed && held > maxHeld {
		w.deadNow(j, ax.ReasonFailed, fmt.Errorf("attempt %d failed, and the next one would hold up the key for %s, at most %s",
			j.task.Attempt, held.Round(time.Second), maxHeld), j.task.Attempt)
		return
	}
	j.task = next
	// What the record doesn't say must survive this process.
	j.noted = j.part.Note(j.ticket, offset.Note{Attempt: next.Attempt, Deferrals: next.Deferrals, Due: next.Due, Since: j.since})
	w.wait(j, next.Due)
}

// maxHeld is how long a task that fails may hold up its key.
const maxHeld = time.Hour

// wait holds the job in place.
func (w *Worker) wait(j *job, until time.Time) {
	j.detach()
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
	began := time.Now()
	w.write(j, r, func(err error) {
		answered(err)
		switch {
		case errors.Is(err, publish.ErrGivenUp):
			w.forget(j)
		case err != nil:
			refused(err)
		default:
			w.tel.Sent(context.Background(), r.Topic, "", time.Since(began))
			j.part.Done(j.ticket)
			w.sched.free(j)
		}
	})
}

// write publishes r for the job's sake.
func (w *Worker) write(j *job, r *kgo.Record, done func(error)) {
	w.sched.settle(j, 1)
	w.pub.Publish(publish.Item{Record: r, Source: j.part.Partition, Owned: j.part.Owned, Done: func(_ *kgo.Record, err error) {
		w.sched.settle(j, -1)
		done(err)
	}})
}

// forget ends the worker's part in a job whose partition is another's now,
// which runs the task again: a copy from here would be a second one.
func (w *Worker) forget(j *job) {
	j.part.Abort()
	w.sched.leave(j)
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
	r := ax.DeadRecord(raw, ax.Death{Reason: reason, Error: cause.Error(), At: clock.Now(), Attempt: attempts, TopicID: j.lane().topicID()})
	r.Topic = w.router.Dead()
	refused := func(err error) {
		w.log.Error("a task can't even enter the dead topic; it stays unfinished", "task", t.ID, "kind", t.Kind, "error", err)
		j.part.Unmark(j.ticket) // the others of its partition don't wait for it
		j.part.Abort()
	}
	w.send(j, r, func(error) {}, refused)
}

// finish ends the task without anything that follows.
func (w *Worker) finish(j *job, outcome string, took time.Duration) {
	w.ended(j, outcome, took)
	j.part.Done(j.ticket)
	w.sched.free(j)
}

func (w *Worker) ended(j *job, outcome string, took time.Duration) {
	w.tel.Ended(context.Background(), j.lane().conf.Name, j.kind.name, outcome, took)
}

// finishing is what is left of a run that succeeded: the store has to hear of
// it before the record is finished.
type finishing struct {
	claim *claim
	took  time.Duration
}

// succeed settles a run that returned nil: its follow-up tasks are written, the
// store is told, and then the record is finished.
func (w *Worker) succeed(j *job, s *settlement) {
	if s.claim != nil {
		j.finishing = &finishing{claim: s.claim, took: s.took}
	}
	switch {
	case len(s.children) > 0:
		w.followUp(j, s)
	case s.claim != nil:
		w.complete(j)
	default:
		w.finish(j, "done", s.took)
	}
}

// followUp writes the follow-up tasks of a run. The slot is free meanwhile.
func (w *Worker) followUp(j *job, s *settlement) {
	open, lost := atomic.Int64{}, atomic.Bool{}
	open.Store(int64(len(s.children)))
	answered := func(err error) {
		if err != nil {
			lost.Store(true)
		}
		switch {
		case open.Add(-1) > 0:
		case lost.Load():
			w.forget(j)
		case s.claim != nil:
			// The store is not asked in the client's goroutine, and also when
			// no slot takes anything more: the run must not be repeated.
			w.completing.Go(func() { w.complete(j) })
		default:
			w.finish(j, "done", s.took)
		}
	}
	now := clock.Now()
	for i := range s.children {
		child := &s.children[i]
		topic := w.router.Next(child, now, now)
		ctx, span := w.tel.Send(s.context, child, w.router.Lane(child.Lane))
		r := ax.Encode(child)
		r.Topic = topic
		w.write(j, r, func(err error) {
			class := ""
			if err != nil {
				class = "refused"
			} else {
				w.tel.Sent(ctx, topic, "", time.Since(now))
			}
			telemetry.End(span, class)
			if !errors.Is(err, publish.ErrNever) {
				answered(err)
				return
			}
			w.write(j, w.deadChild(j, child, err), answered)
		})
	}
}

// deadChild returns the dead record of a follow-up task that can't be written.
// It never was in a log: its death is named by its parent's record and its own
// id.
func (w *Worker) deadChild(j *job, child *ax.Task, cause error) *kgo.Record {
	from := j.task.Source
	w.log.Error("a follow-up task can't be written: it is dead", "task", child.ID, "kind", child.Kind, "parent", j.task.ID, "error", cause)
	raw := ax.Encode(child)
	raw.Topic, raw.Partition, raw.Offset, raw.LeaderEpoch = from.Topic, from.Partition, from.Offset, from.Epoch
	id := j.lane().topicID()
	r := ax.DeadRecord(raw, ax.Death{Reason: ax.ReasonTooLarge, Error: cause.Error(), At: clock.Now(), TopicID: id})
	r.Topic, r.Key = w.router.Dead(), []byte(ax.ChildID(ax.PositionID(from, id), child.ID))
	return r
}

// complete tells the store that the task is done. While the store fails, the
// job waits in place; its handler is not run again.
func (w *Worker) complete(j *job) {
	c := j.finishing.claim
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.part.Context()), storeTimeout)
	defer cancel()
	err := w.cfg.store.Complete(ctx, c.key, c.token, w.cfg.doneFor)
	if errors.Is(err, idempotency.ErrLost) {
		w.trouble.tell(nil)
	} else {
		w.trouble.tell(err)
	}
	switch {
	case err == nil:
		w.leases.forget(c)
		w.finish(j, "done", j.finishing.took)
	case errors.Is(err, idempotency.ErrLost):
		w.leases.forget(c)
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
