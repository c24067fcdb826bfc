package delay

import (
	"bytes"
	"container/heap"
	"slices"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/router"
)

// source is what one partition has waiting.
type source struct {
	p     *group.Partition
	tier  *router.Tier // nil in the near tier
	queue waiting
	bytes int
}

// entry is one task that waits.
type entry struct {
	task   *ax.Task
	ticket group.Ticket
	leave  time.Time
	order  int64 // of the log
	size   int
}

// waiting holds entries: in the order of the log for a far tier, as a heap by
// leave time for the near tier.
type waiting struct {
	far     bool
	entries []*entry
	head    int // of a far tier
}

func (w *waiting) Len() int { return len(w.entries) - w.head }

func (w *waiting) Less(i, j int) bool {
	a, b := w.entries[i], w.entries[j]
	if !a.leave.Equal(b.leave) {
		return a.leave.Before(b.leave)
	}
	return a.order < b.order
}
func (w *waiting) Swap(i, j int) { w.entries[i], w.entries[j] = w.entries[j], w.entries[i] }
func (w *waiting) Push(x any)    { w.entries = append(w.entries, x.(*entry)) }
func (w *waiting) Pop() any {
	n := len(w.entries) - 1
	e := w.entries[n]
	w.entries[n] = nil
	w.entries = w.entries[:n]
	return e
}

func (w *waiting) add(e *entry) {
	if w.far {
		w.entries = append(w.entries, e)
		return
	}
	heap.Push(w, e)
}

// first returns the entry that leaves next, or nil.
func (w *waiting) first() *entry {
	if w.Len() == 0 {
		return nil
	}
	return w.entries[w.head]
}

func (w *waiting) remove() *entry {
	if !w.far {
		return heap.Pop(w).(*entry)
	}
	e := w.entries[w.head]
	w.entries[w.head] = nil
	if w.head++; w.head == len(w.entries) {
		w.entries, w.head = w.entries[:0], 0
	} else if w.head >= 256 && w.head*2 >= len(w.entries) {
		w.entries = slices.Delete(w.entries, 0, w.head)
		w.head = 0
	}
	return e
}

// own copies what the task shares with its fetch, which it would otherwise
// keep in memory whole for as long as it waits.
func own(t *ax.Task) {
	t.Payload = bytes.Clone(t.Payload)
	for i := range t.Headers {
		t.Headers[i].Value = bytes.Clone(t.Headers[i].Value)
	}
}

func sizeOf(t *ax.Task) int {
	n := 512 + len(t.Payload) + len(t.Key)
	for _, h := range t.Headers {
		n += 48 + len(h.Name) + len(h.Value)
	}
	return n
}
