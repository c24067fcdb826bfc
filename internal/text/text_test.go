package text_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/internal/text"
)

func TestADurationLosesItsZeroUnitsAndReadsBack(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": 0, "10s": 10 * time.Second, "5m": 5 * time.Minute, "10m": 10 * time.Minute, "1h": time.Hour,
		"168h": 168 * time.Hour, "1h30m": 90 * time.Minute, "1h0m1s": time.Hour + time.Second, "100ms": 100 * time.Millisecond,
		"-1h": -time.Hour,
	} {
		require.Equal(t, want, text.Duration(d))
		back, err := time.ParseDuration(text.Duration(d))
		require.NoError(t, err)
		require.Equal(t, d, back)
	}
}
