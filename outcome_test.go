package ax_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
)

func TestOutcomesAreFoundThroughWrapping(t *testing.T) {
	t.Parallel()
	cause := errors.New("card declined")
	wrap := func(err error) error { return errors.Join(errors.New("also"), &ax.TaskError{Op: "run", Err: err}) }

	p, ok := errors.AsType[*ax.PermanentError](wrap(ax.Permanent(cause)))
	require.True(t, ok)
	require.Equal(t, "permanent: card declined", p.Error())
	require.ErrorIs(t, wrap(ax.Permanent(cause)), cause)

	r, ok := errors.AsType[*ax.RetryAfterError](wrap(ax.RetryAfter(time.Minute, cause)))
	require.True(t, ok)
	require.Equal(t, time.Minute, r.Delay)
	require.Equal(t, "retry after 1m0s: card declined", r.Error())
	require.ErrorIs(t, wrap(ax.RetryAfter(time.Minute, cause)), cause)

	s, ok := errors.AsType[*ax.SnoozeError](wrap(ax.Snooze(time.Hour)))
	require.True(t, ok)
	require.Equal(t, time.Hour, s.Delay)
	require.Equal(t, "snoozed for 1h0m0s", s.Error())

	c, ok := errors.AsType[*ax.CancelError](wrap(ax.Cancel("superseded")))
	require.True(t, ok)
	require.Equal(t, "cancelled: superseded", c.Error())
}

// return ax.Permanent(f()) must not turn a success into a death.
func TestOutcomesOfNilAreNil(t *testing.T) {
	t.Parallel()
	require.NoError(t, ax.Permanent(nil))
	require.NoError(t, ax.RetryAfter(time.Minute, nil))
	require.NotPanics(t, func() {
		_ = (&ax.PermanentError{}).Error()
		_ = (&ax.RetryAfterError{}).Error()
	})
}

func TestOutcomesTakeANegativeDelayAsNone(t *testing.T) {
	t.Parallel()
	r, _ := errors.AsType[*ax.RetryAfterError](ax.RetryAfter(-1, errors.New("x")))
	require.Zero(t, r.Delay)
	s, _ := errors.AsType[*ax.SnoozeError](ax.Snooze(-1))
	require.Zero(t, s.Delay)
}
