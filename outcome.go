package ax

import (
	"errors"
	"fmt"
	"time"
)

// PermanentError is an outcome: the task can't succeed and ends in the dead
// topic at once. Make one with [Permanent].
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return fmt.Sprintf("permanent: %v", e.Err) }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent returns an error that ends the task in the dead topic whatever
// attempts it has left. A nil err gives nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{Err: err}
}

// RetryAfterError is an outcome: the attempt failed, and the next one starts
// exactly Delay later. Make one with [RetryAfter].
type RetryAfterError struct {
	Delay time.Duration
	Err   error
}

func (e *RetryAfterError) Error() string {
	return fmt.Sprintf("retry after %s: %v", e.Delay, e.Err)
}
func (e *RetryAfterError) Unwrap() error { return e.Err }

// RetryAfter returns an error that counts an attempt and asks for exactly d
// until the next one, instead of the kind's back-off. A negative d counts as
// zero; a nil err gives nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &RetryAfterError{Delay: max(d, 0), Err: err}
}

// SnoozeError is an outcome: the task waits without spending an attempt. Make
// one with [Snooze].
type SnoozeError struct{ Delay time.Duration }

func (e *SnoozeError) Error() string { return fmt.Sprintf("snoozed for %s", e.Delay) }

// Snooze returns an error that lets the task wait for d without spending an
// attempt. A negative d counts as zero.
func Snooze(d time.Duration) error { return &SnoozeError{Delay: max(d, 0)} }

// CancelError is an outcome: the task is over without having succeeded, and
// nobody wants it in the dead topic. Make one with [Cancel].
type CancelError struct{ Reason string }

func (e *CancelError) Error() string { return "cancelled: " + e.Reason }

// Cancel returns an error that ends the task as cancelled.
func Cancel(reason string) error { return &CancelError{Reason: reason} }

// The causes with which the context of a run is cancelled; read them with
// [context.Cause].
var (
	// ErrTimeout: the run took longer than the task's timeout.
	ErrTimeout = errors.New("ax: the task's timeout has passed")
	// ErrShutdown: the worker is stopping and its grace has passed. The task
	// comes back without having spent an attempt.
	ErrShutdown = errors.New("ax: the worker is shutting down")
	// ErrPartitionLost: another worker owns the task's partition now and will
	// run the task again.
	ErrPartitionLost = errors.New("ax: the task's partition was lost")
	// ErrLeaseLost: the store gave the task to another run, or could not
	// renew the lease in time.
	ErrLeaseLost = errors.New("ax: the lease of the task was lost")
)
