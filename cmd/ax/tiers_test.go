package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheTiersAreShownWithWhatWaitsInThem(t *testing.T) {
	t.Parallel()
	_, flags := provisioned(t)
	require.Equal(t, 0, call(t, append([]string{"submit", "k", "{}", "--after", "2h"}, flags...)...).code)
	args := append([]string{"tiers", "--for", "100ms"}, flags...)

	got := call(t, args...)
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `(?m)^tier +waiting +next +left/s +movers$`, got.out)
	require.Regexp(t, `(?m)^1h +1 +59m5\ds +0\.0 +0  no mover$`, got.out)
	require.Regexp(t, `(?m)^near +0 +- +0\.0 +0  no mover$`, got.out)

	got = call(t, append(args, "--json")...)
	require.Equal(t, 0, got.code, got.err)
	tiers := got.object(t)["tiers"].([]any)
	require.Len(t, tiers, 9)
	hour := tiers[5].(map[string]any)
	require.Equal(t, "1h", hour["tier"])
	require.Equal(t, "orders.delay.1h", hour["topic"])
	require.InDelta(t, 1, hour["depth"], 0)
	require.InDelta(t, 3599, hour["next_in_s"], 10)
	require.Contains(t, hour, "next")
	require.NotContains(t, tiers[0], "next_in_s")

	require.Equal(t, 2, call(t, append(args[:1], append(flags, "--for", "0s")...)...).code)
}
