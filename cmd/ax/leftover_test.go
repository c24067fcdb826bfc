package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
)

// An edit of the file takes a lane and a tier out, while tasks wait in them.
func TestTopicsCheckFailsUntilWhatTheFileLostIsDrained(t *testing.T) {
	t.Parallel()
	c, flags := provisioned(t)
	require.Equal(t, 0, call(t, append([]string{"submit", "k", "--after", "6h"}, flags...)...).code)
	for range 2 {
		require.Equal(t, 0, call(t, append([]string{"submit", "k", "--lane", "high"}, flags...)...).code)
	}
	edited := orders + "lanes:\n  - {name: normal, weight: 1}\n  - {name: low, weight: 1}\ndelay:\n  tiers: [5s, 30s, 1m, 5m, 15m, 1h, 24h]\n"
	flags = []string{"--spec", file(t, edited), "--kafka", c.Addrs()[0]}
	topics := func(verb string, more ...string) outcome {
		return call(t, append(append([]string{"topics", verb}, flags...), more...)...)
	}

	plan := topics("plan")
	require.Equal(t, 0, plan.code)
	require.Contains(t, plan.out, "nothing to do\ndrain  orders.delay.6h has 1 records to go")
	require.Contains(t, plan.out, "empty  orders.lane.critical is no longer named")
	require.Len(t, topics("plan", "--json").object(t)["leftovers"], 3)
	require.Equal(t, 0, topics("apply").code, "it has nothing to do with them")

	check := topics("check")
	require.Equal(t, 3, check.code)
	require.Contains(t, check.err, "2 differences")
	require.Contains(t, check.err, "drain  orders.delay.6h has 1 records to go: the domain no longer names it, and group orders.mover.far has not committed past them")
	require.Contains(t, check.err, "drain  orders.lane.high has 2 records to go")
	require.NotContains(t, check.err, "critical")
	require.Contains(t, topics("check", "--json").object(t)["changes"], map[string]any{
		"action": "drain", "topic": "orders.lane.high", "what": "records", "from": "2", "to": "0",
		"reason": "the domain no longer names it, and group orders.worker.high has not committed past them",
	})

	ends, err := c.Admin(t).ListEndOffsets(t.Context(), "orders.delay.6h", "orders.lane.high")
	require.NoError(t, err)
	for group, topic := range map[string]string{"orders.mover.far": "orders.delay.6h", "orders.worker.high": "orders.lane.high"} {
		commit := kadm.Offsets{}
		for _, o := range ends.Offsets()[topic] {
			commit.Add(o)
		}
		require.NoError(t, c.Admin(t).CommitAllOffsets(t.Context(), group, commit))
	}
	check = topics("check")
	require.Equal(t, 0, check.code, check.err)
	require.Contains(t, check.out, "domain orders: 11 topics match\nempty  orders.delay.6h is no longer named by the domain; delete it once")
	require.Contains(t, check.out, "empty  orders.lane.high is no longer named")
	require.Len(t, topics("check", "--json").object(t)["leftovers"], 3)
}
