package consumer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
)

// Bounds of what one run may submit with [FollowUp].
const (
	MaxFollowUps     = 1000
	MaxFollowUpBytes = 16 << 20
)

var (
	// ErrNoRun: the context is not that of a run, or the run is over.
	ErrNoRun = errors.New("not within a run")
	// ErrTooManyFollowUps: a run has submitted more than [MaxFollowUps] tasks,
	// or [MaxFollowUpBytes].
	ErrTooManyFollowUps = errors.New("too many follow-up tasks")
)

type followKey struct{}

// FollowUp submits a task that follows from the one that is being run. It
// belongs to the run's settlement: it is written only if the handler returns
// nil, and the task that is being run is not finished before the broker has
// acknowledged all of its follow-ups. A process that dies in between runs the
// handler again, and that makes the same follow-ups under the same ids, so that
// with a store none is worked twice.
//
// ctx is what the handler was given, or derived from it. A task without an ID
// gets one that follows from the parent's id, kind, lane, key, payload and how
// many alike were submitted before it. Where a payload differs from one repeat
// to the next, such as by a time in it, give the task an ID of its own that
// doesn't: ax.ChildID makes one from a name. A task without a Due starts at
// once.
//
// FollowUp doesn't block. Its error is an *ax.TaskError, as of
// producer.Client.Submit; besides the sentinels there it matches [ErrNoRun] or
// [ErrTooManyFollowUps]. It is safe for concurrent use.
func FollowUp(ctx context.Context, task ax.Task) error {
	f, _ := ctx.Value(followKey{}).(*followUps)
	if f == nil {
		return &ax.TaskError{Op: "follow up", ID: task.ID, Kind: task.Kind, Err: ErrNoRun}
	}
	return f.add(task)
}

// FollowUpsOf returns a context like that of a run, and a function that returns
// what was submitted with it so far: for tests of handlers. parent is the task
// that would be run; d gives the defaults and limits.
func FollowUpsOf(ctx context.Context, d ax.Domain, parent *ax.Task) (context.Context, func() []ax.Task) {
	d = d.WithDefaults()
	f := &followUps{domain: &d, parent: parent.ID}
	return ax.NewContext(context.WithValue(ctx, followKey{}, f), parent), func() []ax.Task {
		f.mu.Lock()
		defer f.mu.Unlock()
		return append([]ax.Task(nil), f.tasks...)
	}
}

// followUps are the tasks that one run submits.
type followUps struct {
	domain *ax.Domain
	parent string

	mu     sync.Mutex
	over   bool
	tasks  []ax.Task
	bytes  int
	alikes map[string]uint64
}

func (f *followUps) add(task ax.Task) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	refuse := func(err error) error {
		return &ax.TaskError{Op: "follow up", ID: task.ID, Kind: task.Kind, Err: err}
	}
	if f.over {
		return refuse(ErrNoRun)
	}
	if len(f.tasks) >= MaxFollowUps || f.bytes+len(task.Payload) > MaxFollowUpBytes {
		return refuse(fmt.Errorf("%w: %d, with %d bytes", ErrTooManyFollowUps, len(f.tasks), f.bytes))
	}
	now := clock.Now()
	if err := f.domain.Complete(&task, now); err != nil {
		if t, ok := errors.AsType[*ax.TaskError](err); ok {
			t.Op = "follow up"
		}
		return err
	}
	if task.ID == "" {
		task.ID = f.id(&task)
	}
	// What the caller has is the caller's again when this returns.
	task.Payload = append([]byte(nil), task.Payload...)
	task.Attempt, task.Deferrals, task.Submitted, task.Leave, task.Hop, task.Run, task.Token, task.Source = 1, 0, now, time.Time{}, "", "", 0, ax.Source{}
	f.tasks, f.bytes = append(f.tasks, task), f.bytes+len(task.Payload)
	return nil
}

// id returns an id that is the same in each repeat of the run.
func (f *followUps) id(t *ax.Task) string {
	alike := ax.ChildID(f.parent, string(appendParts(nil, t.Kind, t.Lane, t.Key, string(t.Payload))))
	if f.alikes == nil {
		f.alikes = map[string]uint64{}
	}
	n := f.alikes[alike]
	f.alikes[alike]++
	if n == 0 {
		return alike
	}
	return ax.ChildID(alike, string(binary.AppendUvarint(nil, n)))
}

// appendParts joins parts so that no two lists of them are alike.
func appendParts(b []byte, parts ...string) []byte {
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

// close returns what was submitted. Nothing more can be.
func (f *followUps) close() []ax.Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	return f.tasks
}
