package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/axtasks/ax"
)

// breaker stops a kind whose handler only fails. It is gobreaker's two-step
// breaker: Allow before the run, a report after it.
//
// While nothing fails it is not asked at all: a closed breaker without a
// failure to count lets everything through, and a success has nothing to
// clear. A nil breaker is always closed.
type breaker struct {
	cb       *gobreaker.TwoStepCircuitBreaker[struct{}]
	openFor  time.Duration
	troubled atomic.Bool // a failure was counted and no success since
	report   func(error) // first, made once
}

func newBreaker(kind string, failures int, openFor time.Duration, log *slog.Logger) *breaker {
	b := &breaker{
		openFor: openFor,
		cb: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Name: kind, MaxRequests: 1, Timeout: openFor,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= uint32(failures) },
			IsExcluded:  excluded,
			// It runs under the breaker's lock: it may log and nothing else.
			OnStateChange: func(name string, from, to gobreaker.State) {
				log.Warn("breaker", "kind", name, "from", from.String(), "to", to.String())
			},
		}),
	}
	b.report = b.first
	return b
}

func (b *breaker) open() bool {
	return b != nil && b.troubled.Load() && b.cb.State() == gobreaker.StateOpen
}

// state names the breaker's state; empty without one.
func (b *breaker) state() string {
	if b == nil {
		return ""
	}
	return b.cb.State().String()
}

// allow asks for the right to run, and returns what has to be told of the
// run's end.
func (b *breaker) allow() (report func(error), err error) {
	if b == nil {
		return func(error) {}, nil
	}
	if !b.troubled.Load() {
		return b.report, nil
	}
	done, err := b.cb.Allow()
	if err != nil {
		return nil, err
	}
	return func(err error) {
		done(err)
		if err == nil && b.cb.State() == gobreaker.StateClosed {
			b.troubled.Store(false)
		}
	}, nil
}

// first reports a run that began while nothing had failed.
func (b *breaker) first(err error) {
	if err == nil || excluded(err) {
		return
	}
	b.troubled.Store(true)
	if done, refused := b.cb.Allow(); refused == nil {
		done(err)
	}
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
