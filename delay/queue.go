package delay

import (
	"bytes"
	"container/heap"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/router"
)

// source is what one partition has waiting.
type source struct {
	p     *group.Partition
	tier  *router.Tier // nil in the near tier
	queue waiting
	until time.Time // when the last one in the queue of a far tier may leave
	held  int       // entries that may leave, whose topic has no room
	bytes int       // of queue and held

	skew  *skew // of its broker
	live  bool  // it was read to its end
	rests int   // its pauses by then
}

// entry is one record that waits: a task, or what goes to the dead topic.
type entry struct {
	task   *ax.Task // nil while it is packed
	packed []byte
	dead   *kgo.Record // nil for a task
	ticket group.Ticket
	leave  time.Time
	order  int64 // of the log
	epoch  int32
	back   bool // it is sent back, which is counted
	size   int

	// Of a far tier.
	claim    time.Time // the nominal instant of leave; zero: the tier's wait
	read     time.Time
	appended time.Time
	skew     *skew // of the broker by whose clock it was appended; nil: by ours
}

// ready is an entry that may leave.
type ready struct {
	s *source
	e *entry
}

// load is what is on its way to one topic, and what waits for room there. Each
// topic has a bound of its own, so that one that can't be written doesn't hold
// up the others.
type load struct {
	n, bytes int
	passed   int // since the last pass began
	held     []ready
}

func (l *load) full() bool {
	return l.n >= maxOpen || l.bytes >= maxOpenBytes || l.passed >= maxTogether
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

// detach is kafka.Detach for a record that is no task.
func detach(r *kgo.Record) {
	r.Value = bytes.Clone(r.Value)
	for i := range r.Headers {
		r.Headers[i].Value = bytes.Clone(r.Headers[i].Value)
	}
}

// packedSize is what an entry takes beside what is packed.
const packedSize = 256

func sizeOf(t *ax.Task) int {
	n := 512 + len(t.Payload) + len(t.Key)
	for _, h := range t.Headers {
		n += 48 + len(h.Name) + len(h.Value)
	}
	return n
}
