//go:build kafka

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
)

// All three brokers are killed and stay away for 30 s at least, while tasks wait
// that fall due before, during and after that. Worker and movers live through it:
// the same processes go on. A mover says that it is not well while that lasts,
// and that it is, once it works again.
//
// It runs alone: it does harm to all brokers.
func TestTasksThatFallDueWhileAllBrokersAreDownRunAfterIt(t *testing.T) {
	const outage = 30 * time.Second
	f := newDelayed(t, nil)
	healLater(t, f.adm)
	worker, other := f.start("worker"), f.start("mover")
	m, err := delay.New(f.r.Domain())
	require.NoError(t, err)
	stop := work(t, m.Run)
	eventually(t, time.Minute, func() (bool, string) {
		err := m.Ready()
		return err == nil, fmt.Sprint(err)
	})
	inLane := f.watch(f.r.Lane("main"))
	var waits []time.Duration
	for i := range 1000 {
		waits = append(waits, time.Duration(1000+45*i)*time.Millisecond)
	}
	f.submit(waits...)
	f.receipts()
	inLane.reach(t, 20, time.Minute)

	require.NoError(t, m.Healthy())
	for id := 1; id <= brokers; id++ {
		order(t, "kill %d", id)
	}
	down := time.Now()
	var said time.Duration
	waitUntil(t, outage-time.Second)
	// The partitions are lost within seconds, and with them all that could be
	// overdue. Then it is the heartbeats that it misses: from one session after
	// the last one on, for 30 s.
	eventually(t, session+busy, func() (bool, string) {
		err = m.Healthy()
		said = time.Since(down)
		return err != nil && said >= outage, fmt.Sprintf("the mover says that it is well: %v", err)
	})
	require.ErrorIs(t, err, ax.ErrStalled)
	t.Logf("%s after the kill the mover says: %v", said.Round(time.Millisecond), err)
	startAll(t, 1, 2, 3)
	up := time.Now()
	eventually(t, time.Minute, func() (bool, string) {
		err := m.Ready()
		return err == nil, fmt.Sprintf("the mover has to be well again: %v", err)
	})
	well := time.Since(up)
	f.await(2 * time.Minute)
	eventually(t, time.Minute, func() (bool, string) {
		err := m.Healthy()
		return err == nil, fmt.Sprintf("the mover has to stay well: %v", err)
	})
	for name, p := range map[string]*process{"worker": worker, "mover": other} {
		select {
		case err := <-p.end:
			t.Fatalf("the %s has ended: %v", name, err)
		default:
		}
	}
	// What was due just before the outage may not have been run when it began.
	late := f.worst(func(p promise) time.Time {
		if p.due.Before(up) && p.due.After(down.Add(-busy)) {
			return up
		}
		return p.due
	})
	stop()
	other.stop()
	worker.stop()
	// As with one broker that is lost, see judge.
	copied, exposed := f.copied(), f.exposed(down.Add(-commitEvery-commitTrip), down.Add(session+scheduling))
	t.Logf("%d tasks, down for %s, well %s after that; at most %s late, counted from its end (bound %s); copied %v, at most %d in each topic",
		len(f.tasks), up.Sub(down).Round(time.Millisecond), well.Round(time.Millisecond), late.Round(time.Millisecond), afterFault, copied, exposed)
	require.Less(t, late, afterFault)
	for topic, n := range copied {
		require.LessOrEqual(t, n, exposed, topic)
	}
}
