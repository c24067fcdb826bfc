package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/internal/bench"
	"github.com/axtasks/ax/internal/fakekafka"
)

func TestBenchHelpNamesAllWorks(t *testing.T) {
	t.Parallel()
	got := call(t, "bench", "--help")
	require.Equal(t, 0, got.code)
	require.Contains(t, got.out, "Example:")
	names, _ := bench.Works()
	require.Len(t, names, 9)
	for _, name := range names {
		require.Contains(t, got.out, "\n      "+name+" ")
	}
}

func TestBenchRefusesWhatItCanNotMeasure(t *testing.T) {
	t.Parallel()
	for want, line := range map[string]string{
		`work: "": want one of drain,`:                  "bench",
		`work: "drian": want one of`:                    "bench drian",
		`--spread: 1s: the work "drain" has no use`:     "bench drain --spread 1s",
		`--workers: -1: want 1 to`:                      "bench drain --workers -1",
		`unexpected argument "twice"`:                   "bench drain twice",
		`--log-level "loud"`:                            "bench drain --log-level loud",
		`--near: true: the work "mixed" has no use for`: "bench mixed --near",
		`--lead: 0s: the work "far" has no use for`:     "bench far --lead 0",
		`--lead: 501ms: want 0 to 500ms`:                "bench burst --lead 501ms",
	} {
		got := call(t, strings.Fields(line)...)
		require.Equal(t, 2, got.code, line)
		require.Contains(t, got.err, want)
		require.Empty(t, got.out)
	}
}

func TestBenchPrintsATableOrOneObject(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	args := []string{"bench", "drain", "-n", "500", "--pairs", "1", "--kafka", c.Addrs()[0]}
	got := call(t, args...)
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `(?m)^drain_per_s +\d+ +\d+ +\d+\.\d\d$`, got.out)
	require.Contains(t, got.out, "\nmachine: cores ")
	require.Contains(t, got.err, "pair 1 of 1")

	got = call(t, append(args, "--json")...)
	require.Equal(t, 0, got.code, got.err)
	require.Empty(t, got.err)
	require.Equal(t, 1, strings.Count(got.out, "\n"))
	object := got.object(t)
	require.Equal(t, "drain", object["work"])
	require.Positive(t, object["raw_submit_per_s"])
	require.Equal(t, map[string]any{
		"n": 500.0, "workers": 32.0, "payload": 100.0, "pairs": 1.0, "durability": "fast", "replication": 1.0, "embedded": false,
	}, object["settings"])
	require.Equal(t, version(), object["versions"].(map[string]any)["ax"])
}

// The mover of this work is "ax mover" in another process, which finds the
// Kafka inside this one although the environment names another, with users.
func TestBenchFarStartsAMoverOfItsOwn(t *testing.T) {
	t.Setenv("AX_SASL_MECHANISM", "PLAIN")
	t.Setenv("AX_SASL_USER", "nobody")
	t.Setenv("AX_SASL_PASSWORD", "none")
	got := call(t, "bench", "far", "-n", "300", "--live", "90", "--for", "300ms", "--rest", "100ms", "--json")
	require.Equal(t, 0, got.code, got.out)
	object := got.object(t)
	require.EqualValues(t, 0, object["lost"])
	require.EqualValues(t, 0, object["early"])
	require.EqualValues(t, 9, object["live_partitions"])
	require.Contains(t, object, "mover_before_leave")
	require.Equal(t, "100ms", object["settings"].(map[string]any)["rest"])
	if runtime.GOOS == "linux" {
		require.Greater(t, object["rss_max_mb"], object["rss_growth_mb"])
		require.Contains(t, object, "idle_cpu_percent")
	}
}

func TestBenchTellsTheLead(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	for lead, args := range map[string][]string{"50ms": nil, "0s": {"--lead", "0"}, "500ms": {"--lead", "500ms"}} {
		got := call(t, append([]string{
			"bench", "delay", "-n", "60", "--spread", "100ms", "--near", "--pairs", "1", "--json", "--kafka", c.Addrs()[0],
		}, args...)...)
		require.Equal(t, 0, got.code, got.out)
		settings := got.object(t)["settings"].(map[string]any)
		require.Equal(t, lead, settings["lead"])
		require.Equal(t, true, settings["near"])
	}
}

func TestBenchWithoutABrokerToReachFails(t *testing.T) {
	t.Parallel()
	got := call(t, "bench", "drain", "--kafka", "127.0.0.1:1", "--json")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.object(t)["error"], "no broker reachable")
}
