package consumer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
)

// runContext is the context of one run. It ends with the task's timeout, when
// the partition is lost, when the worker's grace is over, and when the lease is
// lost.
//
// Most handlers of short tasks never look at their context. So it becomes one
// of package context's own, with a timer and a place among its parent's
// children, only when somebody asks it for more than its deadline.
type runContext struct {
	parent   context.Context
	began    time.Time
	timeout  time.Duration
	follow   followUps
	deadline time.Time

	// Either the slot that has called the handler settles the run, or who gives
	// it up: the one that sets settled first.
	settled   atomic.Bool
	claim     *claim // nil without a store
	report    func(error)
	deafSince time.Time // when it was seen to be over; the scheduler's lock guards it

	mu     sync.Mutex
	inner  context.Context // nil until it is asked for
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
	ended  error // why the run is over, where that was before inner was asked for
}

func newRunContext(parent context.Context, began time.Time, timeout time.Duration) *runContext {
	return &runContext{parent: parent, began: began, timeout: timeout, deadline: began.Add(timeout)}
}

// Deadline implements context.Context.
func (c *runContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *runContext) Done() <-chan struct{} { return c.std().Done() }

// Err implements context.Context.
func (c *runContext) Err() error { return c.std().Err() }

// Value implements context.Context.
func (c *runContext) Value(key any) any {
	if _, ok := key.(followKey); ok {
		return &c.follow
	}
	// context.Cause and context.WithCancel find what they need in this way.
	return c.std().Value(key)
}

// std returns the context of package context.
func (c *runContext) std() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		var within context.Context
		within, c.stop = context.WithTimeoutCause(c.parent, c.timeout-clock.Now().Sub(c.began), ax.ErrTimeout)
		c.inner, c.cancel = context.WithCancelCause(within)
		if c.ended != nil {
			c.cancel(c.ended)
			c.stop()
		}
	}
	return c.inner
}

// over reports whether the context has ended by now.
func (c *runContext) over(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended != nil || now.Sub(c.began) >= c.timeout || c.parent.Err() != nil
}

// cause returns what has ended the context.
func (c *runContext) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.inner != nil && c.inner.Err() != nil:
		return context.Cause(c.inner)
	case c.ended != nil:
		return c.ended
	case c.parent.Err() != nil:
		return context.Cause(c.parent)
	}
	return ax.ErrTimeout
}

// end cancels the context with a cause, unless it has ended.
func (c *runContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = cause
	}
	if c.inner != nil {
		c.cancel(cause)
	}
}

// close ends the context when the handler has returned, at now, and returns
// what had ended it before that, or nil.
func (c *runContext) close(now time.Time) (cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner != nil {
		cause = context.Cause(c.inner)
		c.cancel(context.Canceled)
		c.stop()
		return cause
	}
	switch {
	case c.ended != nil:
		return c.ended
	case c.parent.Err() != nil:
		cause = context.Cause(c.parent)
	case now.Sub(c.began) >= c.timeout:
		cause = ax.ErrTimeout
	}
	c.ended = context.Canceled
	return cause
}
