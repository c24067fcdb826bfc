// Package offset tracks which offsets of one partition are finished while
// tasks finish out of order, and what may be committed: the lowest offset that
// is not finished.
package offset

// Window is the finished and unfinished offsets of one partition during one
// assignment. Offsets are added in rising order and may have gaps, where the
// log was compacted or holds control records. It is not safe for concurrent
// use. The zero value is ready.
type Window struct {
	// ring holds the offsets from the lowest unfinished one on, at positions
	// head … head+n-1 modulo its length, which is a power of two.
	ring    []entry
	head, n int
	first   uint64 // the ticket of ring[head]

	unfinished int
	next       int64 // one past the highest offset added
	commit     int64 // one past the last offset of the finished run
	epoch      int32 // of that offset
	any        bool  // something was added
}

type entry struct {
	offset int64
	epoch  int32
	done   bool
}

// Ticket stands for one added offset.
type Ticket uint64

// Add takes in an offset with the leader epoch of its record. It reports false,
// and does nothing, for an offset that is not above all added before.
func (w *Window) Add(offset int64, epoch int32) (Ticket, bool) {
	if w.any && offset < w.next {
		return 0, false
	}
	if !w.any {
		w.any, w.commit, w.epoch = true, offset, -1
	}
	if w.n == len(w.ring) {
		w.grow()
	}
	w.ring[(w.head+w.n)&(len(w.ring)-1)] = entry{offset: offset, epoch: epoch}
	w.n++
	w.unfinished++
	w.next = offset + 1
	return Ticket(w.first + uint64(w.n) - 1), true
}

func (w *Window) grow() {
	ring := make([]entry, max(64, 2*len(w.ring)))
	for i := range w.n {
		ring[i] = w.ring[(w.head+i)&(len(w.ring)-1)]
	}
	w.ring, w.head = ring, 0
}

// Done finishes the offset of a ticket. Finishing one twice does nothing.
func (w *Window) Done(t Ticket) {
	i := uint64(t) - w.first
	if i >= uint64(w.n) { // also a ticket below first, which wraps around
		return
	}
	e := &w.ring[(w.head+int(i))&(len(w.ring)-1)]
	if e.done {
		return
	}
	e.done = true
	w.unfinished--
	for w.n > 0 {
		e := &w.ring[w.head]
		if !e.done {
			return
		}
		w.commit, w.epoch = e.offset+1, e.epoch
		w.head = (w.head + 1) & (len(w.ring) - 1)
		w.first++
		w.n--
	}
}

// Commit returns the offset to commit, which is the lowest unfinished one, or
// one past the highest when all are finished, with the leader epoch of the
// last offset below it, -1 if unknown. It reports false while nothing was
// added.
func (w *Window) Commit() (offset int64, epoch int32, ok bool) {
	return w.commit, w.epoch, w.any
}

// Unfinished returns how many added offsets are not finished.
func (w *Window) Unfinished() int { return w.unfinished }

// Span returns how many offsets the window holds, finished or not, which is
// what it costs in memory.
func (w *Window) Span() int { return w.n }
