package sim

import "time"

// timeline is what the chart shows: the measured time in a bounded number of
// parts. Where its length is not known, they become longer as it goes on.
type timeline struct {
	width int64
	lanes int
	parts []slice
	total []time.Duration // slot time of each lane until the current part
}

// slice is a part of the timeline.
type slice struct {
	used  []time.Duration // by lane
	waits []coarse
}

// coarse counts waits in few buckets, by their number: a part of a chart needs no
// more.
type coarse map[int]uint64

const (
	// coarser is by how many bits its buckets are wider, so 1/8 each.
	coarser  = 3
	parts    = 60
	maxParts = 2 * parts
)

func newTimeline(load Load, lanes int) *timeline {
	width := (int64(load.For) + parts - 1) / parts
	if load.For == 0 {
		width = int64(100 * time.Millisecond)
	}
	l := &timeline{width: max(width, 1), lanes: lanes, total: make([]time.Duration, lanes)}
	l.extend()
	return l
}

func (l *timeline) extend() {
	s := slice{used: make([]time.Duration, l.lanes), waits: make([]coarse, l.lanes)}
	for i := range s.waits {
		s.waits[i] = coarse{}
	}
	l.parts = append(l.parts, s)
}

// pass moves on to an instant of the measured time. used tells the slot time of a
// lane until the end of a part.
func (l *timeline) pass(to int64, used func(lane int, at int64) time.Duration) {
	for end := l.end(); to >= end; end = l.end() {
		l.fill(end, used)
		if len(l.parts) == maxParts {
			l.merge()
		}
		l.extend()
	}
}

func (l *timeline) end() int64 { return int64(len(l.parts)) * l.width }

// close takes what is in the last part, and leaves out one that is empty.
func (l *timeline) close(at int64, used func(lane int, at int64) time.Duration) {
	if last := len(l.parts) - 1; last > 0 && at <= int64(last)*l.width {
		l.parts = l.parts[:last]
		return
	}
	l.fill(at, used)
}

// fill gives the current part what was used until an instant.
func (l *timeline) fill(at int64, used func(lane int, at int64) time.Duration) {
	last := &l.parts[len(l.parts)-1]
	for i := range l.total {
		now := used(i, at)
		last.used[i] = now - l.total[i]
		l.total[i] = now
	}
}

// merge makes one part of two.
func (l *timeline) merge() {
	for i := range maxParts / 2 {
		a, b := l.parts[2*i], l.parts[2*i+1]
		for lane := range l.lanes {
			a.used[lane] += b.used[lane]
			for bucket, n := range b.waits[lane] {
				a.waits[lane][bucket] += n
			}
		}
		l.parts[i] = a
	}
	l.parts = l.parts[:maxParts/2]
	l.width *= 2
}

// wait counts a start.
func (l *timeline) wait(lane int, d time.Duration) {
	l.parts[len(l.parts)-1].waits[lane][bucket(d)>>coarser]++
}

// p99 returns the wait that 99 % don't exceed, or false where nothing started.
func (c coarse) p99() (time.Duration, bool) {
	var total uint64
	last := 0
	for i, n := range c {
		total += n
		last = max(last, i)
	}
	left := rank(0.99, total)
	for i := 0; i <= last; i++ {
		if n := c[i]; n >= left {
			return middle(i<<coarser + 1<<coarser/2), total > 0
		} else {
			left -= n
		}
	}
	return 0, false
}
