//go:build kafka

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The disk of the broker that leads the near tier becomes full: the broker ends
// by itself. Tasks go on, and once there is room again, the broker catches up.
//
// It runs alone: it does harm to a broker.
func TestTasksGoOnWhileOneBrokersDiskIsFull(t *testing.T) {
	const victim = 3 // the one that "make real" gives a disk of its own
	f := steady(t)
	tier, near := f.r.Tiers()[0].Topic, f.r.Near()
	lead(t, f.adm, map[string]int32{tier: 1, near: victim})
	healLater(t, f.adm)
	worker, mover := f.start("worker"), f.start("mover")
	inLane := f.watch(f.r.Lane("main"))
	cl := bare(t)
	stop := f.pour(streams...)
	inLane.reach(t, 100, time.Minute)

	order(t, "fill %d", victim)
	full := time.Now()
	eventually(t, time.Minute, func() (bool, string) {
		ids := living(t, cl)
		return len(ids) == brokers-1 && !ids[victim], fmt.Sprintf("broker %d has to end: %v live", victim, ids)
	})
	awaitLeader(t, f.adm, victim, near)
	change := time.Since(full)
	inLane.reach(t, inLane.count()+100, time.Minute)
	flow := time.Since(full)
	require.Error(t, tryOrder(fmt.Sprintf("start %d", victim)), "a broker with a full disk can't start")
	order(t, "unfill %d", victim)
	startAll(t, victim)
	awaitSync(t, f.adm, tier, near)
	back := time.Since(full)
	inLane.reach(t, inLane.count()+100, time.Minute)
	stop()
	t.Logf("another leader after %s, tasks flow after %s, all is in sync after %s", change.Round(time.Millisecond), flow.Round(time.Millisecond), back.Round(time.Millisecond))
	f.judge("disk full", full)
	mover.stop()
	worker.stop()
}
