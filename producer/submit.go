package producer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/axtasks/ax"
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
	r := c.SubmitMany(ctx, []ax.Task{with(task, opts)})[0]
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
	b := newBatch(len(tasks))
	b.done = make(chan struct{})
	c.submit(ctx, tasks, b)
	return c.await(ctx, tasks, b)
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
	b := newBatch(1)
	b.then = done
	ctx, b.cancel = c.bound(ctx)
	c.submit(ctx, []ax.Task{with(task, opts)}, b)
}

// with returns the task with the options applied.
func with(task ax.Task, opts []SubmitOption) ax.Task {
	if len(opts) == 0 {
		return task
	}
	own := task // what an option is given is on the heap
	for _, o := range opts {
		o(&own)
	}
	return own
}

// bound returns a context that ends.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.cfg.timeout)
}

// await returns the answers once all have come or ctx has ended, with "outcome
// unknown" for each task that the Kafka client has not given up by then: it
// never gives up a record that a broker may hold, however long the broker is
// silent.
func (c *Client) await(ctx context.Context, tasks []ax.Task, b *batch) []Result {
	select {
	case <-b.done:
		return b.all()
	case <-ctx.Done():
	}
	late := time.NewTimer(settleTime)
	defer late.Stop()
	select {
	case <-b.done:
		return b.all()
	case <-late.C:
	}
	return b.sofar(func(i int, id string) error { return c.silent(ctx, id, tasks[i].Kind) })
}

// silent is the error of a task to which no answer came.
func (c *Client) silent(ctx context.Context, id, kind string) error {
	err := fmt.Errorf("%w: %w", ax.ErrUnknownOutcome, context.Cause(ctx))
	if last := c.watch.Err(); last != nil {
		err = fmt.Errorf("%w; last: %w", err, last)
	}
	return fail(id, kind, err)
}
