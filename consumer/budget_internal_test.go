package consumer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
)

func TestABudgetSpreadsWhatIsPastIt(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var b budget
	b.set(ax.RetryBudget{PerSecond: 10, Ratio: 0.5})
	for range 10 {
		require.Zero(t, b.retry(now), "a second's worth")
	}
	for i := range 20 {
		require.InDelta(t, float64(i+1)/10, b.retry(now).Seconds(), 1e-6, "then one each 100 ms")
	}
	require.EqualValues(t, 20, b.longer.Load())
	require.InDelta(t, 1.1, b.retry(now.Add(time.Second)).Seconds(), 1e-6, "a second later the debt is ten less")
	for range 40 {
		b.success()
	}
	require.Zero(t, b.retry(now.Add(time.Second)), "40 successes pay for 20 retries")
	require.Zero(t, b.retry(now.Add(-time.Hour)), "a clock that goes back costs nothing")

	quiet := now.Add(time.Hour)
	for range 10 {
		require.Zero(t, b.retry(quiet))
	}
	require.Positive(t, b.retry(quiet), "an hour without failures saves up no more than a second's worth")

	b.set(ax.RetryBudget{PerSecond: -1})
	for range 1000 {
		require.Zero(t, b.retry(now), "no bound")
	}

	var slow budget
	slow.set(ax.RetryBudget{PerSecond: 0.1, Ratio: -1})
	require.Zero(t, slow.retry(now))
	slow.success()
	require.InDelta(t, 10, slow.retry(now).Seconds(), 1e-6, "a success pays for nothing")
}
