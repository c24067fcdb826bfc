package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
func far(ctx context.Context, g *ground) (fs Fields, err error) {
	client, err := g.producer(ctx)
	if err != nil {
		return nil, err
	}
	defer closeClient(ctx, client, &err)
	// What the run must have written and started before the first one leaves.
	base := time.Now().Add(5*time.Second + time.Duration(g.N+g.Live)*time.Second/20_000)
	if err := g.writeLive(ctx, base); err != nil {
		return nil, err
	}
	took, err := submit(ctx, client, g.N, func(i int) ax.Task {
		delay := time.Hour + rand.N(30*24*time.Hour-time.Hour)
		return ax.Task{Kind: kind, Due: time.Now().Add(delay), Payload: numbered(uint64(i), g.Payload)}
	})
	if err != nil {
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
	watch := watchMemory()
	defer watch.stop()
	cpu := startUsage()
	m, err := g.mover(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.stop()) }()
	fs.add("mover_before_leave", time.Now().Before(base))
	if err := hops.tally.await(ctx, base.Add(g.For)); err != nil {
		return nil, err
	}
	cpu.percent(&fs, "cpu_percent")
	if grown, ok := watch.stop(); ok {
		fs.add("rss_growth_mb", round(float64(grown)/1e6))
	}
	if err := errors.Join(m.stop(), reading.stop()); err != nil {
		return nil, err
	}
	fs.rate("submit_per_s", g.N, took)
	fs.quantiles("late", &hops.late)
	fs.sum("early", int(hops.tooSoon.Load()))
	fs.counts("", hops.tally)
	return fs, nil
}

// writeLive writes the heads of the tiers from an hour on, which leave one
// after the other from base on. No producer can write them: it would have to
// be an hour ago.
func (g *ground) writeLive(ctx context.Context, base time.Time) (err error) {
	d := g.router.Domain()
	cl, err := g.bare(append(kafka.Producing(d), g.router.Options()...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	var topics []string
	for _, t := range g.router.Tiers() {
		if t.Delay >= time.Hour {
			topics = append(topics, t.Topic)
		}
	}
	now := time.Now()
	rs := make([]*kgo.Record, g.Live)
	for i := range rs {
		leave := base.Add(time.Duration(i) * g.For / time.Duration(g.Live))
		r := ax.Encode(&ax.Task{
			Kind: kind, Payload: numbered(uint64(i), g.Payload), Attempt: 1, Submitted: now,
			Leave: leave, Due: leave.Add(d.Delay.Window),
		})
		r.Topic = topics[i%len(topics)]
		rs[i] = r
	}
	return cl.ProduceSync(ctx, rs...).FirstErr()
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
