// Package offset tracks which offsets of one partition are finished while
// tasks finish out of order, what may be committed (the lowest offset that is
// not finished), and what a commit's metadata says beside: which offsets above
// it are finished, what is known of unfinished ones, and whether an owner is at
// work.
//
// Records enter a [Window] as they are read and leave it in any order. Each
// commit carries a [Metadata]; whoever reads the partition next parses it and
// skips what is finished.
package offset

import (
	"math/bits"
	"slices"
)

// Window is the finished and unfinished offsets of one partition during one
// assignment. Offsets are added in rising order and may have gaps, where the
// log was compacted or holds control records.
//
// It costs memory by what is unfinished and not by its span: offsets are kept
// in blocks of up to 64, and a block in which all is finished is forgotten,
// wherever it stands. So one task that runs for hours doesn't make the window
// grow with all that passes it.
//
// It is not safe for concurrent use. The zero value is ready.
type Window struct {
	blocks []block // in the order of the log
	head   int     // the first block that is left
	idle   int     // blocks from head on in which all is finished

	unfinished int
	next       int64 // one past the highest offset added
	commit     int64 // the lowest unfinished offset, or next
	epoch      int32 // of the last offset below commit
	last       int32 // epoch of the highest offset added
	high       int32 // the highest epoch among finished offsets
	any        bool  // something was added
	tail       bool  // blocks after the last one were finished and forgotten
}

// block is up to 64 neighbouring offsets of one epoch.
type block struct {
	base   int64  // the first offset, which was added
	added  uint64 // which of base … base+63 were added
	open   uint64 // which of them are unfinished
	epoch  int32
	before int32 // epoch of the offset added before base, -1 if there is none
	forgot bool  // blocks before this one were finished and forgotten
}

// Add takes in an offset with the leader epoch of its record. It reports false,
// and does nothing, for an offset that is not above all added before.
func (w *Window) Add(offset int64, epoch int32) bool {
	if w.any && offset < w.next {
		return false
	}
	if !w.any {
		w.any, w.commit, w.epoch, w.last, w.high = true, offset, -1, -1, -1
	}
	switch n := len(w.blocks); {
	case n == w.head: // all is finished
		w.commit, w.epoch = offset, w.last
		w.blocks, w.head, w.tail = append(w.blocks[:0], block{base: offset, epoch: epoch, before: w.last}), 0, false
	case epoch != w.blocks[n-1].epoch, offset-w.blocks[n-1].base >= 64:
		w.blocks = append(w.blocks, block{base: offset, epoch: epoch, before: w.last, forgot: w.tail})
		w.tail = false
		if w.blocks[n-1].open == 0 {
			w.pass()
		}
	}
	b := &w.blocks[len(w.blocks)-1]
	b.added |= 1 << (offset - b.base)
	b.open |= 1 << (offset - b.base)
	w.unfinished++
	w.next, w.last = offset+1, epoch
	return true
}

// Done finishes an offset that was added. It reports false, and does nothing,
// for any other, and for one that is finished.
func (w *Window) Done(offset int64) bool {
	i := w.find(offset)
	if i < 0 {
		return false
	}
	b := &w.blocks[i]
	bit := uint64(1) << (offset - b.base)
	if b.open&bit == 0 {
		return false
	}
	b.open &^= bit
	w.unfinished--
	w.high = max(w.high, b.epoch)
	switch {
	case i == w.head:
		w.advance()
	case b.open == 0 && i < len(w.blocks)-1:
		w.pass()
	}
	return true
}

// Cut forgets the offsets from at on: the log was cut there, and these offsets
// are or will be other records'. What is below stays as it is.
func (w *Window) Cut(at int64) {
	if !w.any || at >= w.next {
		return
	}
	kept := w.blocks[:w.head]
	for _, b := range w.blocks[w.head:] {
		if b.base >= at {
			w.unfinished -= bits.OnesCount64(b.open)
			w.tail = w.tail || b.forgot
			continue
		}
		if n := at - b.base; n < 64 {
			gone := ^(uint64(1)<<n - 1)
			w.unfinished -= bits.OnesCount64(b.open & gone)
			b.added &^= gone
			b.open &^= gone
		}
		kept = append(kept, b)
	}
	clear(w.blocks[len(kept):])
	if w.blocks, w.next = kept, at; len(kept) > w.head {
		w.last = kept[len(kept)-1].epoch
	} else {
		w.last = min(w.last, w.epoch)
	}
	w.commit = min(w.commit, at)
	w.idle = 0
	for i := w.head + 1; i < len(kept)-1; i++ {
		if kept[i].open == 0 {
			w.idle++
		}
	}
	if len(kept) == w.head || kept[w.head].open == 0 {
		w.advance()
	}
}

// pass counts a block in which all is finished, and forgets them when they are
// many.
func (w *Window) pass() {
	if w.idle++; w.idle > 16 && 2*w.idle > len(w.blocks)-w.head {
		w.compact()
	}
}

// Unfinished reports whether the offset was added and is not finished.
func (w *Window) Unfinished(offset int64) bool {
	i := w.find(offset)
	return i >= 0 && w.blocks[i].open&(1<<(offset-w.blocks[i].base)) != 0
}

// find returns the index of the block that may hold the offset, or -1.
func (w *Window) find(offset int64) int {
	// Most finish near the head.
	if w.head < len(w.blocks) {
		if d := offset - w.blocks[w.head].base; d >= 0 && d < 64 && (w.head+1 == len(w.blocks) || offset < w.blocks[w.head+1].base) {
			return w.head
		}
	}
	lo, hi := w.head, len(w.blocks)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if w.blocks[mid].base <= offset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == w.head || offset-w.blocks[lo-1].base >= 64 {
		return -1
	}
	return lo - 1
}

// advance moves the commit on, after something was finished in the first
// block.
func (w *Window) advance() {
	for i := w.head; i < len(w.blocks); i++ {
		b := &w.blocks[i]
		if b.open == 0 {
			if i > w.head {
				w.idle--
			}
			continue
		}
		w.head = i
		low := bits.TrailingZeros64(b.open)
		if w.commit = b.base + int64(low); low > 0 {
			w.epoch = b.epoch
		} else {
			w.epoch = b.before
		}
		return
	}
	w.blocks, w.head, w.idle = w.blocks[:0], 0, 0
	w.commit, w.epoch = w.next, w.last
}

// compact forgets the blocks in which all is finished, but for the last, which
// may grow, and the first, from which the commit is told.
func (w *Window) compact() {
	kept := w.blocks[:0]
	forgot := false
	for i, b := range w.blocks[w.head:] {
		if b.open == 0 && i > 0 && w.head+i < len(w.blocks)-1 {
			forgot = true
			continue
		}
		b.forgot = b.forgot || forgot
		kept, forgot = append(kept, b), false
	}
	w.blocks, w.head, w.idle = kept, 0, 0
	if cap(kept) > 1024 && len(kept) < cap(kept)/4 {
		w.blocks = slices.Clone(kept)
	}
}

// Commit returns the offset to commit, which is the lowest unfinished one, or
// one past the highest when all are finished, with the leader epoch of the
// last offset below it, -1 if unknown. It reports false while nothing was
// added.
func (w *Window) Commit() (offset int64, epoch int32, ok bool) {
	return w.commit, w.epoch, w.any
}

// Lowest returns the lowest unfinished offset, and false when all are finished.
func (w *Window) Lowest() (offset int64, ok bool) { return w.commit, w.unfinished > 0 }

// Next returns one past the highest offset added.
func (w *Window) Next() int64 { return w.next }

// Len returns how many added offsets are not finished.
func (w *Window) Len() int { return w.unfinished }

// Scattered reports whether the finished offsets lie so scattered between
// unfinished ones that a commit's metadata has little room left for them.
// Nothing more should be added then, or some of what is finished is worked
// again after a crash.
func (w *Window) Scattered() bool {
	// A run between two unfinished offsets takes two numbers, of up to three
	// bytes; in a bitmap each offset takes a bit.
	const room = finishedRoom * 3 / 4
	return 6*w.unfinished > room && w.next-w.commit > int64(8*room) && w.runBytes() > room
}

// eachRun calls f with each run of finished offsets above the committed one, in
// order. What the log has no records for belongs to the run around it, and
// makes none of its own.
func (w *Window) eachRun(f func(from, to int64)) {
	at, some := w.commit, false
	for i := range w.blocks[w.head:] {
		b := &w.blocks[w.head+i]
		some = some || b.forgot && i > 0
		done := b.added &^ b.open
		for open := b.open; open != 0; open &= open - 1 {
			n := bits.TrailingZeros64(open)
			offset := b.base + int64(n)
			below := done & (1<<n - 1)
			if done &^= below; some || below != 0 && offset > at {
				f(at, offset)
			}
			at, some = offset+1, false
		}
		some = some || done != 0
	}
	if (some || w.tail) && w.next > at {
		f(at, w.next)
	}
}

// runBytes returns how many bytes the runs take.
func (w *Window) runBytes() (n int) {
	end := w.commit
	w.eachRun(func(from, to int64) {
		n += uvarintLen(from-end) + uvarintLen(to-from)
		end = to
	})
	return n
}

func uvarintLen(v int64) int { return (bits.Len64(uint64(v)|1) + 6) / 7 }
