package dead

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
)

// Redrive is how deaths are driven again. The zero value is as fast as it
// goes, and as the tasks were.
type Redrive struct {
	// Rate is how many deaths are driven in a second at most; zero: no bound.
	Rate float64
	// IgnoreExpiry drives tasks that have expired, without their expiry.
	IgnoreExpiry bool
	// Payload replaces the tasks' payload if it is not nil.
	Payload []byte
}

// Why a death can't be driven again. A task that the domain refuses has a text
// of its own, that begins with [WhyRefused].
const (
	WhyMalformed = "malformed"
	WhyExpired   = "expired"
	WhyRefused   = "refused"
)

// Task returns the task that a death becomes when it is driven again, or why
// it can't be. It is due at once and its attempts begin anew; id, key, headers
// and trace context are what they were.
func (w *Writer) Task(e *Entry, how Redrive, now time.Time) (_ *ax.Task, why string) {
	if e.Task == nil {
		return nil, WhyMalformed
	}
	t := *e.Task
	t.Attempt, t.Deferrals, t.Due, t.Leave = 1, 0, time.Time{}, time.Time{}
	if how.Payload != nil {
		t.Payload = how.Payload
	}
	if !t.Expires.IsZero() && !now.Before(t.Expires) {
		if !how.IgnoreExpiry {
			return nil, WhyExpired
		}
		t.Expires = time.Time{}
	}
	if t.Lane == "" {
		// It is of the lane that it was read from, as in the worker.
		t.Lane, _ = w.router.LaneOf(e.sourceTopic())
	}
	check := t
	if _, known := w.domain.Lane(t.Lane); !known {
		check.Lane = "" // the router has a lane for it
	}
	check.Headers = nil
	for _, h := range t.Headers {
		// A newer version's headers travel along, where a producer's user
		// may not write them.
		if !strings.HasPrefix(h.Name, ax.HeaderPrefix) {
			check.Headers = append(check.Headers, h)
		}
	}
	if err := w.domain.Complete(&check, now); err != nil {
		return nil, refusal(err)
	}
	if t.Lane == "" {
		t.Lane = check.Lane
	}
	return &t, ""
}

// refusal is a text that many tasks share.
func refusal(err error) string {
	if e, ok := errors.AsType[*ax.TaskError](err); ok {
		return fmt.Sprintf("%s: %s: %v", WhyRefused, e.Field, e.Err)
	}
	return WhyRefused
}

// Redrive submits the tasks of the deaths that f chooses again, and says how
// many are done, also beside an error. It goes one by one: the task is written,
// and only when that is acknowledged the death's tombstone, and only then the
// next. So whatever ends it in between, one task at most is there twice, and
// the same call on a new scan goes on with what is left. What can't be driven
// is counted and left alone. It stops at the first write that fails, and after
// the death at hand when ctx ends. told, which may be nil, is called after each.
func (w *Writer) Redrive(ctx context.Context, s *Scan, f *Filter, how Redrive, told func(Result)) (Result, error) {
	p := pace{rate: how.Rate}
	return w.each(ctx, s, f, told, func(ctx context.Context, e *Entry) (string, error) {
		t, why := w.Task(e, how, clock.Now())
		if why != "" {
			return why, nil
		}
		if err := p.wait(ctx); err != nil {
			return "", err
		}
		if err := w.drive(ctx, e, t); err != nil {
			return "", fmt.Errorf("ax: redrive domain %s: death %s: %w", w.domain.Name, e.Death, err)
		}
		return "", nil
	})
}

func (w *Writer) drive(ctx context.Context, e *Entry, t *ax.Task) error {
	now := clock.Now()
	r := ax.Encode(t)
	r.Topic = w.router.Next(t, now, now)
	if err := w.write(ctx, w.tasks, r); err != nil {
		return fmt.Errorf("submit task %s to %s: %w", t.ID, r.Topic, err)
	}
	if err := w.bury(ctx, e); err != nil {
		return fmt.Errorf("task %s is in %s, and the next redrive submits it once more: %w", t.ID, r.Topic, err)
	}
	return nil
}

// pace spreads steps over time. One that comes late doesn't make the next ones
// hurry.
type pace struct {
	rate float64
	next time.Time
}

// wait waits until the next step may be made.
func (p *pace) wait(ctx context.Context) error {
	if p.rate <= 0 {
		return nil
	}
	now := time.Now()
	if ahead := p.next.Sub(now); ahead > 0 {
		tick := time.NewTimer(ahead)
		defer tick.Stop()
		select {
		case <-tick.C:
			now = p.next
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	p.next = now.Add(time.Duration(float64(time.Second) / p.rate))
	return nil
}
