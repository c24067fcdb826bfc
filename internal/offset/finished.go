package offset

import (
	"encoding/binary"
	"slices"
)

// Finished is the set of finished offsets that a commit's metadata names.
type Finished struct {
	epoch int32 // the highest of a finished record
	runs  []run
}

type run struct{ from, to int64 } // to is one past the last

// Has reports whether the record at the offset is finished. A record with a
// newer epoch is another one under an offset that was used before.
func (f *Finished) Has(offset int64, epoch int32) bool {
	if len(f.runs) == 0 || epoch > f.epoch {
		return false
	}
	_, found := slices.BinarySearchFunc(f.runs, offset, func(r run, o int64) int {
		switch {
		case o < r.from:
			return 1
		case o >= r.to:
			return -1
		}
		return 0
	})
	return found
}

// End returns one past the highest offset of the set, 0 if it is empty.
func (f *Finished) End() int64 {
	if len(f.runs) == 0 {
		return 0
	}
	return f.runs[len(f.runs)-1].to
}

// Below returns what of the set is below an offset.
func (f *Finished) Below(at int64) Finished {
	below := Finished{epoch: f.epoch}
	for _, r := range f.runs {
		if r.from < at {
			below.runs = append(below.runs, run{r.from, min(r.to, at)})
		}
	}
	return below
}

// finished returns what is finished above the commit: in the window, and above
// what was read, by an earlier owner.
func (w *Window) finished(earlier Finished) Finished {
	f := Finished{epoch: w.high}
	w.eachRun(func(from, to int64) { f.runs = append(f.runs, run{from, to}) })
	if w.any && w.last > earlier.epoch {
		return f // epochs never fall in a log: what was above is other records'
	}
	for _, r := range earlier.runs {
		if r.to > w.next {
			f.runs = append(f.runs, run{max(r.from, w.next), r.to})
			f.epoch = max(f.epoch, earlier.epoch)
		}
	}
	return f
}

// append adds the set to b as a section, as runs or as a bitmap from the base
// on. Where not all fits, the highest offsets are left out and will be worked
// again.
func (f *Finished) append(b []byte, base int64) []byte {
	if len(f.runs) == 0 {
		return b
	}
	// The epoch is one up, so that an unknown one is 0.
	body := binary.AppendUvarint(nil, uint64(f.epoch+1))
	head := len(body)
	at, whole := base, true
	for _, r := range f.runs {
		next := binary.AppendUvarint(body, uint64(r.from-at))
		next = binary.AppendUvarint(next, uint64(r.to-r.from))
		if len(next) > finishedRoom {
			whole = false
			break
		}
		body, at = next, r.to
	}
	tag := byte(tagRuns)
	if last := min(f.End(), base+8*int64(finishedRoom-head)); !whole && last > at {
		tag, body = tagBitmap, append(body[:head], make([]byte, (last-base+7)/8)...)
		bits := body[head:]
		for _, r := range f.runs {
			for o := r.from - base; o < min(r.to, last)-base; o++ {
				bits[o/8] |= 1 << (o % 8)
			}
		}
	}
	return appendSection(b, tag, body)
}

func parseRuns(r *numbers, base int64) (f Finished) {
	f.epoch = r.epoch()
	for o := base; len(r.b) > 0 && !r.bad; {
		skip, n := r.number(), r.number()
		if n == 0 || skip > 1<<62-o || n > 1<<62-o-skip {
			r.bad = true
			return f
		}
		f.runs = append(f.runs, run{o + skip, o + skip + n})
		o += skip + n
	}
	return f
}

func parseBitmap(r *numbers, base int64) (f Finished) {
	f.epoch = r.epoch()
	for i, bits := range r.b {
		for j := range 8 {
			if bits&(1<<j) == 0 {
				continue
			}
			o := base + int64(8*i+j)
			if n := len(f.runs); n > 0 && f.runs[n-1].to == o {
				f.runs[n-1].to++
			} else {
				f.runs = append(f.runs, run{o, o + 1})
			}
		}
	}
	r.b = nil
	return f
}

// Len returns how many offsets the set holds.
func (f *Finished) Len() (n int64) {
	for _, r := range f.runs {
		n += r.to - r.from
	}
	return n
}
