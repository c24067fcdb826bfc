//go:build kafka

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the simulation says is what a worker does, on a real Kafka where AX_KAFKA
// names one, and else on the one inside this process.
func TestSimAgreesWithAWorkerOnTheSharesOfFloodedLanes(t *testing.T) {
	if os.Getenv("AX_KAFKA") == "" {
		t.Log("AX_KAFKA names no broker: the Kafka inside this process takes part of the machine")
	}
	bench := call(t, "bench", "fair", "--for", "10s", "--pairs", "1", "--json")
	require.Equal(t, 0, bench.code, bench.out+bench.err)
	measured := bench.object(t)
	sim := call(t, "sim", "--spec", "testdata/fair-domain.yaml", "--load", "testdata/fair-load.yaml", "--json")
	require.Equal(t, 0, sim.code, sim.out+sim.err)
	said := sim.object(t)
	require.Equal(t, measured["settings"].(map[string]any)["workers"], said["slots"], "the load is of as many slots")

	lanes := said["lanes"].([]any)
	require.Len(t, lanes, 4)
	for _, l := range lanes {
		lane := l.(map[string]any)
		name := lane["lane"].(string)
		t.Logf("%-8s  by weight %6.3f %%  sim %6.3f %%  bench %6.3f %%", name, lane["weight_percent"], lane["share_percent"], measured["share_percent_"+name])
		require.InDelta(t, measured["share_percent_"+name], lane["share_percent"], 2, name)
	}
}
