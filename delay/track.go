package delay

import (
	"math"
	"time"
)

// track is what a reader knows of one tier.
type track struct {
	name   string
	paused bool // by command
	clock  offset

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

// offset is how far a broker's clock is ahead of ours, measured by how old a
// record is when it comes, where it was waited for: the broker's clock is ahead
// by that less, or more exactly by that and the time that the record took. So
// the largest of late is the measure.
type offset struct {
	ahead time.Duration
	known bool
}

func (o *offset) measure(ahead time.Duration) {
	if !o.known || ahead > o.ahead {
		o.ahead, o.known = ahead, true
		return
	}
	o.ahead += (ahead - o.ahead) / 8
}
