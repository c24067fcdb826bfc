package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/text"
)

// breaker stops a kind whose handler only fails. It is gobreaker's two-step
// breaker: Allow before the run, a report after it.
//
// While nothing fails it is not asked at all: a closed breaker without a
// failure to count lets everything through, and a success has nothing to
// clear. An operator may hold it open or closed; it goes on counting meanwhile. A nil
// breaker is always closed.
type breaker struct {
	cb       *gobreaker.TwoStepCircuitBreaker[struct{}] // nil: it opens by hand alone
	openFor  time.Duration
	troubled atomic.Bool // a failure was counted and no success since
	report   func(error) // first, made once
	held     atomic.Pointer[Hold]
	last     atomic.Pointer[string] // the last failure that was counted
}

func newBreaker(kind string, failures int, openFor time.Duration, log *slog.Logger) *breaker {
	b := &breaker{openFor: openFor}
	b.report = b.first
	if failures == 0 {
		return b
	}
	b.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: kind, MaxRequests: 1, Timeout: openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= uint32(failures) },
		IsExcluded:  excluded,
		// It runs under the breaker's lock: it may log and nothing else.
		OnStateChange: func(name string, from, to gobreaker.State) {
			log.Warn("breaker", "kind", name, "from", from.String(), "to", to.String())
		},
	})
	return b
}

// hold lets an operator have his way; Auto lets the breaker have its own.
func (b *breaker) hold(h Hold) { b.held.Store(&h) }

func (b *breaker) isHeld(h Hold) bool {
	held := b.held.Load()
	return held != nil && *held == h
}

func (b *breaker) open() bool {
	switch {
	case b == nil || b.isHeld(HoldClosed):
		return false
	case b.isHeld(HoldOpen):
		return true
	}
	return b.cb != nil && b.troubled.Load() && b.cb.State() == gobreaker.StateOpen
}

// state says how it stands: its name, failures in a row, and the last of them.
func (b *breaker) state() (name string, failures int, last string) {
	if b == nil {
		return "", 0, ""
	}
	if b.cb != nil {
		name, failures = b.cb.State().String(), int(b.cb.Counts().ConsecutiveFailures)
	}
	if text := b.last.Load(); text != nil {
		last = *text
	}
	switch {
	case b.isHeld(HoldOpen):
		name = "held open"
	case b.isHeld(HoldClosed):
		name = "held closed"
	}
	return name, failures, last
}

var errHeldOpen = errors.New("the breaker is held open")

// allow asks for the right to run, and returns what has to be told of the
// run's end.
func (b *breaker) allow() (report func(error), err error) {
	switch {
	case b == nil || b.cb == nil && !b.isHeld(HoldOpen):
		return func(error) {}, nil
	case b.isHeld(HoldOpen):
		return nil, errHeldOpen
	case b.isHeld(HoldClosed) || !b.troubled.Load():
		return b.report, nil
	}
	done, err := b.cb.Allow()
	if err != nil {
		return nil, err
	}
	return func(err error) {
		b.note(err)
		done(err)
		if err == nil && b.cb.State() == gobreaker.StateClosed {
			b.troubled.Store(false)
		}
	}, nil
}

// first reports a run that asked nobody: nothing had failed, or the breaker is
// held closed.
func (b *breaker) first(err error) {
	if excluded(err) || err == nil && !b.troubled.Load() {
		return
	}
	b.note(err)
	if err != nil {
		b.troubled.Store(true)
	}
	if done, refused := b.cb.Allow(); refused == nil {
		done(err)
		if err == nil && b.cb.State() == gobreaker.StateClosed {
			b.troubled.Store(false)
		}
	}
}

// note keeps the text of a failure that counts.
func (b *breaker) note(err error) {
	if err == nil || excluded(err) {
		return
	}
	text := text.Clip(err.Error(), 200)
	b.last.Store(&text)
}

// excluded reports whether the outcome says nothing of the health of what the
// handler depends on.
func excluded(err error) bool {
	if err == nil {
		return false
	}
	var (
		permanent *ax.PermanentError
		snooze    *ax.SnoozeError
		cancel    *ax.CancelError
	)
	return errors.As(err, &permanent) || errors.As(err, &snooze) || errors.As(err, &cancel) ||
		errors.Is(err, ax.ErrShutdown) || errors.Is(err, ax.ErrPartitionLost) || errors.Is(err, ax.ErrLeaseLost) ||
		errors.Is(err, context.Canceled)
}
