package ax_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/axtasks/ax"
)

func TestBackoffStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := ax.Backoff{
			Base:   time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "base")),
			Factor: rapid.Float64Range(1, 100).Draw(t, "factor"),
			Max:    time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "max")),
		}
		n := rapid.IntRange(math.MinInt, math.MaxInt).Draw(t, "attempt")
		ceiling := b.Ceiling(n)
		require.GreaterOrEqual(t, ceiling, time.Duration(0))
		require.LessOrEqual(t, ceiling, b.Max)
		require.GreaterOrEqual(t, ceiling, min(b.Base-1024, b.Max), "but for rounding")
		for range 10 {
			w := b.Wait(n)
			require.GreaterOrEqual(t, w, time.Duration(0))
			require.LessOrEqual(t, w, ceiling)
		}
		if n < math.MaxInt {
			require.GreaterOrEqual(t, b.Ceiling(n+1), ceiling, "it rises")
		}
	})
}

func TestBackoffGrowsByItsFactorUpToMax(t *testing.T) {
	t.Parallel()
	b := ax.Backoff{Base: time.Second, Factor: 2, Max: 10 * time.Second}
	for n, want := range map[int]time.Duration{-1: 1, 0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 10, 6: 10, 1 << 40: 10, math.MaxInt: 10} {
		require.Equal(t, want*time.Second, b.Ceiling(n), n)
	}
}

func TestBackoffSpreadsOverItsWholeRange(t *testing.T) {
	t.Parallel()
	b := ax.Backoff{Base: time.Second, Factor: 2, Max: time.Second}
	var low, high int
	for range 1000 {
		if w := b.Wait(1); w < 250*time.Millisecond {
			low++
		} else if w > 750*time.Millisecond {
			high++
		}
	}
	require.Greater(t, low, 150)
	require.Greater(t, high, 150)
}

func TestBackoffTakesAListWithoutJitter(t *testing.T) {
	t.Parallel()
	b := ax.Backoff{Base: time.Hour, Factor: 2, Max: time.Hour, Delays: []time.Duration{time.Second, 0, time.Minute}}
	for n, want := range map[int]time.Duration{-5: time.Second, 0: time.Second, 1: time.Second, 2: 0, 3: time.Minute, 4: time.Minute, math.MaxInt: time.Minute} {
		for range 10 {
			require.Equal(t, want, b.Wait(n), n)
		}
		require.Equal(t, want, b.Ceiling(n), n)
	}
}

// Max plus one, and 2^63 as a Duration, are negative: the wait panicked in the
// first case and was nothing in the second.
func TestBackoffDoesNotOverflow(t *testing.T) {
	t.Parallel()
	for _, b := range []ax.Backoff{
		{Base: math.MaxInt64, Factor: 2, Max: math.MaxInt64},
		{Base: 1, Factor: 100, Max: math.MaxInt64},
		{Base: 1, Factor: math.Inf(1), Max: math.MaxInt64},
	} {
		for _, n := range []int{1000, math.MaxInt} {
			require.Equal(t, time.Duration(math.MaxInt64), b.Ceiling(n))
			require.GreaterOrEqual(t, b.Wait(n), time.Duration(0))
		}
	}
	require.Zero(t, ax.Backoff{}.Wait(math.MaxInt), "nothing set, nothing waited")
}
