package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/internal/fakekafka"
)

const withDelays = `domain: orders
durability: fast
kinds:
  order.close:
    backoff:
      delays: [1m, 100m]
delay:
  common: [10m, 168h]
`

func TestThePlanShowsTheHopsOfTheDomainsDelaysAndProposesTiers(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	args := []string{"topics", "plan", "--spec", file(t, withDelays), "--kafka", c.Addrs()[0], "--delay", "10h"}
	got := call(t, args...)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.out, "1m            2  1m, near  (back-off of order.close)\n")
	require.Contains(t, got.out, "10m           3  2 × 5m, near  (common)\n")
	require.Contains(t, got.out, "24h           2  24h, near\n")
	require.Contains(t, got.out, "(asked)\n")
	require.Contains(t, got.out, "warning: a delay of 168h takes 9 hops; each is a write and a read\n")
	require.Contains(t, got.out, "\nproposed: tiers: [5s, 30s, 1m, 5m, 15m, 1h, 1h40m, 6h, 10h, 24h, 168h]\n")
	require.Contains(t, got.out, "   10h      7 → 2 hops\n")
	require.NotContains(t, got.out, "a delay of 10h", "few enough for no warning")

	got = call(t, append(args, "--json")...)
	require.Equal(t, 0, got.code, got.err)
	o := got.object(t)
	week := o["hops"].([]any)[7].(map[string]any)
	require.Equal(t, "168h", week["delay"])
	require.Equal(t, []any{"common"}, week["from"])
	require.Equal(t, true, week["many"])
	require.InDelta(t, 9, week["hops"], 0)
	require.Equal(t, map[string]any{"tier": "24h", "times": 7.0}, week["way"].([]any)[0])
	require.Equal(t, []any{"1h40m", "10h", "168h"}, o["proposal"].(map[string]any)["add"])
	require.Len(t, o["proposal"].(map[string]any)["saves"], 3)

	got = call(t, "topics", "plan", "--spec", file(t, "domain: orders\ndurability: fast\n"), "--kafka", c.Addrs()[0])
	require.NotContains(t, got.out, "proposed")
	require.NotContains(t, got.out, "warning", "nobody said that it uses a delay of many hops")
	for _, bad := range []string{"10", "-1h", "0s"} {
		require.Equal(t, 2, call(t, append(args, "--delay", bad)...).code)
	}
}
