package publish

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// item is a record on its way.
type item struct {
	Item
	seq   uint64 // in the order of the publishes
	size  int
	began time.Time

	line       *line
	next, prev *item // in the target's list of what is open

	inside  bool      // the client has it
	sent    time.Time // to this client
	tries   int
	refused int       // tries that a broker refused as they were
	at      time.Time // of the next try
}

func sizeOf(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// target is what is open of one topic. A record takes room from when it is
// first handed to the client until it is answered, so that a topic that
// refuses everything is not tried more often than it has room.
type target struct {
	topic   string
	room    room
	share   room // of one line while others wait
	used    room
	lines   map[any]*line
	queue   fifo[*line] // those with something waiting, in turn
	ready   bool
	n       int // open
	oldest  *item
	newest  *item
	err     error     // the last failure, until a record is acknowledged
	lost    int       // reports that the broker forgot the producer, since then
	logged  time.Time // the last failure that was
	alarmed time.Time // the last line of the alarm; zero while there is none
	purged  time.Time
}

// room is a number of records and their bytes.
type room struct{ n, bytes int }

func (r *room) add(it *item)     { r.n++; r.bytes += it.size }
func (r *room) remove(it *item)  { r.n--; r.bytes -= it.size }
func (r room) full(of room) bool { return r.n >= of.n || r.n > 0 && r.bytes >= of.bytes }

// line is what one source has for one topic.
type line struct {
	t     *target
	key   any
	used  room
	items fifo[*item]
}

func newTarget(topic string, records, bytes int) *target {
	return &target{
		topic: topic, lines: map[any]*line{},
		room:  room{max(records, 1), bytes},
		share: room{max(records/4, 1), bytes / 4},
	}
}

// add lets the item wait.
func (t *target) add(it *item) {
	l := t.lines[it.Source]
	if l == nil {
		l = &line{t: t, key: it.Source}
		t.lines[it.Source] = l
	}
	it.line = l
	if l.items.len() == 0 {
		t.queue.push(l)
	}
	l.items.push(it)
	t.link(it)
}

func (t *target) waiting() bool { return t.queue.len() > 0 }

// take returns the next item for which there is room, or nil: the sources in
// turn, and from each in order.
func (t *target) take() *item {
	if t.used.full(t.room) {
		return nil
	}
	for range t.queue.len() {
		l := t.queue.pop()
		if t.waiting() && l.used.full(t.share) {
			t.queue.push(l)
			continue
		}
		it := l.items.pop()
		if l.items.len() > 0 {
			t.queue.push(l)
		}
		t.used.add(it)
		l.used.add(it)
		return it
	}
	return nil
}

// end forgets an item that has taken room.
func (t *target) end(it *item) {
	t.used.remove(it)
	it.line.used.remove(it)
	if it.line.used.n == 0 && it.line.items.len() == 0 {
		delete(t.lines, it.line.key)
	}
	t.unlink(it)
}

func (t *target) link(it *item) {
	t.n++
	it.prev = t.newest
	if t.newest == nil {
		t.oldest = it
	} else {
		t.newest.next = it
	}
	t.newest = it
}

func (t *target) unlink(it *item) {
	t.n--
	if it.prev == nil {
		t.oldest = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next == nil {
		t.newest = it.prev
	} else {
		it.next.prev = it.prev
	}
	it.next, it.prev = nil, nil
}

// silent reports whether the client has had an item since before and said
// nothing.
func (t *target) silent(before time.Time) bool {
	for it := t.oldest; it != nil && !it.began.After(before); it = it.next {
		if it.inside && !it.sent.After(before) {
			return true
		}
	}
	return false
}

// fifo is a queue.
type fifo[T any] struct {
	list []T
	head int
}

func (f *fifo[T]) len() int { return len(f.list) - f.head }
func (f *fifo[T]) push(x T) {
	if f.head > 64 && f.head*2 >= len(f.list) {
		n := copy(f.list, f.list[f.head:])
		clear(f.list[n:])
		f.list, f.head = f.list[:n], 0
	}
	f.list = append(f.list, x)
}

func (f *fifo[T]) pop() T {
	var none T
	x := f.list[f.head]
	f.list[f.head] = none
	if f.head++; f.head == len(f.list) {
		f.list, f.head = f.list[:0], 0
	}
	return x
}

// retries is a heap by the time of the next try.
type retries []*item

func (w retries) Len() int           { return len(w) }
func (w retries) Less(i, j int) bool { return w[i].at.Before(w[j].at) }
func (w retries) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *retries) Push(x any)        { *w = append(*w, x.(*item)) }
func (w *retries) Pop() any {
	old := *w
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*w = old[:len(old)-1]
	return it
}
