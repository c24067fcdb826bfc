package ax

import (
	"errors"
	"fmt"
	"strings"

	"github.com/axtasks/ax/internal/text"
)

// What callers branch on, with [errors.Is].
var (
	// ErrInvalid is the class of all refusals of a task before anything is
	// sent; each comes as a [*TaskError] that also matches a closer sentinel.
	ErrInvalid = errors.New("invalid task")
	// ErrUnknownLane: the domain has no such lane.
	ErrUnknownLane = errors.New("unknown lane")
	// ErrHorizon: the task is due later than the domain's horizon.
	ErrHorizon = errors.New("due past the horizon")
	// ErrTooLarge: the payload is above the domain's limit.
	ErrTooLarge = errors.New("payload too large")
	// ErrHeader: a header is reserved, repeated, malformed or too long.
	ErrHeader = errors.New("header refused")
	// ErrExpired: the task would expire before it is due.
	ErrExpired = errors.New("expires before it is due")

	// ErrBusy: the producer's buffer is full; nothing was sent.
	ErrBusy = errors.New("producer buffer is full")
	// ErrDropped: the buffer was full and the producer's policy is to drop;
	// nothing was sent.
	ErrDropped = errors.New("dropped, the producer buffer is full")
	// ErrUnknownOutcome: the wait ended after the task was handed to a broker
	// and before the broker answered. It may be in the log or not; submit
	// again under the same ID.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrClosed: the client, worker or mover was closed; nothing was sent.
	ErrClosed = errors.New("closed")

	// ErrUnreachable: no broker answered.
	ErrUnreachable = errors.New("no broker reachable")
	// ErrAuth: a broker refused the credentials, or the user may not do this.
	ErrAuth = errors.New("refused by the broker's security")
	// ErrTopicMissing: a topic of the domain does not exist. Provision it
	// with "ax topics apply".
	ErrTopicMissing = errors.New("topic does not exist")

	// ErrNotRunning: the worker or mover has not begun to run, or is stopping.
	ErrNotRunning = errors.New("not running")
	// ErrNotJoined: some group has not given the worker or mover its
	// partitions yet.
	ErrNotJoined = errors.New("not all groups are joined")
	// ErrStalled: something that should move has not moved for 30 s. The
	// error's text says what and why.
	ErrStalled = errors.New("something stands still")

	// ErrMalformed is the class of all records that [Decode] can't read; each
	// comes as a [*RecordError].
	ErrMalformed = errors.New("malformed record")
)

// TaskError says why a task was refused, or why its submit failed.
type TaskError struct {
	Op    string // "submit"
	ID    string // may be empty
	Kind  string
	Field string // the task's field at fault, if one is
	Value string // its offending value, shortened
	Err   error
}

func (e *TaskError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ax: %s %q", e.Op, text.Clip(e.Kind, 64))
	if e.ID != "" {
		fmt.Fprintf(&b, " (id %q)", text.Clip(e.ID, 64))
	}
	if e.Field != "" {
		fmt.Fprintf(&b, ": %s %s", e.Field, e.Value)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

func (e *TaskError) Unwrap() error { return e.Err }

// RecordError says why a record of the log is not a task. It matches
// [ErrMalformed].
type RecordError struct {
	Source Source
	Header string // the header at fault
	Value  string // its offending value, shortened
	Reason string
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("ax: record %s/%d@%d: header %s %q: %s", e.Source.Topic, e.Source.Partition, e.Source.Offset,
		e.Header, e.Value, e.Reason)
}

// Is reports whether target is [ErrMalformed].
func (e *RecordError) Is(target error) bool { return target == ErrMalformed }

// FieldError says what is wrong with one field of a [Domain].
type FieldError struct {
	Path   string // such as "lanes[2].weight"
	Value  string // the offending value
	Reason string
}

func (e *FieldError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: %s", e.Path, e.Reason)
	}
	return fmt.Sprintf("%s: %s: %s", e.Path, e.Value, e.Reason)
}
