//go:build kafka

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

// delayed is the delayed tasks of one test, and what becomes of them: the
// starts, as the worker processes saw them, and each record of each topic.
type delayed struct {
	t    *testing.T
	r    *router.Router
	adm  *kadm.Client
	c    *producer.Client
	told *report

	answers sync.WaitGroup
	mu      sync.Mutex
	tasks   map[string]promise
	failed  error
}

// promise is what a receipt says.
type promise struct {
	wait  time.Duration
	due   time.Time
	acked time.Time
}

// since is from when the task counts as late.
func (p promise) since() time.Time {
	if p.acked.After(p.due) {
		return p.acked
	}
	return p.due
}

func newDelayed(t *testing.T, change func(*ax.Domain)) *delayed {
	t.Helper()
	r := newDomain(t, func(d *ax.Domain) {
		d.Lanes = []ax.Lane{{Name: "main", Weight: 1, Partitions: 3}}
		if change != nil {
			change(d)
		}
	})
	return &delayed{
		t: t, r: r, adm: kadm.NewClient(bare(t, kgo.MetadataMinAge(50*time.Millisecond), kgo.RequestTimeoutOverhead(2*time.Second))),
		c: client(t, r.Domain()), told: &report{t: t, path: filepath.Join(t.TempDir(), "facts.jsonl")}, tasks: map[string]promise{},
	}
}

func (f *delayed) start(role string) *process {
	f.t.Helper()
	return start(f.t, role, f.r.Domain(), f.told.path)
}

// submit hands over one task for each of the waits. The answers come later.
func (f *delayed) submit(waits ...time.Duration) {
	for _, wait := range waits {
		f.answers.Add(1)
		f.c.SubmitAsync(context.Background(), ax.Task{Kind: "job"}, func(r ax.Receipt, err error) {
			defer f.answers.Done()
			f.mu.Lock()
			defer f.mu.Unlock()
			if err != nil {
				f.failed = err
			}
			f.tasks[r.ID] = promise{wait, r.Due, time.Now()}
		}, producer.After(wait))
	}
}

// pour submits tasks with the waits each 50 ms, until it is stopped.
func (f *delayed) pour(waits ...time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			f.submit(waits...)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	stop = func() { cancel(); <-done }
	f.t.Cleanup(stop)
	return stop
}

// receipts waits for the answers to all that was submitted.
func (f *delayed) receipts() {
	f.t.Helper()
	f.answers.Wait()
	require.NoError(f.t, f.failed)
}

// await waits until every task has started: none is lost.
func (f *delayed) await(limit time.Duration) {
	f.t.Helper()
	f.receipts()
	eventually(f.t, limit, func() (bool, string) {
		n := 0
		for id := range f.told.starts() {
			if _, ours := f.tasks[id]; ours {
				n++
			}
		}
		return n == len(f.tasks), fmt.Sprintf("%d of %d tasks have run", n, len(f.tasks))
	})
}

// worst returns the greatest lateness of a task's first start, counted from
// since. It requires that no task started before it was due.
func (f *delayed) worst(since func(promise) time.Time) (worst time.Duration) {
	f.t.Helper()
	first := map[string]time.Time{}
	for _, x := range f.told.list() {
		p, ours := f.tasks[x.ID]
		require.True(f.t, ours, "a task that nobody submitted: %s", x.ID)
		require.False(f.t, x.At.Before(p.due), "task %s started %s early", x.ID, p.due.Sub(x.At))
		if at, ok := first[x.ID]; !ok || x.At.Before(at) {
			first[x.ID] = x.At
		}
	}
	for id, at := range first {
		worst = max(worst, at.Sub(since(f.tasks[id])))
	}
	return worst
}

// step is that a task enters a topic.
type step struct {
	topic string
	at    time.Time
}

// way returns the topics that a task enters where nothing goes wrong, the one to
// which it is submitted first. One that is late may skip some of them, and takes
// no others.
func way(r *router.Router, due time.Time, wait time.Duration) (steps []step) {
	task := ax.Task{Lane: "main", Due: due}
	for at := due.Add(-wait); ; at = task.Leave {
		topic := r.Next(&task, at, at)
		steps = append(steps, step{topic, at})
		switch topic {
		case r.Lane("main"):
			return steps
		case r.Near():
			return append(steps, step{r.Lane("main"), due})
		}
	}
}

// seen is every record of a topic, oldest first, by the id of its task.
func (f *delayed) seen(topic string) map[string][]*kgo.Record {
	f.t.Helper()
	all := map[string][]*kgo.Record{}
	for _, rec := range records(f.t, f.adm, topic) {
		all[idOf(rec)] = append(all[idOf(rec)], rec)
	}
	for _, recs := range all {
		slices.SortFunc(recs, func(a, b *kgo.Record) int { return a.Timestamp.Compare(b.Timestamp) })
	}
	return all
}

func idOf(rec *kgo.Record) string {
	for _, h := range rec.Headers {
		if h.Key == ax.HeaderID {
			return string(h.Value)
		}
	}
	return ""
}

// exposed returns how many tasks a mover has moved, or was to move, in that time.
func (f *delayed) exposed(from, to time.Time) (n int) {
	for _, p := range f.tasks {
		if slices.ContainsFunc(way(f.r, p.due, p.wait)[1:], func(s step) bool { return s.at.After(from) && s.at.Before(to) }) {
			n++
		}
	}
	return n
}

// copied returns, for each topic that has more records than the tasks' ways
// make, how many tasks have such records there. It requires that no task is
// copied again and again: where each of the movers' two groups has lost its
// partitions once, and read again what it had not committed, each of a task's
// records is there twice for each of these at most.
func (f *delayed) copied() (tasks map[string]int) {
	f.t.Helper()
	tasks = map[string]int{}
	topics := []string{f.r.Near(), f.r.Lane("main")}
	for _, tier := range f.r.Tiers() {
		topics = append(topics, tier.Topic)
	}
	for _, topic := range topics {
		for id, recs := range f.seen(topic) {
			p, ours := f.tasks[id]
			require.True(f.t, ours, "a task that nobody submitted: %s", id)
			n := 0
			for _, s := range way(f.r, p.due, p.wait) {
				if s.topic == topic {
					n++
				}
			}
			require.LessOrEqual(f.t, len(recs), 4*n, "%s: task %s with a wait of %s", topic, id, p.wait)
			if len(recs) > n {
				tasks[topic]++
			}
		}
	}
	require.Empty(f.t, f.seen(f.r.Dead()))
	return tasks
}

// watch counts the tasks that have entered a topic, as they do.
type watch struct {
	mu  sync.Mutex
	ids map[string]bool
	// at is when the last of them was seen that had not been there before.
	at time.Time
}

func (f *delayed) watch(topic string) *watch {
	f.t.Helper()
	cl := bare(f.t, kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MetadataMinAge(50*time.Millisecond))
	w := &watch{ids: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if id := idOf(rec); !w.ids[id] {
					w.ids[id], w.at = true, time.Now()
				}
			})
		}
	}()
	f.t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *watch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ids)
}

// reach waits until n tasks have entered the topic. It looks more often than
// eventually does: what follows hits the mover between a publish and its commit.
func (w *watch) reach(t *testing.T, n int, limit time.Duration) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(limit)
	for w.count() < n {
		require.True(t, time.Now().Before(end), "after %s %d of %d tasks have come", limit, w.count(), n)
		<-tick.C
	}
}
