package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inCrowd is what the scenario workers aims at by default.
var inCrowd = targets{workers: 6, first: 3, movers: 2, producers: 1, brokers: 3, skew: true}

func TestACrowdsScriptFollowsFromItsSeedAlone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		first := script(seed, 3*time.Minute, "workers", inCrowd)
		require.Equal(t, first, script(seed, 3*time.Minute, "workers", inCrowd))
	}
	require.NotEqual(t, script(1, 3*time.Minute, "workers", inCrowd), script(2, 3*time.Minute, "workers", inCrowd))
}

func TestACrowdHasTwoToSixWorkersAndOneDeploy(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		up := map[string]bool{"worker-1": true, "worker-2": true, "worker-3": true}
		asleep := map[string]time.Duration{}
		deploys := 0
		for _, st := range makeScript(seed, 3*time.Minute, scenarios["workers"], inCrowd) {
			require.Less(t, st.at, 3*time.Minute-tail)
			isWorker := strings.HasPrefix(st.slot, "worker")
			switch {
			case st.what == faultStart:
				require.False(t, up[st.slot], "seed %d: %s", seed, st)
				up[st.slot] = true
			case st.what == faultDeploy:
				deploys++
			case isWorker && (st.what == faultKill || st.what == faultStop):
				require.True(t, up[st.slot], "seed %d: %s", seed, st)
				require.Zero(t, st.length)
				delete(up, st.slot)
			case isWorker:
				require.True(t, up[st.slot], "seed %d: %s", seed, st)
				asleep[st.slot] = st.at + st.length
			}
			awake := 0
			for name := range up {
				if asleep[name] <= st.at {
					awake++
				}
			}
			require.LessOrEqual(t, len(up), 6, "seed %d: %s", seed, st)
			require.GreaterOrEqual(t, awake, 2, "seed %d: %s", seed, st)
			if st.what == faultDeploy { // one of them is away at a time
				require.GreaterOrEqual(t, awake, 3, "seed %d: %s", seed, st)
			}
		}
		require.Equal(t, 1, deploys, "seed %d", seed)
	}
}

func TestALongCrowdIsDeployedMoreThanOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, 6, strings.Count(script(1, time.Hour, "workers", inCrowd), faultDeploy))
}

// The soaks of "make test" meet what a domain meets: with another script they
// might not.
func TestTheScriptOfMakeTestHasFaultsOfAllKinds(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	require.Contains(t, string(makefile), "--for 3m --seed 18 --scenario workers --protocol classic")
	require.Contains(t, string(makefile), "--for 3m --seed 18 --scenario workers --protocol consumer")
	met := map[string]int{}
	for _, st := range makeScript(18, 3*time.Minute, scenarios["workers"], inCrowd) {
		what, _, _ := strings.Cut(st.slot, "-")
		if st.what == faultFreeze && st.length > session {
			what += " long"
		}
		met[strings.TrimSpace(what+" "+st.what)]++
	}
	for _, what := range []string{
		"worker start", "worker stop", "worker kill", "worker freeze", "worker long freeze", "mover kill",
		faultDeploy, faultBrokerKill, faultBrokerFreeze,
	} {
		require.Positive(t, met[what], "%s: %v", what, met)
	}
	require.GreaterOrEqual(t, met["worker kill"], 4)
}

// A crowd works on a cluster that the rig did not start, too.
func TestACrowdNeedsNoBrokers(t *testing.T) {
	t.Parallel()
	bare := inCrowd
	bare.brokers = 0
	require.NotContains(t, script(1, time.Hour, "workers", bare), "broker")
}
