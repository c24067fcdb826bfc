package producer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/telemetry"
	"github.com/axtasks/ax/internal/uid"
)

// settleTime is how long a submit whose context has ended waits for the Kafka
// client to give the record up. If it does, nothing was sent; if it doesn't, a
// broker has the record and has not answered.
const settleTime = 250 * time.Millisecond

// Result is the answer to one task of [Client.SubmitMany].
type Result struct {
	Receipt ax.Receipt
	Err     error
}

// Submit writes the task and waits for the broker's acknowledgement, until ctx
// ends or, where ctx has no deadline, for the client's timeout. Its error is a
// *ax.TaskError; it matches ax.ErrInvalid where the task was refused,
// ax.ErrBusy or ax.ErrDropped where the buffer was full, ax.ErrUnreachable,
// ax.ErrAuth or ax.ErrTopicMissing where that is the reason, and
// ax.ErrUnknownOutcome where the task may have been written. After any other
// error nothing was written. The payload must not be changed before an answer,
// nor for as long as the outcome is unknown.
func (c *Client) Submit(ctx context.Context, task ax.Task, opts ...SubmitOption) (ax.Receipt, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	prepare(&task, opts)
	answer := make(chan Result, 1)
	c.submit(ctx, task, func(r ax.Receipt, err error) { answer <- Result{r, err} })
	r := c.await(ctx, &task, answer)
	return r.Receipt, r.Err
}

// SubmitJSON submits a task of that kind whose payload is v in JSON, as
// [Client.Submit] does; consumer.JSON makes the handler for it. A v that JSON
// can't hold is refused with ax.ErrInvalid.
func (c *Client) SubmitJSON(ctx context.Context, kind string, v any, opts ...SubmitOption) (ax.Receipt, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return ax.Receipt{}, &ax.TaskError{Op: "submit", Kind: kind, Field: "payload", Err: fmt.Errorf("%w: %w", ax.ErrInvalid, err)}
	}
	return c.Submit(ctx, ax.Task{Kind: kind, Payload: payload}, opts...)
}

// SubmitMany writes the tasks together and returns one result for each, in
// their order. They are independent: some may fail while others are written.
// It waits as [Client.Submit] does.
func (c *Client) SubmitMany(ctx context.Context, tasks []ax.Task) []Result {
	if len(tasks) == 0 {
		return nil
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	b := &batch{answers: make([]Result, len(tasks)), open: len(tasks), done: make(chan struct{})}
	own := slices.Clone(tasks)
	for i := range own {
		prepare(&own[i], nil)
		c.submit(ctx, own[i], func(r ax.Receipt, err error) { b.answer(i, Result{r, err}) })
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		late := time.NewTimer(settleTime)
		defer late.Stop()
		select {
		case <-b.done:
		case <-late.C:
		}
	}
	return b.close(func(i int) Result { return Result{Err: c.silent(ctx, &own[i])} })
}

// batch collects the answers to the tasks of one SubmitMany.
type batch struct {
	mu      sync.Mutex
	answers []Result
	open    int
	over    bool
	done    chan struct{} // closed with the last answer
}

func (b *batch) answer(i int, r Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return // it came too late
	}
	b.answers[i] = r
	if b.open--; b.open == 0 {
		close(b.done)
	}
}

// close returns the answers, with missing in the place of those that have not
// come.
func (b *batch) close(missing func(int) Result) []Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	for i := range b.answers {
		if a := &b.answers[i]; a.Err == nil && a.Receipt.ID == "" {
			*a = missing(i)
		}
	}
	return b.answers
}

// SubmitAsync writes the task and calls done exactly once with the answer that
// [Client.Submit] would give: in this goroutine where the task is refused, in
// the client's own otherwise. done must not block: all answers share that one
// goroutine. SubmitAsync itself waits only while the buffer is full and the
// policy is [Block], and with the first task for a broker to answer. The
// record's delivery is given up when ctx ends, or after the client's timeout
// where ctx has no deadline, unless a broker has it already: then done is
// called when the broker answers, and with ax.ErrUnknownOutcome if it never
// does before the client is closed.
func (c *Client) SubmitAsync(ctx context.Context, task ax.Task, done func(ax.Receipt, error), opts ...SubmitOption) {
	ctx, cancel := c.bound(ctx)
	prepare(&task, opts)
	c.submit(ctx, task, func(r ax.Receipt, err error) {
		cancel()
		done(r, err)
	})
}

func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.cfg.timeout)
}

// await returns the answer, or "outcome unknown" once ctx has ended and the
// Kafka client has not given the record up: it never gives up a record that a
// broker may hold, however long the broker is silent.
func (c *Client) await(ctx context.Context, task *ax.Task, answer <-chan Result) Result {
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
	}
	late := time.NewTimer(settleTime)
	defer late.Stop()
	select {
	case r := <-answer:
		return r
	case <-late.C:
	}
	select {
	case r := <-answer: // both were ready
		return r
	default:
		return Result{Err: c.silent(ctx, task)}
	}
}

// silent is the error of a task to which no answer came.
func (c *Client) silent(ctx context.Context, task *ax.Task) error {
	err := fmt.Errorf("%w: %w", ax.ErrUnknownOutcome, context.Cause(ctx))
	if last := c.watch.Err(); last != nil {
		err = fmt.Errorf("%w; last: %w", err, last)
	}
	return c.fail(task, err)
}

// prepare applies the options, and gives the task an id, so that each error
// can name it: after an unknown outcome, the caller submits again under it.
func prepare(task *ax.Task, opts []SubmitOption) {
	for _, o := range opts {
		o(task)
	}
	if task.ID == "" {
		task.ID = uid.New(clock.Now())
	}
}

// submit checks, routes, encodes and produces the task. done is called exactly
// once.
func (c *Client) submit(ctx context.Context, task ax.Task, done func(ax.Receipt, error)) {
	now := clock.Now()
	task.Attempt, task.Deferrals, task.Hop, task.Submitted = 1, 0, "", now
	if err := c.domain.Complete(&task, now); err != nil {
		c.tel.Rejected(ctx, "invalid")
		done(ax.Receipt{}, err)
		return
	}
	if c.closing.Load() {
		done(ax.Receipt{}, c.fail(&task, ax.ErrClosed))
		return
	}
	if err := c.ensureReached(ctx); err != nil {
		c.tel.Rejected(ctx, "unreachable")
		done(ax.Receipt{}, c.fail(&task, err))
		return
	}
	// After the wait for a first answer, the time has moved on.
	topic := c.router.Next(&task, now, clock.Now())
	ctx, span := c.tel.Send(ctx, &task, c.router.Lane(task.Lane))
	r := ax.Encode(&task)
	r.Topic = topic
	p := &pending{c: c, ctx: ctx, span: span, task: &task, began: time.Now(), done: done}
	if c.cfg.full.block {
		p.handed = true
		c.kafka.Produce(ctx, r, p.answer)
		return
	}
	if p.size = int64(len(r.Key) + len(r.Value)); !c.reserve(p.size) {
		p.full()
		return
	}
	p.reserved, p.handed = true, true
	c.kafka.TryProduce(ctx, r, p.answer)
}

// reserve takes room in the buffer, and reports false where it is full. A
// single task larger than the buffer is let through alone.
func (c *Client) reserve(size int64) bool {
	n, bytes := c.records.Add(1), c.bytes.Add(size)
	if n > int64(c.cfg.maxRecords) || bytes > int64(c.cfg.maxBytes) && bytes > size {
		c.release(size)
		return false
	}
	return true
}

func (c *Client) release(size int64) {
	c.records.Add(-1)
	c.bytes.Add(-size)
}

// pending is a task between submit and answer.
type pending struct {
	c     *Client
	ctx   context.Context
	span  trace.Span
	task  *ax.Task
	began time.Time
	done  func(ax.Receipt, error)

	size     int64
	reserved bool // of the client's buffer
	handed   bool // to the Kafka client
}

func (p *pending) answer(r *kgo.Record, err error) {
	if p.reserved {
		p.c.release(p.size)
	}
	switch {
	case errors.Is(err, kgo.ErrMaxBuffered):
		err = ax.ErrBusy
	case errors.Is(err, kgo.ErrClientClosed):
		// The client was closed before a broker answered, and doesn't say
		// whether one was asked.
		err = fmt.Errorf("%w: %w", ax.ErrUnknownOutcome, err)
	case p.c.domain.Durability == ax.Fast && p.ctx.Err() != nil && err != nil:
		// Without idempotence the Kafka client gives a record up that is on
		// its way to a broker.
		err = fmt.Errorf("%w: %w", ax.ErrUnknownOutcome, err)
	}
	p.finish(p.receipt(r), err)
}

// full applies the policy in the submitter's goroutine.
func (p *pending) full() {
	err := p.c.cfg.full.run(p.ctx, p.task)
	p.finish(p.receipt(&kgo.Record{}), err)
}

func (p *pending) receipt(r *kgo.Record) ax.Receipt {
	due := p.task.Due
	if due.IsZero() {
		due = p.task.Submitted
	}
	return ax.Receipt{ID: p.task.ID, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Due: due}
}

func (p *pending) finish(receipt ax.Receipt, err error) {
	class := ""
	if err != nil {
		err = p.c.watch.Explain(err)
		if receipt.Topic != "" {
			err = fmt.Errorf("topic %s: %w", receipt.Topic, err)
		}
		err, receipt = p.c.fail(p.task, err), ax.Receipt{}
		class = classOf(err)
		p.c.tel.Rejected(p.ctx, class)
	}
	if p.handed {
		p.c.tel.Sent(p.ctx, p.c.router.Lane(p.task.Lane), class, time.Since(p.began))
	}
	telemetry.End(p.span, class)
	p.done(receipt, err)
}

func (c *Client) fail(task *ax.Task, err error) error {
	return &ax.TaskError{Op: "submit", ID: task.ID, Kind: task.Kind, Err: err}
}

// classOf returns a low-cardinality name for an error.
func classOf(err error) string {
	for _, known := range []struct {
		err  error
		name string
	}{
		{ax.ErrBusy, "busy"}, {ax.ErrDropped, "dropped"}, {ax.ErrClosed, "closed"},
		{ax.ErrUnknownOutcome, "unknown_outcome"}, {ax.ErrAuth, "auth"}, {ax.ErrTopicMissing, "topic_missing"},
		{ax.ErrTooLarge, "too_large"}, {ax.ErrUnreachable, "unreachable"},
		{context.DeadlineExceeded, "deadline"}, {context.Canceled, "cancelled"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return "other"
}
