package ax

import (
	"context"
	"time"
)

// Task is one unit of work.
//
// The first group of fields is the submitter's. Only Kind is required; a zero
// field takes its default from the [Domain] when the task is submitted or run.
// The second group is set by ax on delivery and ignored by submit.
//
// A handler may read the Task that it receives until it returns. It must not
// change it, since a retry is made from it, nor keep Payload or Headers longer
// without a copy.
type Task struct {
	// ID names the task for deduplication and in logs: at most 200 bytes of
	// printable UTF-8 without spaces. Empty: the producer gives it a UUID
	// version 7, and a bare record of another client gets one that derives
	// from its position in the log.
	ID string
	// Kind selects the handler: at most 100 bytes of printable UTF-8 without
	// spaces, such as "order.close".
	Kind string
	// Payload is the user's bytes; ax never reads, changes or logs them.
	Payload []byte
	// Lane is the priority topic. Empty: the kind's lane, else the domain's
	// default lane.
	Lane string
	// Key chooses the partition, and the order in a lane that keeps order by
	// key. It may hold any bytes, at most 1,024. Empty: any partition.
	Key string
	// Due is the instant before which no handler starts. Zero: at once.
	Due time.Time
	// Expires is the instant from which the task is no longer worth a start.
	// Zero: the kind's, else never.
	Expires time.Time
	// Timeout bounds one run of the handler. Zero: the kind's.
	Timeout time.Duration
	// MaxAttempts is the number of starts that may fail. Zero: the kind's.
	MaxAttempts int
	// Headers are the user's own; they travel along unchanged over delays
	// and retries. Names that begin with "ax-" are refused.
	Headers []Header

	// Attempt counts the starts of this task, this one included, that may end
	// in failure. It is 1 at the first start.
	Attempt int
	// Limit is how many starts may end in failure, by MaxAttempts or the kind:
	// this one is the last if Attempt has reached it.
	Limit int
	// Deferrals counts the waits that cost no attempt: a breaker that was
	// open, a snooze, an unknown kind, a held lease.
	Deferrals int
	// Submitted is when the task was first submitted. Zero if unknown.
	Submitted time.Time
	// Leave is the nominal instant at which the record may leave its tier;
	// zero outside the tiers. Package router computes it.
	Leave time.Time
	// Hop is the W3C traceparent of the last hop that wrote the record.
	Hop string
	// Source is where the record was read.
	Source Source
	// Run is the id of this start of the handler; repeats of an attempt have
	// different ones.
	Run string
	// Token rises with each claim of the task in a store (package
	// idempotency); zero without one. Hand it to systems that can refuse a
	// writer with an older token.
	Token int64
}

// Header is one name and value that travels with a task.
type Header struct {
	Name  string
	Value []byte
}

// Source is the position of a record in the log.
type Source struct {
	Topic     string
	Partition int32
	Offset    int64
	// Epoch is the leader epoch under which the record was written, -1 if
	// unknown. After an unclean election an offset can be used again, by a
	// record with a newer epoch.
	Epoch int32
}

// Receipt says where a submitted task was written. It is proof that Kafka
// holds the task as durably as the domain asks.
type Receipt struct {
	ID        string
	Topic     string
	Partition int32
	Offset    int64
	// Due is when the task may start; for a task due at once, the time of its
	// submit.
	Due time.Time
}

type taskKey struct{}

// NewContext returns a context that carries t. The worker calls it for each
// run; tests of handlers may too.
func NewContext(ctx context.Context, t *Task) context.Context {
	return context.WithValue(ctx, taskKey{}, t)
}

// FromContext returns the task that is being run, and false outside a handler.
func FromContext(ctx context.Context) (*Task, bool) {
	t, ok := ctx.Value(taskKey{}).(*Task)
	return t, ok
}
