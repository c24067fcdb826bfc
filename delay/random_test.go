package delay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
)

// sent is one task of the random world, and what was true of it.
type sent struct {
	*ax.Task
	honest bool          // its producer's clock was right, and so is what it claims
	off    time.Duration // that clock, ahead of the true one
	at     time.Time
}

// world is a domain in which movers come, go and die at random, and producers
// and the broker have clocks of their own. It knows what it did and when.
type world struct {
	*bench
	rng     *rand.Rand
	broker  time.Duration // its clock, ahead of the true one
	movers  []*dying
	sent    []sent
	changes []time.Time // a mover came or went
	kills   []time.Time

	mu     sync.Mutex
	starts map[string][]time.Time
}

// dying is a mover in a process that can be killed.
type dying struct {
	*running
	p *fakekafka.Process
}

func (w *world) come() {
	p := w.c.Process()
	m := w.mover(delay.WithKafka(append(p.Opts(), kgo.WithHooks(skew(w.broker)))...), delay.WithGrace(2*time.Second))
	w.movers = append(w.movers, &dying{m, p})
	w.changes = append(w.changes, time.Now())
}

func (w *world) take() *dying {
	i := w.rng.IntN(len(w.movers))
	m := w.movers[i]
	w.movers = slices.Delete(w.movers, i, i+1)
	w.changes = append(w.changes, time.Now())
	return m
}

func (w *world) leave() { require.NoError(w.t, w.take().stop()) }

func (w *world) die() {
	m := w.take()
	w.kills = append(w.kills, time.Now())
	m.p.Kill()
	m.cancel() // whatever it does from now on reaches nobody
}

// submit writes a task as a producer would whose clock is off, or who forges
// what it claims.
func (w *world) submit(name string) {
	now := time.Now()
	wait := time.Duration(w.rng.Int64N(int64([]time.Duration{2 * time.Second, 20 * time.Second, 3 * time.Minute, 9 * time.Minute}[w.rng.IntN(4)])))
	s := sent{Task: tasks(name, 1, []string{"high", "low"}[w.rng.IntN(2)], always(now.Add(wait)))[0], at: now}
	clock := now
	switch w.rng.IntN(4) {
	case 0:
		s.off = time.Duration(w.rng.Int64N(int64(10*time.Minute))) - 5*time.Minute
		clock = now.Add(s.off)
	default:
		s.honest = true
	}
	topic := w.r.Next(s.Task, clock, clock)
	if !s.Leave.IsZero() && w.rng.IntN(5) == 0 {
		s.honest = false
		s.Leave = []time.Time{{}, time.Unix(0, 0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}[w.rng.IntN(3)]
	}
	w.put(topic, w.rng.Int32N(int32(len(w.c.Kfake().PartitionInfos(topic)))), s.Task)
	w.sent = append(w.sent, s)
}

// HandleTask implements consumer.Handler.
func (w *world) HandleTask(_ context.Context, t *ax.Task) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Before(t.Due) {
		w.t.Errorf("task %s starts %s early", t.ID, t.Due.Sub(now))
	}
	w.starts[t.ID] = append(w.starts[t.ID], time.Now())
	return nil
}

// moves returns the instants at which a task leaves its tiers when all goes
// well.
func (w *world) moves(s sent) (all []time.Time) {
	at := s.at
	for _, topic := range w.r.Hops(s.Due.Sub(s.at)) {
		for _, tier := range w.r.Tiers() {
			if tier.Topic == topic {
				at = at.Add(tier.Wait)
				all = append(all, at)
			}
		}
	}
	return append(all, s.Due.Add(-w.lead))
}

// disturbed reports whether, about one of the instants, a mover came, went or
// was dead and not yet missed.
func (w *world) disturbed(moves []time.Time) bool {
	about := func(at time.Time, events []time.Time, before, after time.Duration) bool {
		return slices.ContainsFunc(events, func(e time.Time) bool { return at.After(e.Add(-before)) && at.Before(e.Add(after)) })
	}
	return slices.ContainsFunc(moves, func(at time.Time) bool {
		return about(at, w.changes, time.Second, 3*time.Second) || about(at, w.kills, time.Second, 12*time.Second)
	})
}

// repeated reports whether a kill explains that a task was moved twice: a mover
// had moved it a moment before, and had not committed that.
func (w *world) repeated(moved []time.Time) bool {
	return slices.ContainsFunc(moved, func(at time.Time) bool {
		return slices.ContainsFunc(w.kills, func(k time.Time) bool { return at.After(k.Add(-time.Second)) && !at.After(k) })
	})
}

// Tasks that are due in milliseconds to minutes; movers that stop, die, come
// back and share; producers and a broker whose clocks are off by up to five
// minutes; forged claims. No task is lost or early; one whose movers were there
// is on time, and takes the hops that it takes on paper; and nothing is copied
// but what a mover had moved when it died.
func TestWhateverMoversAndClocksDoTasksAreOnTimeAndTakeTheirHops(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Delay{
					Tiers:      []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute},
					Partitions: 2, NearPartitions: 2,
				})
				w := &world{bench: b, rng: rand.New(rand.NewPCG(seed, 4)), starts: map[string][]time.Time{}}
				w.broker = time.Duration(int64(seed)%3-1) * 5 * time.Minute
				mux := consumer.NewMux()
				mux.Handle("job", w)
				worker, err := consumer.New(b.domain, mux, consumer.WithKafka(append(c.Opts(), kgo.WithHooks(skew(w.broker)))...), consumer.WithLogger(b.log))
				require.NoError(t, err)
				ctx, stop := context.WithCancel(context.Background())
				done := make(chan error, 1)
				go func() { done <- worker.Run(ctx) }()
				defer func() { stop(); require.NoError(t, <-done) }()

				w.come()
				w.come()
				time.Sleep(2 * time.Second)
				for i := range 250 {
					w.submit(fmt.Sprint("t", i))
					if i%10 == 9 {
						switch n := w.rng.IntN(6); {
						case len(w.movers) < 2 || n < 2 && len(w.movers) < 5:
							w.come()
						case n < 4:
							w.leave()
						case n < 5:
							w.die()
						}
					}
					time.Sleep(time.Duration(w.rng.Int64N(int64(2 * time.Second))))
				}
				time.Sleep(10 * time.Minute)
				w.judge()
			})
		})
	}
}

// trail is where a task was written, and when.
type trail struct {
	hops map[string]int // by topic, lanes left out
	at   []time.Time
}

func (w *world) trails() map[string]*trail {
	trails := map[string]*trail{}
	for _, topic := range w.r.Topics() {
		_, lane := w.r.LaneOf(topic)
		for _, r := range w.c.Records(w.t, topic) {
			task, err := ax.Decode(r, [16]byte{})
			require.NoError(w.t, err)
			if trails[task.ID] == nil {
				trails[task.ID] = &trail{hops: map[string]int{}}
			}
			tr := trails[task.ID]
			if tr.at = append(tr.at, r.Timestamp); !lane {
				tr.hops[topic]++
			}
		}
	}
	return trails
}

func (w *world) judge() {
	t, trails := w.t, w.trails()
	undisturbed, most := 0, 0
	for _, s := range w.sent {
		starts, tr := w.starts[s.ID], trails[s.ID]
		require.NotEmpty(t, starts, "task %s, due %s, is lost: it went %v", s.ID, s.Due, tr.hops)
		most = max(most, len(tr.at))
		if len(starts) > 1 {
			require.True(t, w.repeated(tr.at), "task %s ran %d times, and no mover had died at it: it went %v", s.ID, len(starts), tr.hops)
		}
		late := starts[0].Sub(s.Due)
		// A producer whose clock is behind puts a task into a tier that is too
		// long for it, by as much.
		require.Less(t, late, max(-s.off, 0)+20*time.Second, "task %s: it went %v", s.ID, tr.hops)
		if !s.honest || w.disturbed(w.moves(s)) {
			continue
		}
		undisturbed++
		require.Less(t, late, 10*time.Millisecond, "task %s", s.ID)
		// A mover that has just come doesn't know how far a broker's clock is
		// off: tasks may leave early, or behind a forged claim, and take other
		// hops.
		if w.broker == 0 {
			want := map[string]int{}
			for _, topic := range w.r.Hops(s.Due.Sub(s.at)) {
				want[topic]++
			}
			require.Equal(t, want, tr.hops, "task %s of %s", s.ID, s.Due.Sub(s.at))
		}
	}
	require.Greater(t, undisturbed, 30)
	require.Less(t, most, 60, "a task goes round")
	t.Logf("%d tasks, %d undisturbed, %d kills, %d changes, at most %d records of one", len(w.sent), undisturbed, len(w.kills), len(w.changes), most)
}
