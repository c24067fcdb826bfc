package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// gauge counts how many of something run at once.
type gauge struct {
	mu        sync.Mutex
	now, most map[string]int
	total     map[string]int
}

func newGauge() *gauge {
	return &gauge{now: map[string]int{}, most: map[string]int{}, total: map[string]int{}}
}

func (g *gauge) during(name string, d time.Duration) {
	g.mu.Lock()
	g.now[name]++
	g.total[name]++
	g.most[name] = max(g.most[name], g.now[name])
	g.mu.Unlock()
	time.Sleep(d)
	g.mu.Lock()
	g.now[name]--
	g.mu.Unlock()
}

func TestAKindsLimitIsASkipThatHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"slow": {Concurrency: 2}}})
		g := newGauge()
		mux := consumer.NewMux()
		mux.HandleFunc("slow", func(context.Context, *ax.Task) error { g.during("slow", time.Second); return nil })
		mux.HandleFunc("quick", func(context.Context, *ax.Task) error { g.during("quick", 10*time.Millisecond); return nil })
		for range 20 {
			b.submit(ax.Task{Kind: "slow"})
		}
		for range 100 {
			b.submit(ax.Task{Kind: "quick"})
		}
		b.worker(mux, consumer.WithSlots(10))
		time.Sleep(5 * time.Second)
		g.mu.Lock()
		require.Equal(t, 100, g.total["quick"])
		require.Equal(t, 2, g.most["slow"])
		g.mu.Unlock()
		time.Sleep(10 * time.Second)
		g.mu.Lock()
		defer g.mu.Unlock()
		require.Equal(t, 20, g.total["slow"])
		require.Equal(t, 2, g.most["slow"])
	})
}

// Three workers share a lane whose limit is 4 over 3 partitions.
func TestALanesLimitHoldsOverAllWorkers(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "heavy", Weight: 1, Partitions: 3, Limit: 4}}})
		g := newGauge()
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(context.Context, *ax.Task) error { g.during("job", time.Second); return nil })
		for range 3 {
			b.worker(mux, consumer.WithSlots(8))
		}
		time.Sleep(3 * time.Second)
		for range 60 {
			b.submit(ax.Task{Kind: "job"})
		}
		time.Sleep(30 * time.Second)
		g.mu.Lock()
		defer g.mu.Unlock()
		require.Equal(t, 60, g.total["job"])
		require.Equal(t, 4, g.most["job"], "all permits are used and no more")
	})
}

func TestALaneKeepsOrderByKeyAlsoWhileTasksFail(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{
			Lanes: []ax.Lane{{Name: "ordered", Weight: 1, Partitions: 2, Order: ax.OrderKey}},
			Kinds: map[string]ax.Kind{"job": {Attempts: 3, Backoff: ax.Backoff{Delays: []time.Duration{2 * time.Second}}}},
		})
		var got starts
		g := newGauge()
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, t *ax.Task) error {
			got.add(t)
			g.during(t.Key, 50*time.Millisecond)
			switch {
			case t.Key == "a" && string(t.Payload) == "3" && t.Attempt < 3:
				return errors.New("not yet")
			case t.Key == "b" && string(t.Payload) == "1":
				return errors.New("never")
			}
			return nil
		})
		b.mover()
		b.worker(mux, consumer.WithSlots(16))
		keys := []string{"a", "b", "c", "d"}
		for i := range 8 {
			for _, k := range keys {
				b.submit(ax.Task{Kind: "job", Key: k, Payload: fmt.Append(nil, i)})
			}
		}
		b.submit(ax.Task{Kind: "job", Payload: []byte("no key")})
		time.Sleep(time.Minute)
		order := map[string][]string{}
		last := map[string]time.Time{}
		for _, s := range got.list() {
			order[s.Key] = append(order[s.Key], string(s.Payload))
			last[s.Key] = s.at
		}
		require.Equal(t, []string{"0", "1", "2", "3", "3", "3", "4", "5", "6", "7"}, order["a"])
		require.Equal(t, []string{"0", "1", "1", "1", "2", "3", "4", "5", "6", "7"}, order["b"])
		for _, k := range []string{"c", "d"} {
			require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, order[k])
			require.Less(t, last[k].Sub(got.list()[0].at), 2*time.Second, "other keys keep their pace")
		}
		g.mu.Lock()
		for k, n := range g.most {
			require.Equal(t, 1, n, "key %q", k)
		}
		g.mu.Unlock()
		require.Len(t, c.Records(t, b.r.Dead()), 1)
		b.requireCommitted("ordered", 33)
	})
}

// A stuck task and a flood behind it: what is held in memory stays bounded.
func TestALaneReadsNoMoreThanItsBufferHolds(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "normal", Weight: 1, Partitions: 1}}})
		var tasks []ax.Task
		for range 5000 {
			tasks = append(tasks, ax.Task{Kind: "job", Payload: make([]byte, 1000)})
		}
		for i := 0; i < len(tasks); i += 500 {
			for _, r := range b.client.SubmitMany(t.Context(), tasks[i:i+500]) {
				require.NoError(t, r.Err)
			}
		}
		release := make(chan struct{})
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, t *ax.Task) error {
			got.add(t)
			<-release
			return nil
		})
		w, err := consumer.New(b.domain, mux, consumer.WithKafka(append(c.Opts(), smallFetches()...)...), consumer.WithSlots(2), consumer.WithBuffer(100, 1<<20))
		require.NoError(t, err)
		run(t, w.Run)
		time.Sleep(10 * time.Second)
		require.Len(t, got.list(), 2)
		require.Less(t, consumer.Buffered(w), 100+600, "the buffer and one poll")
		close(release)
		time.Sleep(30 * time.Second)
		require.Len(t, got.list(), 5000)
		b.requireCommitted("normal", 5000)
	})
}

// Weights are shares of worker time, not of starts, and equal weights are
// equal shares.
func TestLanesShareTheWorkersTimeByWeight(t *testing.T) {
	t.Parallel()
	for _, weights := range [][]int{{8, 4, 2, 1}, {1, 1, 1, 1}} {
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				names := []string{"a", "b", "c", "d"}
				took := []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 5 * time.Millisecond}
				var lanes []ax.Lane
				for i, n := range names {
					lanes = append(lanes, ax.Lane{Name: n, Weight: weights[i], Partitions: 2})
				}
				b := newBench(t, c, ax.Domain{Lanes: lanes})
				for i, n := range names {
					tasks := make([]ax.Task, 40*time.Second/took[i]/2)
					for k := range tasks {
						tasks[k] = ax.Task{Kind: "job", Lane: n}
					}
					for len(tasks) > 0 {
						k := min(len(tasks), 1000)
						for _, r := range b.client.SubmitMany(t.Context(), tasks[:k]) {
							require.NoError(t, r.Err)
						}
						tasks = tasks[k:]
					}
				}
				var mu sync.Mutex
				used := map[string]time.Duration{}
				mux := consumer.NewMux()
				mux.HandleFunc("job", func(_ context.Context, t *ax.Task) error {
					i := int(t.Lane[0] - 'a')
					time.Sleep(took[i])
					mu.Lock()
					used[t.Lane] += took[i]
					mu.Unlock()
					return nil
				})
				w := b.worker(mux, consumer.WithSlots(4))
				time.Sleep(6 * time.Second)
				require.NoError(t, w.stop())
				sum, weight := time.Duration(0), 0
				for i, n := range names {
					sum += used[n]
					weight += weights[i]
				}
				for i, n := range names {
					share, want := used[n].Seconds()/sum.Seconds(), float64(weights[i])/float64(weight)
					require.InDelta(t, want, share, 0.03, "lane %s", n)
				}
			})
		})
	}
}

func TestBadSettingsAreRefusedByNew(t *testing.T) {
	t.Parallel()
	mux := consumer.NewMux()
	mux.HandleFunc("job", func(context.Context, *ax.Task) error { return nil })
	twice := consumer.NewMux()
	for range 2 {
		twice.HandleFunc("job", func(context.Context, *ax.Task) error { return nil })
	}
	empty := consumer.NewMux()
	null := consumer.NewMux()
	null.HandleFunc("job", nil)
	for _, tt := range []struct {
		mux  *consumer.Mux
		opt  consumer.Option
		want string
	}{
		{mux, consumer.WithSlots(0), "slots: 0: want 1 to"},
		{mux, consumer.WithGrace(-1), "grace"},
		{mux, consumer.WithBuffer(0, 1), "buffer 0"},
		{mux, consumer.WithLease(time.Millisecond), "lease 1ms"},
		{twice, nil, `kind "job": registered twice`},
		{empty, nil, "no handlers"},
		{nil, nil, "no handlers"},
		{null, nil, `kind "job"`},
	} {
		var opts []consumer.Option
		if tt.opt != nil {
			opts = append(opts, tt.opt)
		}
		_, err := consumer.New(ax.Domain{Name: "orders"}, tt.mux, opts...)
		require.ErrorContains(t, err, tt.want)
	}
	_, err := consumer.New(ax.Domain{Name: "Orders!"}, mux)
	require.ErrorContains(t, err, "domain")
	_, err = producer.New(ax.Domain{Name: "Orders!"})
	require.ErrorContains(t, err, "domain")
}
