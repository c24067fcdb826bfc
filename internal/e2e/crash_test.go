//go:build kafka

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/producer"
)

// supervisor keeps workers running: one that has died is started again after a
// second.
type supervisor struct {
	t      *testing.T
	domain ax.Domain
	facts  string
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	crashes int
}

func supervise(t *testing.T, n int, d ax.Domain, facts string) *supervisor {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &supervisor{t: t, domain: d, facts: facts, cancel: cancel}
	for range n {
		s.group.Go(func() { s.keep(ctx) })
	}
	t.Cleanup(s.stop)
	return s
}

func (s *supervisor) keep(ctx context.Context) {
	for ctx.Err() == nil {
		p, err := spawn(s.t, "worker", s.domain, s.facts)
		if err != nil {
			s.t.Error(err)
			return
		}
		select {
		case err := <-p.end:
			s.died(err)
		case <-ctx.Done():
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			if err := <-p.end; err != nil {
				s.t.Errorf("a worker that was stopped: %v", err)
			}
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func (s *supervisor) died(err error) {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != crashCode {
		s.t.Errorf("a worker ended, and not by a task: %v", err)
	}
	s.mu.Lock()
	s.crashes++
	s.mu.Unlock()
}

func (s *supervisor) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crashes
}

// stop stops the workers, which have to end cleanly.
func (s *supervisor) stop() {
	s.cancel()
	s.group.Wait()
}

// Tasks that end their process, in two of the partitions of three workers, with
// innocent ones beside them: the killers alone end dead, as crashed. The other
// lane goes on all the time, but for what the death of its workers costs.
func TestTasksThatKillTheirProcessEndAsCrashedAndBlameNobodyElse(t *testing.T) {
	t.Parallel()
	r := newDomain(t, func(d *ax.Domain) {
		d.Lanes = []ax.Lane{{Name: "main", Weight: 1, Partitions: 6}, {Name: "other", Weight: 1, Partitions: 6}}
	})
	d, adm, c := r.Domain(), admin(t), client(t, r.Domain())
	told := &report{t: t, path: filepath.Join(t.TempDir(), "facts.jsonl")}
	keys := twoPartitions(t, c, "main")
	var innocent []string
	for i := range 20 {
		id := fmt.Sprintf("innocent-%02d", i)
		innocent = append(innocent, id)
		submit(t, c, ax.Task{ID: id, Kind: "long", Payload: []byte("3s"), Lane: "main", Key: keys[i%2]})
		if i == 7 || i == 12 {
			submit(t, c, ax.Task{ID: fmt.Sprintf("killer-%02d", i), Kind: "crash", Lane: "main", Key: keys[i%2]})
		}
	}
	began := time.Now()
	s := supervise(t, 3, d, told.path)
	others := 0
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for over := false; !over; {
		<-tick.C
		submit(t, c, ax.Task{ID: fmt.Sprintf("other-%d", others), Kind: "job", Lane: "other"})
		others++
		if others%8 > 0 {
			continue
		}
		dead, done := len(records(t, adm, r.Dead())), told.done()
		over = dead >= 2 && len(done) >= len(innocent)
		if time.Since(began) > 6*time.Minute {
			t.Fatalf("after %d crashes %d tasks are dead, and %d innocent ones done", s.count(), dead, len(done))
		}
	}
	t.Logf("over after %s and %d crashes", time.Since(began).Round(time.Second), s.count())
	eventually(t, time.Minute, func() (bool, string) {
		ran := 0
		for id := range told.starts() {
			if strings.HasPrefix(id, "other-") {
				ran++
			}
		}
		return ran == others, fmt.Sprintf("of the other lane, %d of %d tasks have run", ran, others)
	})
	s.stop()

	var who []string
	for _, rec := range records(t, adm, r.Dead()) {
		task, err := ax.Decode(rec, [16]byte{})
		require.NoError(t, err)
		who = append(who, task.ID)
		i := slices.IndexFunc(rec.Headers, func(h kgo.RecordHeader) bool { return h.Key == ax.HeaderDeadReason })
		require.Equal(t, string(ax.ReasonCrashed), string(rec.Headers[i].Value), task.ID)
	}
	require.ElementsMatch(t, []string{"killer-07", "killer-12"}, who)
	done := told.done()
	for _, id := range innocent {
		require.GreaterOrEqual(t, done[id], 1, id)
	}
	require.Less(t, s.count(), 30)
	pause := longestPause(told.list(), "other-")
	t.Logf("%d tasks of the other lane, longest pause %s", others, pause)
	require.Less(t, pause, 30*time.Second)
}

// longestPause returns the longest time in which no task with the prefix began.
func longestPause(facts []fact, prefix string) (longest time.Duration) {
	var at []time.Time
	for _, f := range facts {
		if strings.HasPrefix(f.ID, prefix) {
			at = append(at, f.At)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	for i := 1; i < len(at); i++ {
		longest = max(longest, at[i].Sub(at[i-1]))
	}
	return longest
}

// twoPartitions returns two keys that are in different partitions of a lane.
func twoPartitions(t *testing.T, c *producer.Client, lane string) [2]string {
	t.Helper()
	task := func(key string) ax.Task { return ax.Task{ID: "key-" + key, Kind: "job", Lane: lane, Key: key} }
	first := submit(t, c, task("k0"))[0].Partition
	for i := 1; ; i++ {
		key := fmt.Sprintf("k%d", i)
		if submit(t, c, task(key))[0].Partition != first {
			return [2]string{"k0", key}
		}
	}
}
