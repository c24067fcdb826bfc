package delay

import (
	"sync"
	"time"
)

// maxSkew is how far a broker's clock is allowed for.
const maxSkew = 10 * time.Minute

// skew is how far our clock is ahead of a broker's.
type skew struct {
	mu    sync.Mutex
	d     time.Duration
	timed bool // it was measured, and is not only bounded
}

// measure takes in how old the newest record of a poll is by our clock: its
// wait for us, and the difference of the clocks. So the difference is never
// more; how much it is tells only a record that was read as it was written. The
// least of late is the measure then. Until there is one, clocks are taken to
// agree: taken for a difference, the time that a mover was away would let false
// claims hold up a tier for as long.
func (s *skew) measure(age time.Duration, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case age < s.d:
		s.d = age
	case live && !s.timed:
		s.d = age
	case live:
		s.d += (age - s.d) / 2
	}
	s.timed = s.timed || live
}

// ours returns the time of our clock at what the broker's says.
func (s *skew) ours(at time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return at.Add(max(min(s.d, maxSkew), -maxSkew))
}

// ahead returns how far the broker's clock is ahead of ours, and whether that
// was measured.
func (s *skew) ahead() (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return -s.d, s.timed
}

// skews are those of the brokers, by their ids.
type skews struct {
	mu  sync.Mutex
	all map[int32]*skew
}

// of returns the skew of a broker, and one that nothing is known of for -1.
func (s *skews) of(broker int32) *skew {
	if broker < 0 {
		return &skew{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[int32]*skew{}
	}
	if s.all[broker] == nil {
		s.all[broker] = &skew{}
	}
	return s.all[broker]
}
