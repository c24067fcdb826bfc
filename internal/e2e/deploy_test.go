//go:build kafka

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
)

// A task of 20 s that may fail once only is interrupted by five deploys: each
// time its worker gets SIGTERM and a grace that is too short for it, and another
// worker takes its place. That spends no attempt.
func TestFiveDeploysInTheMiddleOfATaskWithOneAttemptSpendNone(t *testing.T) {
	t.Parallel()
	const deploys = 5
	r := newDomain(t, func(d *ax.Domain) { d.Lanes = []ax.Lane{{Name: "main", Weight: 1, Partitions: 1}} })
	d := r.Domain()
	told := &report{t: t, path: filepath.Join(t.TempDir(), "facts.jsonl")}
	short := func(s *setup) { s.Grace = time.Second }
	worker := start(t, "worker", d, told.path, short)
	submit(t, client(t, d), ax.Task{ID: "long", Kind: "long", Payload: []byte("20s"), MaxAttempts: 1})
	for range deploys {
		eventually(t, time.Minute, func() (bool, string) {
			return slices.ContainsFunc(told.list(), func(f fact) bool { return f.Worker == worker.pid() }), "the task has to start in the new worker"
		})
		next := start(t, "worker", d, told.path, short)
		worker.stop()
		worker = next
	}
	eventually(t, time.Minute, func() (bool, string) {
		return told.done()["long"] == 1, fmt.Sprintf("the task is not done: %+v", told.list())
	})
	worker.stop()
	require.Equal(t, map[string]int{"long": deploys + 1}, told.starts())
	for _, f := range told.list() {
		require.Equal(t, 1, f.Attempt)
	}
	require.Empty(t, records(t, admin(t), r.Dead()))
}
