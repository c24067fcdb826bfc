package sim

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/axtasks/ax/internal/text"
)

// Spread is a duration that may be drawn anew for each task. The zero value is
// always zero.
type Spread struct {
	Least, Most time.Duration // uniform between them; equal where it is fixed
	Mean        time.Duration // not zero: exponential
}

// Fixed returns the spread that is always d.
func Fixed(d time.Duration) Spread { return Spread{Least: d, Most: d} }

// errSpread says what a spread looks like.
var errSpread = errors.New(`want a duration such as 5ms, a range such as 5ms..50ms, or a mean such as "exp 5ms"`)

// ParseSpread reads "5ms", which is fixed, "5ms..50ms", which is uniform, or
// "exp 5ms", which is exponential with that mean.
func ParseSpread(s string) (Spread, error) {
	if mean, ok := strings.CutPrefix(s, "exp "); ok {
		d, err := time.ParseDuration(strings.TrimSpace(mean))
		if err != nil || d <= 0 {
			return Spread{}, errSpread
		}
		return Spread{Mean: d}, nil
	}
	from, to, ranged := strings.Cut(s, "..")
	least, err := time.ParseDuration(strings.TrimSpace(from))
	if err != nil || least < 0 {
		return Spread{}, errSpread
	}
	if !ranged {
		return Fixed(least), nil
	}
	most, err := time.ParseDuration(strings.TrimSpace(to))
	if err != nil || most < least {
		return Spread{}, errSpread
	}
	return Spread{Least: least, Most: most}, nil
}

// String returns what [ParseSpread] reads.
func (s Spread) String() string {
	switch {
	case s.Mean > 0:
		return "exp " + text.Duration(s.Mean)
	case s.Least < s.Most:
		return text.Duration(s.Least) + ".." + text.Duration(s.Most)
	}
	return text.Duration(s.Least)
}

// longest is the most that can be drawn, but for the tail of an exponential.
func (s Spread) longest() time.Duration { return max(s.Most, s.Mean) }

// draw returns the next.
func (s Spread) draw(rng *rand.Rand) time.Duration {
	switch {
	case s.Mean > 0:
		return time.Duration(rng.ExpFloat64() * float64(s.Mean))
	case s.Least < s.Most:
		return s.Least + time.Duration(rng.Int64N(int64(s.Most-s.Least)+1))
	}
	return s.Least
}
