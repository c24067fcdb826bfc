package demo

import (
	"math"
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are at most 1/16 wide, from a
// microsecond to twelve days. The zero value is ready. It is not safe for
// concurrent use.
type histogram struct {
	counts [36*16 + 16]uint64
	total  uint64
}

const maxMicros = 1<<40 - 1

// bucket: below 32 µs each microsecond has its own; above, each power of two
// has sixteen.
func bucket(d time.Duration) int {
	us := min(uint64(max(d, 0)/time.Microsecond), maxMicros)
	e := max(bits.Len64(us)-5, 0)
	return e*16 + int(us>>e)
}

// middle returns the duration in the middle of a bucket.
func middle(i int) time.Duration {
	if i < 32 {
		return time.Duration(i) * time.Microsecond
	}
	e := i/16 - 1
	return (time.Duration(i-e*16)<<e + 1<<e/2) * time.Microsecond
}

// add counts d; a negative one counts as zero.
func (h *histogram) add(d time.Duration) {
	h.counts[bucket(d)]++
	h.total++
}

// quantile returns the duration that the share q of all counted don't exceed,
// as exact as the buckets; zero if nothing was counted.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	left := max(uint64(math.Ceil(q*float64(h.total))), 1)
	for i, n := range h.counts {
		if n >= left {
			return middle(i)
		}
		left -= n
	}
	return middle(len(h.counts) - 1)
}
