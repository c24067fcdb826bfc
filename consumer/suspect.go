package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/offset"
)

// A task that kills its process can't be caught by it: it is told by what its
// owners leave behind, see package group. The scheduler lets one suspect of the
// whole process at work at a time; this is what happens to it.

const (
	markTimeout = 5 * time.Second
	// markWait is before a suspect is tried again that could not be marked.
	markWait = time.Second
	// heldWait is for how long a guilty one is held where too many are.
	heldCrash = 10 * time.Minute
)

// mark marks a suspect before its start. Without the mark it must not start: it
// waits, and gives back what it holds.
func (w *Worker) mark(j *job, c *claim) bool {
	if err := w.markAs(j, offset.MarkRun); err != nil {
		w.releaseClaim(c)
		w.unsuspected(j, err)
		return false
	}
	return true
}

// probe keeps a suspect from running for as long as its process lived with it.
func (w *Worker) probe(j *job) {
	if err := w.markAs(j, offset.MarkProbe); err != nil {
		w.unsuspected(j, err)
		return
	}
	wait := j.part.Probation()
	w.log.Warn("a suspect is kept from running, to see whether the process lives without it", "task", j.task.ID, "kind", j.task.Kind,
		"deaths", j.part.Deaths(), "for", wait)
	w.wait(j, clock.Now().Add(wait))
}

func (w *Worker) markAs(j *job, state offset.MarkState) error {
	ctx, cancel := context.WithTimeout(j.part.Context(), markTimeout)
	defer cancel()
	return j.part.Mark(ctx, j.ticket, state, clock.Now())
}

func (w *Worker) unsuspected(j *job, err error) {
	if w.loud.now("mark") {
		w.log.Error("a suspect can't be marked, so it can't start", "task", j.task.ID, "kind", j.task.Kind, "error", err)
	}
	j.verdict = group.Free // it is asked for again, and others may be first
	w.wait(j, clock.Now().Add(markWait))
}

// errCrashed is why a task is dead that kills its process.
var errCrashed = errors.New("the process died each time while this task ran, and lived while it did not")

// crashed ends a task that kills its process.
func (w *Worker) crashed(j *job) {
	if !j.part.Crashed(j.picked) {
		if w.loud.now("crashed") {
			w.log.Error("too many tasks crash their process: this one is held, look for another cause", "task", j.task.ID,
				"kind", j.task.Kind, "for", heldCrash)
		}
		j.verdict = group.Free
		w.wait(j, j.picked.Add(heldCrash))
		return
	}
	deaths := j.part.Deaths()
	w.dead(j, ax.ReasonCrashed, fmt.Errorf("%w: %d times", errCrashed, deaths), j.task.Attempt-1, -1)
}
