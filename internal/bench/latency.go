package bench

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/producer"
)

// latency submits tasks at a steady rate to an idle worker, while the bare
// client reads the same records in a group of its own.
func latency(ctx context.Context, g *ground) (fs Fields, err error) {
	client, err := g.producer(ctx)
	if err != nil {
		return nil, err
	}
	defer closeClient(ctx, client, &err)
	n := int(float64(g.Rate) * g.For.Seconds())
	began := time.Now()
	sent := make([]time.Duration, n) // since began; a task is read after it is written
	ours, theirs := newTally(n), newTally(n)
	var wait, rawWait samples
	mark := func(t *tally, s *samples, payload []byte) {
		if i := numberOf(payload); t.mark(i) {
			s.add(time.Since(began) - sent[i])
		}
	}
	mux := consumer.NewMux()
	mux.HandleFunc(kind, func(_ context.Context, task *ax.Task) error {
		mark(ours, &wait, task.Payload)
		return nil
	})
	w, err := g.worker(ctx, g.router.Domain(), mux, g.Workers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	lane := g.router.Lane(g.router.Domain().DefaultLane)
	r, err := g.read(ctx, lane, g.Workers, func(_ context.Context, rec *kgo.Record) { mark(theirs, &rawWait, rec.Value) })
	if err != nil {
		return nil, err
	}
	defer r.stop()
	if err := g.warm(ctx, client, ax.Task{Kind: kind}, ours, theirs); err != nil {
		return nil, err
	}
	clean()
	var asked answers
	count, err := arrive(ctx, g.Rate, g.For, func(i int) {
		task := ax.Task{Kind: kind, Payload: numbered(uint64(i), g.Payload)}
		sent[i] = time.Since(began)
		asked.submit(ctx, client, task)
	})
	if err = errors.Join(err, asked.wait()); err != nil {
		return nil, err
	}
	if err := errors.Join(ours.await(ctx, time.Time{}), theirs.await(ctx, time.Time{})); err != nil {
		return nil, err
	}
	r.stop()
	if err := w.stop(); err != nil {
		return nil, err
	}
	fs.add("sent", count)
	fs.quantiles("wait", &wait)
	fs.quantiles("raw_wait", &rawWait)
	fs.ratio("wait_p50_ratio", "wait_p50_ms", "raw_wait_p50_ms")
	fs.ratio("wait_p99_ratio", "wait_p99_ms", "raw_wait_p99_ms")
	fs.counts("", ours)
	fs.counts("raw_", theirs)
	return fs, nil
}

// warm submits a task that doesn't count and waits until each of the tallies
// has seen it: groups take a while to form, which is not what is measured.
func (g *ground) warm(ctx context.Context, client *producer.Client, task ax.Task, ts ...*tally) error {
	task.Payload = numbered(warmUp, g.Payload)
	if _, err := client.Submit(ctx, task); err != nil {
		return err
	}
	for _, t := range ts {
		if err := t.awaitWarm(ctx, "the consumer"); err != nil {
			return err
		}
	}
	return nil
}
