package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/idempotency"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/sabotage"
	"github.com/axtasks/ax/internal/telemetry"
	"github.com/axtasks/ax/internal/text"
	"github.com/axtasks/ax/internal/uid"
)

// work runs one task after the other until the worker stops.
func (w *Worker) work(sl *slot) {
	for j := w.sched.next(sl); j != nil; j = w.sched.next(sl) {
		w.process(j)
	}
}

// process takes one task through the pipeline. Work on its partition was
// started, and every path from here ends it exactly once.
func (w *Worker) process(j *job) {
	// The clock was read when the job was picked, a moment ago: a task can
	// only seem less due than it is.
	t, now := j.task, j.picked
	// The one place on which "never early" rests.
	if now.Before(t.Due) && !sabotage.StartEarly {
		w.wait(j, t.Due)
		return
	}
	if j.noted > 0 && !j.part.Noted(j.noted) {
		w.wait(j, now.Add(w.cfg.commitEvery)) // a crash would forget what it has behind it
		return
	}
	switch {
	case j.finishing != nil:
		w.complete(j)
	case j.verdict == group.Guilty:
		w.crashed(j)
	case j.verdict == group.Probe:
		w.probe(j)
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		w.log.Info("task expired", "task", t.ID, "kind", t.Kind, "expired", t.Expires)
		w.finish(j, "expired", -1)
	case t.Attempt > w.limit(t):
		w.dead(j, ax.ReasonFailed, fmt.Errorf("attempt %d is above the limit of %d", t.Attempt, w.limit(t)), t.Attempt-1, -1)
	case j.kind.handler == nil:
		if w.loud.now("kind " + t.Kind) {
			w.log.Error("no handler for a kind: its tasks wait", "kind", t.Kind, "lane", t.Lane, "task", t.ID)
		}
		w.deferral(j, "unknown", growing(unknownWait, t.Deferrals, time.Minute))
	case j.kind.breaker.open():
		w.deferral(j, "breaker_open", spread(j.kind.breaker.openFor))
	default:
		w.claim(j)
	}
}

const unknownWait = 5 * time.Second

func (w *Worker) limit(t *ax.Task) int {
	if t.MaxAttempts > 0 {
		return t.MaxAttempts
	}
	return w.kind(t.Kind).conf.Attempts
}

// claim asks the store, where there is one, and runs the task if it may.
func (w *Worker) claim(j *job) {
	if w.leases == nil {
		w.attempt(j, nil)
		return
	}
	t := j.task
	ctx, cancel := context.WithTimeout(j.part.Context(), storeTimeout)
	got, err := w.cfg.store.Claim(ctx, t.ID, w.cfg.lease)
	cancel()
	w.trouble.tell(err)
	switch {
	case err != nil:
		if w.loud.now("store") {
			w.log.Error("the store does not answer: nothing is started", "task", t.ID, "kind", t.Kind, "error", err)
		}
		w.wait(j, clock.Now().Add(storeWait))
	case got.State == idempotency.Done:
		w.finish(j, "duplicate", -1)
	case got.State == idempotency.Held:
		w.deferral(j, "held", max(got.Until.Sub(clock.Now()), heldWait))
	default:
		t.Token = got.Token
		w.attempt(j, &claim{key: t.ID, token: got.Token, part: j.part})
	}
}

const (
	storeWait = time.Second // before a store that failed is asked again
	heldWait  = time.Second // the least wait for a lease that another run holds
)

// attempt runs the handler and settles what it returns. c is nil without a
// store.
func (w *Worker) attempt(j *job, c *claim) {
	report, err := j.kind.breaker.allow()
	if err != nil {
		w.releaseClaim(c)
		w.deferral(j, "breaker_open", spread(j.kind.breaker.openFor))
		return
	}
	if j.verdict == group.Alone && !w.mark(j, c) {
		report(ax.ErrShutdown) // every answer of allow needs one
		return
	}
	if j.run.Expected() > detachRuns {
		j.detach()
	}
	t, began := j.task, j.picked
	if w.leases != nil || j.verdict != group.Free {
		began = clock.Now() // claim and mark took time
	}
	t.Run, t.Limit = uid.New(began), w.limit(t)
	timeout := t.Timeout
	if timeout == 0 {
		timeout = j.kind.conf.Timeout
	}
	ctx := newRunContext(j.part.Context(), began, timeout)
	ctx.follow.domain, ctx.follow.parent = &w.domain, t.ID
	if c != nil {
		c.cancel = ctx.end
		w.leases.keep(c)
	}
	w.started(j, began)
	spanned, span := w.tel.Process(ctx, t, j.lane().group)
	ctx.claim, ctx.report = c, report
	j.active.Store(ctx)
	err = call(j.kind.handler, ax.NewContext(spanned, t), t)
	ended := clock.Now()
	took := ended.Sub(began)
	if !ctx.settled.CompareAndSwap(false, true) {
		// It was given up. What it returns so late changes nothing.
		w.log.Warn("a handler that was given up has returned", "task", t.ID, "run", t.Run, "kind", t.Kind, "duration", took, "error", err)
		ctx.close(ended)
		ctx.follow.close()
		telemetry.End(span, "deaf")
		return
	}
	j.active.Store(nil)
	if c == nil {
		j.ended = ended // what is left to do takes next to no time
	}
	cause := ctx.close(ended)
	children := ctx.follow.close()
	if j.verdict == group.Alone {
		j.part.Unmark(j.ticket)
	}
	if err != nil && cause != nil {
		// What ended the run is told from the context, since a handler may
		// return anything once its own calls fail.
		err = &interrupted{cause: cause, err: err}
	}
	report(err)
	if err == nil {
		j.kind.budget.success()
	}
	telemetry.End(span, classOf(err))
	if err == nil && c == nil && len(children) == 0 {
		w.finish(j, "done", took)
		return
	}
	w.settle(j, &settlement{claim: c, took: took, children: children, context: spanned}, err)
}

// detachRuns is from what run time on a task is copied out of its fetch before
// it starts.
const detachRuns = 100 * time.Millisecond

func (w *Worker) started(j *job, now time.Time) {
	late := time.Duration(-1)
	if !j.task.Due.IsZero() {
		late = now.Sub(j.task.Due)
	}
	w.tel.Started(context.Background(), j.lane().conf.Name, j.kind.name, now.Sub(j.ready), late)
}

// call runs the handler and turns a panic into an error.
func call(h Handler, ctx context.Context, t *ax.Task) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: text.Clip(string(debug.Stack()), 4096)}
		}
	}()
	return h.HandleTask(ctx, t)
}

// panicError is a panic of a handler.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// interrupted is an error of a handler whose context had ended.
type interrupted struct{ cause, err error }

func (e *interrupted) Error() string   { return fmt.Sprintf("%v: %v", e.cause, e.err) }
func (e *interrupted) Unwrap() []error { return []error{e.cause, e.err} }

// classOf returns a low-cardinality name for what a handler returned.
func classOf(err error) string {
	var (
		permanent *ax.PermanentError
		snooze    *ax.SnoozeError
		cancel    *ax.CancelError
		panicked  *panicError
	)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ax.ErrPartitionLost):
		return "partition_lost"
	case errors.Is(err, ax.ErrLeaseLost):
		return "lease_lost"
	case errors.Is(err, ax.ErrShutdown):
		return "shutdown"
	case errors.As(err, &snooze):
		return "snoozed"
	case errors.As(err, &cancel):
		return "cancelled"
	case errors.As(err, &permanent):
		return "permanent"
	case errors.As(err, &panicked):
		return "panic"
	case errors.Is(err, ax.ErrTimeout):
		return "timeout"
	}
	return "failed"
}
