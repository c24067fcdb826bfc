//go:build kafka

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/router"
)

// A worker is frozen for longer than its session, with all of its slots taken
// and 200 tasks in its buffer, and another does them. When the first one runs
// again, it must notice before it starts them too: no more of them than it has
// slots.
func TestAFrozenWorkerStartsNextToNothingOfWhatAnotherHasDoneMeanwhile(t *testing.T) {
	t.Parallel()
	const n, few, length = 200, 4, 12 * time.Second
	r := newDomain(t, func(d *ax.Domain) { d.Lanes = []ax.Lane{{Name: "main", Weight: 1, Partitions: 2}} })
	d, c := r.Domain(), client(t, r.Domain())
	told := &report{t: t, path: filepath.Join(t.TempDir(), "facts.jsonl")}
	keys := twoPartitions(t, c, "main")
	slow := start(t, "worker", d, told.path, func(s *setup) { s.Slots = few })
	quick := start(t, "worker", d, told.path)
	awaitShared(t, r, 2)
	with := func(key string, tasks []ax.Task) []ax.Task {
		for i := range tasks {
			tasks[i].Key = key
		}
		return tasks
	}
	started := func(prefix string, worker int, after time.Time) (ids map[string]bool) {
		ids = map[string]bool{}
		for _, f := range told.list() {
			if strings.HasPrefix(f.ID, prefix) && !f.Done && f.At.After(after) && (worker == 0 || f.Worker == worker) {
				ids[f.ID] = true
			}
		}
		return ids
	}
	for i, key := range keys {
		submit(t, c, with(key, jobs(fmt.Sprintf("probe%d", i), 1))...)
	}
	eventually(t, time.Minute, func() (bool, string) { return len(started("probe", 0, time.Time{})) == 2, "both workers have to work" })
	key := keys[0]
	if started("probe1", slow.pid(), time.Time{})["probe1-0"] {
		key = keys[1]
	}

	busy := with(key, jobs("busy", few))
	for i := range busy {
		busy[i].Kind, busy[i].Payload = "long", []byte("4s")
	}
	submit(t, c, busy...)
	eventually(t, time.Minute, func() (bool, string) {
		return len(started("busy", slow.pid(), time.Time{})) == few, "the slots have to be taken"
	})
	submit(t, c, with(key, jobs("task", n))...)
	waitUntil(t, time.Second) // it has read them, by now
	slow.signal(syscall.SIGSTOP)
	frozen := time.Now()
	require.Empty(t, started("task", 0, time.Time{}))
	eventually(t, time.Minute, func() (bool, string) {
		others := len(started("task", quick.pid(), frozen))
		return others == n && time.Since(frozen) >= length, fmt.Sprintf("the other has done %d of %d", others, n)
	})
	took := time.Since(frozen)
	thawed := time.Now()
	slow.signal(syscall.SIGCONT)
	eventually(t, time.Minute, func() (bool, string) {
		for _, key := range keys {
			submit(t, c, with(key, jobs("later", 1))...)
		}
		return len(started("later", slow.pid(), thawed)) > 0, "the worker that was frozen has to work again"
	})
	again := len(started("task", slow.pid(), thawed))
	t.Logf("frozen for %s with %d tasks in its buffer: it started %d of what the other had done", took.Round(time.Second), n, again)
	require.LessOrEqual(t, again, few)
	slow.stop()
	quick.stop()
}

// awaitShared waits until so many workers have a partition of the main lane.
func awaitShared(t *testing.T, r *router.Router, workers int) {
	t.Helper()
	adm, group := admin(t), r.LaneGroup("main")
	eventually(t, time.Minute, func() (bool, string) {
		groups, err := adm.DescribeGroups(t.Context(), group)
		own := 0
		for _, m := range groups[group].Members {
			if a, ok := m.Assigned.AsConsumer(); ok && len(a.Topics) > 0 {
				own++
			}
		}
		return own == workers, fmt.Sprintf("%d workers have a partition: %v", own, err)
	})
}
