package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/kafka"
)

// far lets a mover stand before a backlog that is due in an hour to thirty
// days, and watches its memory while the heads of those tiers leave: tasks
// that were submitted an hour to a day ago, as far as the mover can tell. How
// late they leave is read where they go next.
//
// The mover has a process of its own. What it takes with nothing to do is told
// by one that stands before the empty tiers; then a fresh one stands before the
// full ones. One and the same would have in its base what a mover needs that is
// merely loaded while it runs.
func far(ctx context.Context, g *ground) (fs Fields, err error) {
	base, known, err := g.idleMover(ctx)
	if err != nil {
		return nil, err
	}
	client, err := g.producer(ctx)
	if err != nil {
		return nil, err
	}
	defer closeClient(ctx, client, &err)
	// What the run must have written and started before the first one leaves.
	first := time.Now().Add(5*time.Second + time.Duration(g.N+g.Live)*time.Second/20_000)
	last := first.Add(g.For)
	live, err := g.writeLive(ctx, first)
	if err != nil {
		return nil, err
	}
	took, err := submit(ctx, client, g.N, func(i int) ax.Task {
		delay := time.Hour + rand.N(30*24*time.Hour-time.Hour)
		return ax.Task{Kind: kind, Due: time.Now().Add(delay), Payload: numbered(uint64(i), g.Payload)}
	})
	if err != nil {
		return nil, err
	}
	fs.rate("submit_per_s", g.N, took)
	if err := g.countHeads(ctx, live, &fs); err != nil {
		return nil, err
	}

	window := g.router.Domain().Delay.Window
	hops := &hops{tally: newTally(g.Live), before: window + window/10}
	tail, err := g.bare(kgo.ConsumeTopics(g.router.Near()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	reading := g.start(ctx, "reader of the near tier", func(ctx context.Context) error { return hops.read(ctx, tail) })
	defer func() { err = errors.Join(err, reading.stop()); tail.Close() }()
	m, err := g.process(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.end()) }()
	watch := watchMemory(m.pid())
	defer watch.stop()
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	fs.add("mover_before_leave", time.Now().Before(first))
	if err := waitUntil(ctx, first); err != nil {
		return nil, err
	}
	cpu := startUsageOf(m.pid())
	if err := hops.tally.await(ctx, last); err != nil {
		return nil, err
	}
	cpu.percent(&fs, "cpu_percent")
	// The last ones are still in the near tier, which the mover serves as well.
	if err := waitUntil(ctx, time.Now().Add(2*window)); err != nil {
		return nil, err
	}
	cpu = startUsageOf(m.pid())
	if err := waitUntil(ctx, time.Now().Add(g.Rest)); err != nil {
		return nil, err
	}
	cpu.percent(&fs, "idle_cpu_percent")
	_, most, ok := watch.stop()
	if ok && known {
		fs.add("rss_idle_mb", megabytes(base))
		fs.add("rss_max_mb", megabytes(most))
		fs.add("rss_growth_mb", megabytes(most-base))
	}
	if err := errors.Join(m.end(), reading.stop()); err != nil {
		return nil, err
	}
	fs.quantiles("late", &hops.late)
	fs.sum("early", int(hops.tooSoon.Load()))
	fs.counts("", hops.tally)
	return fs, nil
}

// idleMover returns what a mover before empty tiers takes, once that no longer
// changes, and false where it can't be told.
func (g *ground) idleMover(ctx context.Context) (bytes int, known bool, err error) {
	m, err := g.process(ctx)
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, m.end()) }()
	if err := m.ready(ctx); err != nil {
		return 0, false, err
	}
	return steady(ctx, m.pid(), min(g.For, 3*time.Second))
}

// heads are the partitions whose first records leave during the run, and where
// those of them end: what lies behind is backlog.
type heads map[string]map[int32]int64

// writeLive writes the heads of the tiers from an hour on, which leave one
// after the other from an instant on. No producer can write them: it would have
// to be an hour ago. Nor does one choose their partitions: all have as many, in
// the order in which they leave.
func (g *ground) writeLive(ctx context.Context, first time.Time) (_ heads, err error) {
	d := g.router.Domain()
	cl, err := g.bare(append(kafka.Producing(d), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var topics []string
	for _, t := range g.router.Tiers() {
		if t.Delay >= time.Hour {
			topics = append(topics, t.Topic)
		}
	}
	live := heads{}
	now := time.Now()
	rs := make([]*kgo.Record, g.Live)
	for i := range rs {
		leave := first.Add(time.Duration(i) * g.For / time.Duration(g.Live))
		r := ax.Encode(&ax.Task{
			Kind: kind, Payload: numbered(uint64(i), g.Payload), Attempt: 1, Submitted: now,
			Leave: leave, Due: leave.Add(d.Delay.Window),
		})
		r.Topic, r.Partition = topics[i%len(topics)], int32(i/len(topics)%d.Delay.Partitions)
		if live[r.Topic] == nil {
			live[r.Topic] = map[int32]int64{}
		}
		live[r.Topic][r.Partition]++
		rs[i] = r
	}
	return live, cl.ProduceSync(ctx, rs...).FirstErr()
}

// countHeads adds in how many partitions tasks leave during the run, and how
// many of those have backlog behind them.
func (g *ground) countHeads(ctx context.Context, live heads, fs *Fields) error {
	ends, err := g.adm.ListEndOffsets(ctx, slices.Collect(maps.Keys(live))...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("ask where the tiers end: %w", err)
	}
	all, blocked := 0, 0
	for topic, parts := range live {
		for id, n := range parts {
			all++
			if end, ok := ends.Lookup(topic, id); ok && end.Offset > n {
				blocked++
			}
		}
	}
	fs.add("live_partitions", all)
	fs.add("live_before_backlog", blocked)
	return nil
}

// hops is what is seen of the moves out of a tier.
type hops struct {
	tally   *tally
	late    samples
	tooSoon atomic.Int64
	before  time.Duration // how long before it is due a task leaves its far tier
}

// read reads the near tier until ctx ends.
func (h *hops) read(ctx context.Context, cl *kgo.Client) error {
	for {
		fs := cl.PollFetches(ctx)
		select {
		case <-ctx.Done():
			return nil // it was told to stop
		default:
		}
		if err := fs.Err(); err != nil {
			return fmt.Errorf("read the near tier: %w", err)
		}
		now := time.Now()
		fs.EachRecord(func(r *kgo.Record) {
			t, err := ax.Decode(r, [16]byte{})
			if err != nil || !h.tally.mark(numberOf(t.Payload)) {
				return
			}
			late := now.Sub(t.Due.Add(-h.before))
			if late < 0 {
				h.tooSoon.Add(1)
			}
			h.late.add(late)
		})
	}
}
