package sim

import (
	"math"
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are at most 1/64 wide, so that the
// middle of one is within 0.8 % of all in it; below 128 ns they are exact. It has
// one size whatever it counts. The zero value is ready.
type histogram struct {
	counts [(64 - subBits) << subBits]uint64
	total  uint64
	most   time.Duration
}

const subBits = 6

// bucket: each power of two has 64 of them.
func bucket(d time.Duration) int {
	n := uint64(max(d, 0))
	e := max(bits.Len64(n)-1-subBits, 0)
	return e<<subBits + int(n>>e)
}

// middle returns the duration in the middle of a bucket.
func middle(i int) time.Duration {
	if i < 2<<subBits {
		return time.Duration(i)
	}
	e := i>>subBits - 1
	return time.Duration(i-e<<subBits)<<e + 1<<e/2
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(d)]++
	h.total++
	h.most = max(h.most, d)
}

// quantile returns the duration that the share q of all counted don't exceed.
func (h *histogram) quantile(q float64) time.Duration {
	left := rank(q, h.total)
	for i, n := range h.counts {
		if n >= left {
			return min(middle(i), h.most)
		}
		left -= n
	}
	return h.most
}

// rank is which one of n, from 1, the quantile is.
func rank(q float64, n uint64) uint64 {
	// The product can be a hair above a whole number.
	return max(uint64(math.Ceil(q*float64(n)-1e-9)), 1)
}
