package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAQuantileIsWithinOnePercentOfTheExactOne(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, most := range []time.Duration{100, time.Microsecond, time.Millisecond, time.Minute, 1000 * time.Hour} {
		var h histogram
		var all []time.Duration
		for range 5000 {
			d := time.Duration(rng.ExpFloat64() * float64(most))
			h.add(d)
			all = append(all, d)
		}
		slices.Sort(all)
		for _, q := range []float64{0, 0.001, 0.5, 0.99, 0.999, 1} {
			exact := all[rank(q, 5000)-1]
			require.InDelta(t, float64(exact), float64(h.quantile(q)), 0.01*float64(exact), "%v of %v", q, most)
		}
		require.Equal(t, all[4999], h.most)
	}
}

func TestBucketsCoverAllDurations(t *testing.T) {
	t.Parallel()
	var h histogram
	for _, d := range []time.Duration{-1, 0, 1, 127, 128, 129, 1<<63 - 1} {
		h.add(d)
	}
	require.Equal(t, len(h.counts)-1, bucket(1<<63-1))
	last := time.Duration(-1)
	for i := range h.counts {
		require.Greater(t, middle(i), last)
		require.Equal(t, i, bucket(middle(i)))
		last = middle(i)
	}
}

// A heap that lost an event, or its order, would show as a wrong number somewhere
// else.
func TestEventsComeInOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var h events
	for i := range int32(3000) {
		h.push(rng.Int64N(200), happening(rng.IntN(int(ends)+1)), i)
	}
	before := h.pop()
	for range 2999 {
		e := h.pop()
		require.True(t, before.before(&e))
		require.False(t, e.before(&before))
		before = e
	}
	require.Empty(t, h.all)
}
