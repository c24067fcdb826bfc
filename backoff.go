package ax

import (
	"math"
	"math/rand/v2"
	"time"
)

// Wait returns how long a task waits after its attempt-th attempt failed,
// attempt counting from 1. The jitter is "full": see Backoff.
func (b Backoff) Wait(attempt int) time.Duration {
	attempt = max(attempt, 1)
	if n := len(b.Delays); n > 0 {
		return b.Delays[min(attempt, n)-1]
	}
	ceiling := b.Ceiling(attempt)
	if ceiling <= 0 {
		return 0
	}
	return time.Duration(rand.Uint64N(uint64(ceiling) + 1))
}

// Ceiling returns the longest that Wait can return for this attempt.
func (b Backoff) Ceiling(attempt int) time.Duration {
	if n := len(b.Delays); n > 0 {
		return b.Delays[min(max(attempt, 1), n)-1]
	}
	// In floating point, where a large exponent gives +Inf instead of
	// overflowing into a negative wait.
	d := float64(b.Base) * math.Pow(b.Factor, float64(max(attempt, 1)-1))
	if !(d < float64(b.Max)) { // also not a number
		return b.Max
	}
	return time.Duration(d)
}
