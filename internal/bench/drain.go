package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
)

// drain queues tasks that do nothing and lets one worker drain them. The bare
// client queues the same records in a topic of its own, and drains those that
// ax has queued.
func drain(ctx context.Context, g *ground) (fs Fields, err error) {
	client, err := g.producer(ctx)
	if err != nil {
		return nil, err
	}
	defer closeClient(ctx, client, &err)
	sample, err := g.sample(ctx, client, ax.Task{Kind: kind})
	if err != nil {
		return nil, err
	}
	t, err := newTemplate(sample)
	if err != nil {
		return nil, err
	}
	raw, err := g.topic(ctx, sample.Topic)
	if err != nil {
		return nil, err
	}

	var tookOurs, tookRaw time.Duration
	var costs Fields
	err = g.both(func() error {
		clean()
		stop, err := g.profile("submit")
		if err != nil {
			return err
		}
		cpu := startUsage()
		tookOurs, err = submit(ctx, client, g.N, func(i int) ax.Task {
			return ax.Task{Kind: kind, Payload: numbered(uint64(i), g.Payload)}
		})
		cpu.perTask(&costs, "submit_cpu_us_per_task", g.N)
		return errors.Join(err, stop())
	}, func() error {
		clean()
		cpu := startUsage()
		tookRaw, err = g.write(ctx, raw, g.N, t)
		cpu.perTask(&costs, "raw_submit_cpu_us_per_task", g.N)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("queue %d tasks: %w", g.N, err)
	}
	fs.rate("submit_per_s", g.N, tookOurs)
	fs.rate("raw_submit_per_s", g.N, tookRaw)
	fs.ratio("submit_ratio", "submit_per_s", "raw_submit_per_s")

	ours, theirs := newTally(g.N), newTally(g.N)
	err = g.both(func() error {
		clean()
		stop, err := g.profile("drain")
		if err != nil {
			return err
		}
		cpu := startUsage()
		err = g.drainOurs(ctx, ours)
		cpu.perTask(&costs, "cpu_us_per_task", g.N)
		return errors.Join(err, stop())
	}, func() error {
		clean()
		cpu := startUsage()
		err := g.drainRaw(ctx, sample.Topic, theirs)
		cpu.perTask(&costs, "raw_cpu_us_per_task", g.N)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("drain %d tasks: %w", g.N, err)
	}
	fs.rate("drain_per_s", g.N, ours.took())
	fs.rate("raw_drain_per_s", g.N, theirs.took())
	fs.ratio("drain_ratio", "drain_per_s", "raw_drain_per_s")
	for _, key := range []string{"cpu_us_per_task", "raw_cpu_us_per_task", "submit_cpu_us_per_task", "raw_submit_cpu_us_per_task"} {
		if v := costs.Get(key); v != nil {
			fs.add(key, v)
		}
	}
	// Other programs on the machine take time from both, but add no cost to
	// either: these are the ratios to trust on a busy one.
	fs.ratio("cpu_us_ratio", "cpu_us_per_task", "raw_cpu_us_per_task")
	fs.ratio("submit_cpu_us_ratio", "submit_cpu_us_per_task", "raw_submit_cpu_us_per_task")
	fs.add("first_ms", millis(time.Duration(ours.first.Load())))
	fs.add("raw_first_ms", millis(time.Duration(theirs.first.Load())))
	fs.counts("", ours)
	fs.counts("raw_", theirs)
	return fs, nil
}

func (g *ground) drainOurs(ctx context.Context, t *tally) error {
	mux := consumer.NewMux()
	mux.HandleFunc(kind, func(_ context.Context, task *ax.Task) error {
		t.mark(numberOf(task.Payload))
		return nil
	})
	t.began = time.Now()
	w, err := g.worker(ctx, g.router.Domain(), mux, g.Workers)
	if err != nil {
		return err
	}
	return errors.Join(t.await(ctx, time.Time{}), w.stop())
}

func (g *ground) drainRaw(ctx context.Context, topic string, t *tally) error {
	t.began = time.Now()
	r, err := g.read(ctx, topic, g.Workers, func(_ context.Context, rec *kgo.Record) { t.mark(numberOf(rec.Value)) })
	if err != nil {
		return err
	}
	defer r.stop()
	return t.await(ctx, time.Time{})
}
