//go:build kafka

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/producer"
)

// Tasks over four lanes with delays of 0 to 20 s, while worker and mover are
// each killed twice: none is lost, none starts early, and the repeats are what
// was in flight and what was finished or moved since the last commit.
func TestKilledWorkersAndMoversLoseNothing(t *testing.T) {
	const n, kills = 20_000, 2
	r := newDomain(t, func(d *ax.Domain) { d.Delay.Rate = 3000 })
	d := r.Domain()
	facts := filepath.Join(t.TempDir(), "facts.jsonl")
	worker := start(t, "worker", d, facts)
	mover := start(t, "mover", d, facts)

	c := client(t, d, producer.WithBuffer(n, 64<<20))
	due := make(map[string]time.Time, n)
	type answer struct {
		receipt ax.Receipt
		err     error
	}
	answers := make(chan answer, n)
	submit := func(from, to int) {
		for i := from; i < to; i++ {
			task := ax.Task{
				Kind: "job", Payload: fmt.Append(nil, i), Lane: []string{"critical", "high", "normal", "low"}[i%4],
				Headers: []ax.Header{{Name: "n", Value: fmt.Append(nil, i)}},
			}
			opts := []producer.SubmitOption{}
			if i%5 > 0 { // a fifth at once
				opts = append(opts, producer.After(time.Duration(i%20_000)*time.Millisecond))
			}
			c.SubmitAsync(context.Background(), task, func(r ax.Receipt, err error) { answers <- answer{r, err} }, opts...)
		}
	}
	collect := func(k int) {
		for range k {
			a := <-answers
			require.NoError(t, a.err)
			due[a.receipt.ID] = a.receipt.Due
		}
	}
	var killed []time.Time
	submit(0, n/2)
	collect(n / 2)
	for i := range kills {
		waitUntil(t, 4*time.Second)
		worker.kill()
		killed = append(killed, time.Now())
		worker = start(t, "worker", d, facts)
		if i == 0 {
			submit(n/2, n)
			collect(n / 2)
		}
		waitUntil(t, 8*time.Second)
		mover.kill()
		killed = append(killed, time.Now())
		mover = start(t, "mover", d, facts)
		waitUntil(t, 8*time.Second)
	}
	require.Len(t, due, n)

	var all []fact
	eventually(t, 2*time.Minute, func() (bool, string) {
		all = read(t, facts)
		ids := map[string]bool{}
		for _, f := range all {
			ids[f.ID] = true
		}
		return len(ids) == n, fmt.Sprintf("%d of %d tasks have run", len(ids), n)
	})
	worker.stop()
	mover.stop()
	all = read(t, facts)

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
	// which a busy machine can make slow.
	bound := 0
	for _, at := range killed {
		bound += slots
		for _, f := range all {
			if since := at.Sub(f.At); since > -200*time.Millisecond && since < 1200*time.Millisecond {
				bound++
			}
		}
	}
	t.Logf("%d tasks, %d kills: %d repeats, bound %d", n, len(killed), repeats, bound)
	require.LessOrEqual(t, repeats, bound)
}

func read(t *testing.T, path string) []fact {
	t.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	defer f.Close()
	var all []fact
	for s := bufio.NewScanner(f); s.Scan(); {
		var x fact
		require.NoError(t, json.Unmarshal(s.Bytes(), &x), "%s", s.Text())
		all = append(all, x)
	}
	return all
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
