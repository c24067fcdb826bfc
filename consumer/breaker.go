package consumer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/axtasks/ax"
)

// breaker stops a kind whose handler only fails. It is gobreaker's two-step
// breaker: Allow before the run, a report after it.
type breaker struct {
	cb      *gobreaker.TwoStepCircuitBreaker[struct{}]
	openFor time.Duration
}

func newBreaker(kind string, failures int, openFor time.Duration, log *slog.Logger) *breaker {
	return &breaker{
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
}

func (b *breaker) open() bool { return b.cb.State() == gobreaker.StateOpen }

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
