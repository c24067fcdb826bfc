//go:build kafka

package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
)

// streams are the waits of what is submitted each 50 ms: near only, one far tier
// once, and thrice, and two far tiers.
var streams = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 5 * time.Second, 12 * time.Second}

// steady returns a domain's tasks whose tiers have one partition each.
func steady(t *testing.T) *delayed {
	t.Helper()
	return newDelayed(t, func(d *ax.Domain) {
		d.Delay.Partitions, d.Delay.NearPartitions, d.Delay.Rate = 1, 1, 1000
	})
}

// judge requires what must be true after one broker of three was lost while the
// tasks went on: none is lost, none was early, the latest waited for a new leader
// and for the clients to find it, and copies are few.
//
// Copies come from a mover that has lost its partitions, because its group's
// coordinator was on the broker, too: it, or another, reads again what was
// published and not committed. That is what was moved since the last commit, and
// until the mover knows itself that its group may have forgotten it, which is
// one session after the last heartbeat. From then on it moves nothing until it
// is known again.
func (f *delayed) judge(what string, fault time.Time) {
	f.t.Helper()
	f.await(time.Minute)
	late := f.worst(promise.since)
	copied, exposed := f.copied(), f.exposed(fault.Add(-commitEvery-commitTrip), fault.Add(session+scheduling))
	f.t.Logf("%s: %d tasks, at most %s late (bound %s); copied %v, at most %d in each topic",
		what, len(f.tasks), late.Round(time.Millisecond), afterFault, copied, exposed)
	require.Less(f.t, late, afterFault)
	for topic, n := range copied {
		require.LessOrEqual(f.t, n, exposed, topic)
	}
}

// The broker that leads a far tier and the near tier is killed while tasks enter
// and leave both, and comes back. In another project the same few retries were
// consumed again and again after such a change: here each topic's records are
// counted.
//
// It runs alone: it does harm to a broker.
func TestTasksGoOnWhenTheBrokerThatLeadsTheirTiersIsKilled(t *testing.T) {
	const victim = 2
	f := steady(t)
	tier, near := f.r.Tiers()[0].Topic, f.r.Near()
	lead(t, f.adm, map[string]int32{tier: victim, near: victim})
	healLater(t, f.adm)
	worker, mover := f.start("worker"), f.start("mover")
	inLane := f.watch(f.r.Lane("main"))
	stop := f.pour(streams...)
	inLane.reach(t, 100, time.Minute)

	order(t, "kill %d", victim)
	killed := time.Now()
	awaitLeader(t, f.adm, victim, tier, near)
	change := time.Since(killed)
	inLane.reach(t, inLane.count()+100, time.Minute)
	flow := time.Since(killed)
	startAll(t, victim)
	awaitSync(t, f.adm, tier, near)
	back := time.Since(killed)
	inLane.reach(t, inLane.count()+100, time.Minute)
	stop()
	t.Logf("other leaders after %s, tasks flow after %s, all is in sync after %s", change.Round(time.Millisecond), flow.Round(time.Millisecond), back.Round(time.Millisecond))
	f.judge("leader killed", killed)
	mover.stop()
	worker.stop()
	require.Less(t, change, leaderChange+busy)
}
