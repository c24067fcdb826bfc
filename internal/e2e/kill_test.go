//go:build kafka

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

// Tasks over four lanes with delays of 0 to 20 s, while worker and mover are
// each killed twice: none is lost, none starts early, and the repeats are what
// was in flight and what was finished or moved since the last commit.
func TestKilledWorkersAndMoversLoseNothing(t *testing.T) {
	t.Parallel()
	load(t)
	const n, kills = 20_000, 2
	r := newDomain(t, func(d *ax.Domain) { d.Delay.Rate = 3000 })
	d := r.Domain()
	facts := filepath.Join(t.TempDir(), "facts.jsonl")
	worker := start(t, "worker", d, facts)
	mover := start(t, "mover", d, facts)

	c := client(t, d, producer.WithBuffer(n, 64<<20))
	due := make(map[string]time.Time, n)
	var moved []time.Time // when a task leaves a tier
	type answer struct {
		receipt ax.Receipt
		wait    time.Duration
		err     error
	}
	answers := make(chan answer, n)
	submit := func(from, to int) {
		for i := from; i < to; i++ {
			task := ax.Task{
				Kind: "job", Payload: fmt.Append(nil, i), Lane: []string{"critical", "high", "normal", "low"}[i%4],
				Headers: []ax.Header{{Name: "n", Value: fmt.Append(nil, i)}},
			}
			var wait time.Duration
			opts := []producer.SubmitOption{}
			if i%5 > 0 { // a fifth at once
				wait = time.Duration(i%20_000) * time.Millisecond
				opts = append(opts, producer.After(wait))
			}
			c.SubmitAsync(context.Background(), task, func(r ax.Receipt, err error) { answers <- answer{r, wait, err} }, opts...)
		}
	}
	collect := func(k int) {
		for range k {
			a := <-answers
			require.NoError(t, a.err)
			due[a.receipt.ID] = a.receipt.Due
			moved = append(moved, moves(r, a.receipt.Due, a.wait)...)
		}
	}
	var workersKilled, moversKilled []time.Time
	submit(0, n/2)
	collect(n / 2)
	for i := range kills {
		waitUntil(t, 4*time.Second)
		worker.kill()
		workersKilled = append(workersKilled, time.Now())
		worker = start(t, "worker", d, facts)
		if i == 0 {
			submit(n/2, n)
			collect(n / 2)
		}
		waitUntil(t, 8*time.Second)
		mover.kill()
		moversKilled = append(moversKilled, time.Now())
		mover = start(t, "mover", d, facts)
		waitUntil(t, 8*time.Second)
	}
	require.Len(t, due, n)

	told := &report{t: t, path: facts}
	eventually(t, 2*time.Minute, func() (bool, string) {
		ran := len(told.starts())
		return ran == n, fmt.Sprintf("%d of %d tasks have run", ran, n)
	})
	worker.stop()
	mover.stop()
	all := told.list()

	early := 0
	seen := map[string]int{}
	for _, f := range all {
		at, known := due[f.ID]
		require.True(t, known, "a task nobody submitted: %s", f.ID)
		if !f.Due.IsZero() && f.At.Before(at) {
			early++
		}
		require.Equal(t, 1, f.Attempt)
		seen[f.ID]++
	}
	require.Zero(t, early, "tasks that started before they were due")
	repeats := len(all) - n
	// Since the last commit: the interval of 200 ms, and the commit itself,
	// which a busy machine can make slow. A mover may lag behind its tiers, too.
	bound := 0
	for _, at := range workersKilled {
		bound += slots
		for _, f := range all {
			if since := at.Sub(f.At); since > -200*time.Millisecond && since < 1200*time.Millisecond {
				bound++
			}
		}
	}
	for _, at := range moversKilled {
		for _, m := range moved {
			if since := at.Sub(m); since > -200*time.Millisecond && since < 3*time.Second {
				bound++
			}
		}
	}
	t.Logf("%d tasks, %d kills: %d repeats, bound %d", n, 2*kills, repeats, bound)
	require.LessOrEqual(t, repeats, bound)
}

// moves returns when a task leaves each of the tiers on its way.
func moves(r *router.Router, due time.Time, wait time.Duration) (all []time.Time) {
	task := ax.Task{Lane: "normal", Due: due} // zero where it goes to its lane at once
	for at := due.Add(-wait); ; at = task.Leave {
		topic := r.Next(&task, at, at)
		if topic == r.Lane(task.Lane) {
			return all
		}
		if topic == r.Near() {
			return append(all, due)
		}
		all = append(all, task.Leave)
	}
}

// One task works on while 9,000 behind it finish. Each of these was committed,
// in the commit's metadata, before the process is killed: none of them runs
// again. No repeat is allowed but that of the task that was at work.
func TestAKillWith9000FinishedAboveOneRunsOnlyThatOneAgain(t *testing.T) {
	t.Parallel()
	const n = 9000
	r := newDomain(t, func(d *ax.Domain) { d.Lanes = []ax.Lane{{Name: "main", Weight: 1, Partitions: 1}} })
	d, adm := r.Domain(), admin(t)
	dir := t.TempDir()
	facts, release := filepath.Join(dir, "facts.jsonl"), filepath.Join(dir, "release")
	told := &report{t: t, path: facts}
	worker := start(t, "worker", d, facts)
	c := client(t, d)
	submit(t, c, ax.Task{ID: "first", Kind: "hold", Payload: []byte(release), Timeout: time.Hour})
	submit(t, c, jobs("job", n)...)
	awaitCommit(t, adm, r.LaneGroup("main"), r.Lane("main"), 0, n+1)
	worker.kill()
	worker = start(t, "worker", d, facts)
	eventually(t, time.Minute, func() (bool, string) { return told.starts()["first"] == 2, "the first task has to run again" })
	require.NoError(t, os.WriteFile(release, nil, 0o600))
	awaitEnd(t, adm, r.LaneGroup("main"), r.Lane("main"), n+1)
	worker.stop()
	starts := told.starts()
	require.Len(t, starts, n+1)
	require.Equal(t, 2, starts["first"])
	require.Len(t, told.list(), n+2, "only the task that was at work may run again")
}

// waitUntil lets real time pass: the faults of this test happen in the middle
// of work, whatever the work has come to.
func waitUntil(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
