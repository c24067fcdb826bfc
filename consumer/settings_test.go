package consumer_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fakekafka"
)

// start runs a worker that the test has at hand.
func (b *bench) start(mux *consumer.Mux, opts ...consumer.Option) *consumer.Worker {
	b.t.Helper()
	w, err := consumer.New(b.domain, mux, append([]consumer.Option{consumer.WithKafka(b.c.Opts()...), consumer.WithLogger(testLog(b.t))}, opts...)...)
	require.NoError(b.t, err)
	run(b.t, w.Run)
	return w
}

func (b *bench) change(w *consumer.Worker, f func(*consumer.Settings)) {
	b.t.Helper()
	require.NoError(b.t, w.Change(f))
	time.Sleep(time.Millisecond) // slots wake up
}

// reading returns how many of something run now.
func (g *gauge) reading(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now[name]
}

func TestSlotsGrowAndShrinkWhileAWorkerRuns(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "only", Weight: 1}}})
		g := newGauge()
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(context.Context, *ax.Task) error { g.during("job", 10*time.Second); return nil })
		for range 200 {
			b.submit(ax.Task{Kind: "job"})
		}
		w := b.start(mux, consumer.WithSlots(4))
		time.Sleep(5 * time.Second)
		require.Equal(t, 4, g.reading("job"))
		b.change(w, func(s *consumer.Settings) { s.Slots = 12 })
		require.Equal(t, 12, g.reading("job"), "at once")
		require.Equal(t, 12, w.Status().Slots)
		b.change(w, func(s *consumer.Settings) { s.Slots = 2 })
		require.Equal(t, 12, g.reading("job"), "what runs is not touched")
		time.Sleep(20 * time.Second)
		require.Equal(t, 2, g.reading("job"))
		require.Equal(t, 2, consumer.SlotsOf(w), "the others have ended")
		b.change(w, func(s *consumer.Settings) { s.Slots = 50 })
		require.Equal(t, 50, g.reading("job"))
		time.Sleep(time.Minute)
		require.Equal(t, 200, g.count("job"))
	})
}

// Weights, reserves and kinds' limits hold from the next start on.
func TestWeightsReservesAndLimitsChangeWhileAWorkerRuns(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{
			Lanes: []ax.Lane{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}},
			Kinds: map[string]ax.Kind{"a": {Lane: "a"}, "b": {Lane: "b"}},
		})
		g := newGauge()
		mux := consumer.NewMux()
		for _, kind := range []string{"a", "b"} {
			mux.HandleFunc(kind, func(context.Context, *ax.Task) error { g.during(kind, time.Second); return nil })
			for range 1500 {
				b.submit(ax.Task{Kind: kind})
			}
		}
		w := b.start(mux, consumer.WithSlots(8))
		within := func(d time.Duration) (a, b int) {
			g.mu.Lock()
			fromA, fromB := g.total["a"], g.total["b"]
			g.mu.Unlock()
			time.Sleep(d)
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.total["a"] - fromA, g.total["b"] - fromB
		}
		time.Sleep(10 * time.Second)
		of := func(want float64) {
			t.Helper()
			a, b := within(50 * time.Second)
			require.InDelta(t, want, float64(a)/float64(a+b), 0.02)
		}
		of(0.5)
		b.change(w, func(s *consumer.Settings) { s.Lane("a").Weight = 3 })
		of(0.75)
		b.change(w, func(s *consumer.Settings) { s.Lane("a").Weight, s.Lane("a").Reserve = 1, 7 })
		of(7. / 8)
		b.change(w, func(s *consumer.Settings) { s.Lane("a").Reserve, s.Kind("a").Concurrency = 0, 2 })
		of(2. / 8)
		b.change(w, func(s *consumer.Settings) { s.Kind("a").Concurrency = 1 })
		of(1. / 8)
		b.change(w, func(s *consumer.Settings) { s.Kind("a").Concurrency, s.Strict, s.Aging = 0, true, -1 })
		of(1)
		require.Equal(t, "a", w.Settings().Lanes[0].Lane)
		require.True(t, w.Settings().Strict)
	})
}

// Whatever is changed and how often: each task runs once, in the order of its
// lane, and no slot stays free while there is work.
func TestChangesLoseNoStart(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) { changeAtRandom(t, c, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func changeAtRandom(t *testing.T, c *fakekafka.Cluster, rng *rand.Rand) {
	const tasks = 600
	b := newBench(t, c, ax.Domain{
		Lanes: []ax.Lane{{Name: "a", Weight: 1, Partitions: 1}, {Name: "b", Weight: 1, Partitions: 1}},
		Kinds: map[string]ax.Kind{"a1": {Lane: "a"}, "a2": {Lane: "a"}, "b1": {Lane: "b"}, "b2": {Lane: "b"}},
	})
	g := newGauge()
	var mu sync.Mutex
	type start struct {
		at     time.Time
		offset int64
	}
	started := map[string][]start{}
	mux := consumer.NewMux()
	for _, kind := range []string{"a1", "a2", "b1", "b2"} {
		mux.HandleFunc(kind, func(_ context.Context, task *ax.Task) error {
			mu.Lock()
			started[kind] = append(started[kind], start{time.Now(), task.Source.Offset})
			mu.Unlock()
			g.during("all", time.Duration(1+task.Source.Offset%50)*20*time.Millisecond)
			return nil
		})
		for range tasks {
			b.submit(ax.Task{Kind: kind})
		}
	}
	w := b.start(mux, consumer.WithSlots(4))
	time.Sleep(3 * time.Second)
	limited := false
	for g.count("all") < 4*tasks-100 {
		b.change(w, func(s *consumer.Settings) {
			switch s.Slots = 1 + rng.IntN(40); rng.IntN(4) {
			case 0:
				s.Lanes[rng.IntN(2)].Weight = 1 + rng.IntN(1000)
			case 1:
				s.Lanes[0].Reserve = rng.IntN(5)
			case 2:
				s.Kinds[rng.IntN(4)].Concurrency = rng.IntN(10)
			case 3:
				s.Strict = !s.Strict
			}
			limited = s.Lanes[0].Reserve > 0
			for _, k := range s.Kinds {
				limited = limited || k.Concurrency > 0
			}
		})
		now, slots := g.reading("all"), w.Settings().Slots
		if !limited {
			require.GreaterOrEqual(t, now, slots, "a slot is free and there is work")
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		require.LessOrEqual(t, g.reading("all"), max(now, slots), "too many were started")
	}
	require.NoError(t, w.Change(func(s *consumer.Settings) {
		s.Lanes[0].Reserve = 0
		for i := range s.Kinds {
			s.Kinds[i].Concurrency = 0
		}
	}))
	time.Sleep(time.Minute)
	mu.Lock()
	defer mu.Unlock()
	for kind, starts := range started {
		require.Len(t, starts, tasks)
		slices.SortFunc(starts, func(a, b start) int { // at one instant slots are in any order
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.offset, b.offset))
		})
		var offsets []int64
		for _, s := range starts {
			offsets = append(offsets, s.offset)
		}
		require.IsIncreasing(t, offsets, "kind %s: not in the order of its lane, or twice", kind)
	}
}

func (g *gauge) count(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.total[name]
}

func TestAChangeIsAllOrNothing(t *testing.T) {
	t.Parallel()
	mux := consumer.NewMux()
	mux.HandleFunc("job", func(context.Context, *ax.Task) error { return nil })
	w, err := consumer.New(ax.Domain{Name: "orders", Lanes: []ax.Lane{{Name: "a", Weight: 1, Partitions: 6}, {Name: "b", Weight: 1}}}, mux)
	require.NoError(t, err)
	before := w.Settings()
	for _, tt := range []struct {
		change func(*consumer.Settings)
		want   string
	}{
		{func(s *consumer.Settings) { s.Slots = 0 }, "slots: 0: want 1 to 100000"},
		{func(s *consumer.Settings) { s.Lane("b").Weight = 0 }, "lanes[1].weight: 0: want 1 to 1000"},
		{func(s *consumer.Settings) { s.Lane("a").Reserve = -1 }, "lanes[0].reserve: -1"},
		{func(s *consumer.Settings) { s.Lane("a").MaxWait = -1 }, "lanes[0].max_wait"},
		{func(s *consumer.Settings) { s.Lane("a").MaxGap = -1 }, "lanes[0].max_gap"},
		{func(s *consumer.Settings) { s.Lane("a").Limit = 5 }, "lanes[0].limit: 5: want 0 or at least one for each of the 6 partitions"},
		{func(s *consumer.Settings) { s.Kind("job").Concurrency = -1 }, "kinds.job.concurrency: -1"},
		{func(s *consumer.Settings) { s.Kind("job").Breaker = "ajar" }, `kinds[0].breaker: "ajar": want open, closed or nothing`},
		{func(s *consumer.Settings) { s.Aging = 2 }, "sharing.aging: 2"},
		{func(s *consumer.Settings) { s.Lanes = s.Lanes[:1] }, "lanes can't be added"},
		{func(s *consumer.Settings) { s.Lanes[0].Lane = "c" }, "lanes can't be added"},
		{func(s *consumer.Settings) { s.Kinds = nil }, "kinds can't be added"},
	} {
		err := w.Change(func(s *consumer.Settings) {
			s.Lane("a").Weight = 77
			tt.change(s)
		})
		require.ErrorContains(t, err, tt.want)
		require.ErrorContains(t, err, "ax: worker of domain orders: change: ")
		require.Equal(t, before, w.Settings())
	}
	var field *ax.FieldError
	require.ErrorAs(t, w.Change(func(s *consumer.Settings) { s.Slots = -3 }), &field)
	require.Equal(t, "slots", field.Path)
	require.Nil(t, before.Lane("none"))
	require.Nil(t, before.Kind("none"))

	var kept *consumer.Settings
	require.NoError(t, w.Change(func(s *consumer.Settings) { s.Slots, kept = 3, s }))
	kept.Lanes[0].Weight = 500
	require.Equal(t, 3, w.Settings().Slots)
	require.Equal(t, 1, w.Settings().Lanes[0].Weight, "what the caller keeps is its own")
}

// What was changed before Run holds in it.
func TestSettingsCanBeChangedBeforeRun(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {Concurrency: 1}}})
		g := newGauge()
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(context.Context, *ax.Task) error { g.during("job", 10*time.Second); return nil })
		for range 20 {
			b.submit(ax.Task{Kind: "job"})
		}
		w, err := consumer.New(b.domain, mux, consumer.WithKafka(c.Opts()...))
		require.NoError(t, err)
		require.NoError(t, w.Change(func(s *consumer.Settings) { s.Slots, s.Kind("job").Concurrency = 9, 7 }))
		run(t, w.Run)
		time.Sleep(5 * time.Second)
		require.Equal(t, 7, g.reading("job"))
	})
}

// A lane whose buffer is full of a kind that may not start isn't read on. The
// worker says so.
func TestALaneFullOfALimitedKindSaysSo(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"heavy": {Concurrency: 1}, "other": {Lane: "critical"}}})
		mux := consumer.NewMux()
		g := newGauge()
		mux.HandleFunc("heavy", func(context.Context, *ax.Task) error { g.during("heavy", 15*time.Second); return nil })
		mux.HandleFunc("other", func(context.Context, *ax.Task) error { g.during("other", 20*time.Second); return nil })
		var log logBuffer
		w := b.start(mux, consumer.WithSlots(4), consumer.WithBuffer(10, 1<<20), consumer.WithLogger(log.logger()))
		limited := func() string {
			for _, l := range w.Status().Lanes {
				if l.Lane == "normal" {
					return l.LimitedBy
				}
			}
			return "no lane"
		}
		for range 4 {
			b.submit(ax.Task{Kind: "other"})
		}
		time.Sleep(time.Second)
		for range 25 {
			b.submit(ax.Task{Kind: "heavy"})
		}
		time.Sleep(time.Second)
		require.Empty(t, limited(), "it waits for a slot, and for no limit")
		time.Sleep(20 * time.Second)
		require.Equal(t, "heavy", limited())
		require.NoError(t, w.Healthy(), "it does what it is told")
		time.Sleep(time.Minute)
		require.Contains(t, log.String(), "give that kind a lane of its own")
		b.change(w, func(s *consumer.Settings) { s.Kind("heavy").Concurrency = 0 })
		require.Equal(t, 3, g.reading("heavy"), "those start at once that the reserve lets")
		time.Sleep(3 * time.Minute)
		require.Empty(t, limited())
	})
}

// logBuffer keeps what is logged.
type logBuffer struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
