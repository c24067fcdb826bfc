package sim

import (
	"math/rand/v2"
	"time"
)

// feed is where arrivals come from, the earliest first.
type feed interface {
	// next returns the next arrival, or false after the last.
	next() (arrival, bool, error)
}

// pattern is the arrivals of a source that does not flood.
type pattern struct {
	*source
	rng     *rand.Rand
	backlog int
	n       int     // how many came by the rate
	sum     float64 // of the gaps between them, in nanoseconds
}

func (p *pattern) next() (arrival, bool, error) {
	at := p.begin
	switch {
	case p.backlog > 0:
		p.backlog--
	case p.Rate > 0:
		gap := float64(time.Second) / p.Rate
		if p.Even {
			at += time.Duration(float64(p.n) * gap)
			p.n++
		} else {
			p.sum += float64(gap * p.rng.ExpFloat64()) // not fused with the sum, so that all processors agree
			at += time.Duration(p.sum)
		}
	default:
		return arrival{}, false, nil
	}
	if at >= p.end {
		return arrival{}, false, nil
	}
	return arrival{at: at, delay: p.Delay.draw(p.rng)}, true, nil
}

// The generators of a source, each with a stream of its own.
const (
	ofArrivals = iota
	ofRuns
	generators
)

// newRand returns one generator of one source.
func newRand(seed, source, which int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), uint64(source*generators+which)))
}
