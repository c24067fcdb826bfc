package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// samples keeps durations as they are: a run has few enough of them, and a
// histogram's buckets would blur a ratio. Safe for concurrent use.
type samples struct {
	mu sync.Mutex
	d  []time.Duration
}

func (s *samples) add(d time.Duration) {
	s.mu.Lock()
	s.d = append(s.d, d)
	s.mu.Unlock()
}

func (s *samples) sorted() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.d)
	slices.Sort(out)
	return out
}

// quantile returns the least of the sorted durations that the share q of all
// doesn't exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	// The product can be a hair above a whole number.
	rank := int(math.Ceil(q*float64(len(sorted)) - 1e-9))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median returns the middle of xs, or the mean of the two in the middle. xs
// must not be empty.
func median(xs []float64) float64 {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	n := len(xs)
	return (xs[(n-1)/2] + xs[n/2]) / 2
}

func perSecond(n int, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// shareError returns by how many percentage points the share of one of the
// lanes is off its weight, at worst, and the shares in percent.
func shareError(weights []int, used []time.Duration) (points float64, shares []float64) {
	weight, total := 0, time.Duration(0)
	for i := range weights {
		weight += weights[i]
		total += used[i]
	}
	for i := range weights {
		share := 0.0
		if total > 0 {
			share = 100 * float64(used[i]) / float64(total)
		}
		shares = append(shares, round(share))
		points = math.Max(points, math.Abs(share-100*float64(weights[i])/float64(weight)))
	}
	return points, shares
}

// numberBytes is what the number of a task takes of its payload.
const numberBytes = 8

// warmUp is the number of tasks that are not counted.
const warmUp = math.MaxUint64

// numbered returns a payload of size bytes that begins with the number.
func numbered(n uint64, size int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint64(b, n)
	for i := numberBytes; i < size; i++ {
		b[i] = byte('a' + i%23)
	}
	return b
}

// numberOf returns the number in a payload; for one that has none, warmUp.
func numberOf(payload []byte) uint64 {
	if len(payload) < numberBytes {
		return warmUp
	}
	return binary.BigEndian.Uint64(payload)
}

// tally accounts for tasks by their numbers, and times them. Safe for
// concurrent use.
type tally struct {
	seen        []atomic.Uint32
	different   atomic.Int64 // numbers that were seen
	began       time.Time
	first, last atomic.Int64 // since began
	warm        chan struct{}
	warmed      sync.Once
	all         chan struct{}
}

// newTally returns a tally of the numbers below n.
func newTally(n int) *tally {
	return &tally{seen: make([]atomic.Uint32, n), began: time.Now(), warm: make(chan struct{}), all: make(chan struct{})}
}

// mark counts a number, and reports whether it is one of those that count.
func (t *tally) mark(n uint64) bool {
	if n >= uint64(len(t.seen)) {
		t.warmed.Do(func() { close(t.warm) })
		return false
	}
	now := int64(time.Since(t.began))
	if t.first.Load() == 0 {
		t.first.CompareAndSwap(0, now)
	}
	if t.seen[n].Add(1) == 1 {
		t.last.Store(now)
		if t.different.Add(1) == int64(len(t.seen)) {
			close(t.all)
		}
	}
	return true
}

// took is the time from the first to the last number.
func (t *tally) took() time.Duration { return time.Duration(t.last.Load() - t.first.Load()) }

// judge returns how many numbers were never seen, and how often one was seen
// again.
func (t *tally) judge() (lost, doubled int) {
	for i := range t.seen {
		if n := int(t.seen[i].Load()); n == 0 {
			lost++
		} else {
			doubled += n - 1
		}
	}
	return lost, doubled
}

// patience is how long nothing may happen before a run is taken as ended.
const patience = 30 * time.Second

// await waits until all numbers were seen, or none came for a long time. The
// time before due doesn't count.
func (t *tally) await(ctx context.Context, due time.Time) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	seen, since := int64(0), time.Now()
	for {
		select {
		case <-t.all:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick.C:
			if n := t.different.Load(); n != seen || now.Before(due) {
				seen, since = n, now
			}
			if now.Sub(since) > patience {
				return nil // judge tells what is lost
			}
		}
	}
}

// awaitFirst waits for the first task that counts.
func (t *tally) awaitFirst(ctx context.Context, who string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); t.different.Load() == 0; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%s has run nothing for %s", who, patience)
		}
	}
	return nil
}

// longestGap returns the longest time without a start in a window that begins
// at zero. It sorts the starts.
func longestGap(starts []time.Duration, window time.Duration) time.Duration {
	slices.Sort(starts)
	gap, before := time.Duration(0), time.Duration(0)
	for _, at := range append(starts, window) {
		gap = max(gap, at-before)
		before = at
	}
	return gap
}

// awaitWarm waits for the first task that is not counted.
func (t *tally) awaitWarm(ctx context.Context, who string) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-t.warm:
		return nil
	case <-timer.C:
		return fmt.Errorf("%s has run nothing for %s", who, patience)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
