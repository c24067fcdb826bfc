//go:build kafka

package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
)

const (
	// What a client takes to follow a leader that has moved: its metadata are
	// asked for again after at most 5 s, and a request is tried again after at
	// most 2.5 s.
	follow = 7500 * time.Millisecond
	// session is for how long a group waits for a member that it has lost,
	// where its coordinator has moved, too.
	session = 6 * time.Second
	// busy is for what else a machine does that runs such tests.
	busy = 4 * time.Second
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
// Copies come from a mover that has lost its group because the coordinator was
// on the broker, too: it or another reads again what was published and not
// committed. Nothing is committed while there is no coordinator, which is for as
// long as there is no leader, and nothing is moved to a topic while that has
// none. So in each hop no more is copied than is moved in that time and one
// commit's interval. What is copied in one hop goes on through all that follow.
func (f *delayed) judge(what string, began, ended time.Time) {
	f.t.Helper()
	f.await(time.Minute)
	late := f.worst(promise.since)
	lateBound := leaderChange + follow + session + busy
	records, tasks := f.tooMany()
	rate := float64(len(f.tasks)) / ended.Sub(began).Seconds()
	exposed := int(rate * (leaderChange + 200*time.Millisecond).Seconds())
	f.t.Logf("%s: %d tasks, %.0f a second, at most %s late (bound %s); records too many %v of tasks %v (bound of a hop %d)",
		what, len(f.tasks), rate, late.Round(time.Millisecond), lateBound, records, tasks, exposed)
	require.Less(f.t, late, lateBound)
	// The hops of the longest way, from the first far tier on.
	hops := 0
	for topic := range records {
		require.LessOrEqual(f.t, tasks[topic], hopsOf(f)*exposed, topic)
		require.LessOrEqual(f.t, records[topic], hopsOf(f)*exposed, topic)
		hops++
	}
}

// hopsOf returns how many hops the longest of the ways has.
func hopsOf(f *delayed) (most int) {
	for _, wait := range streams {
		n := 0
		for _, times := range way(f.r, wait) {
			n += times
		}
		most = max(most, n-1)
	}
	return most
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
	began := time.Now()
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
	ended := time.Now()
	t.Logf("other leaders after %s, tasks flow after %s, all is in sync after %s", change.Round(time.Millisecond), flow.Round(time.Millisecond), back.Round(time.Millisecond))
	f.judge("leader killed", began, ended)
	mover.stop()
	worker.stop()
	require.Less(t, change, leaderChange+busy)
}
