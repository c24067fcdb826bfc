package delay

import (
	"math"
	"time"
)

// track is what a reader knows of one tier.
type track struct {
	name   string
	paused bool // by command

	moved int64
	rate  float64 // a second, as of last
	last  time.Time
}

// rateOver is the time over which a rate is averaged: what is older counts for
// less than a third.
const rateOver = time.Minute

// count counts a move.
func (t *track) count(now time.Time) {
	t.rate, t.last = t.rateAt(now)+1/rateOver.Seconds(), now
	t.moved++
}

// rateAt returns how many moves a second there were lately.
func (t *track) rateAt(now time.Time) float64 {
	if t.rate == 0 {
		return 0
	}
	return t.rate * math.Exp(-now.Sub(t.last).Seconds()/rateOver.Seconds())
}
