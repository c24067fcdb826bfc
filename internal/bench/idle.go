package bench

import (
	"context"
	"errors"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
)

// idle is what a worker of four lanes costs that has nothing to do.
func idle(ctx context.Context, g *ground) (fs Fields, err error) {
	client, err := g.producer(ctx)
	if err != nil {
		return nil, err
	}
	defer closeClient(ctx, client, &err)
	one := newTally(1)
	mux := consumer.NewMux()
	mux.HandleFunc(kind, func(_ context.Context, task *ax.Task) error {
		one.mark(numberOf(task.Payload))
		return nil
	})
	w, err := g.worker(ctx, g.router.Domain(), mux, g.Workers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	if _, err := client.Submit(ctx, ax.Task{Kind: kind, Payload: numbered(0, g.Payload)}); err != nil {
		return nil, err
	}
	if err := one.await(ctx, time.Time{}); err != nil {
		return nil, err
	}
	clean()
	u := startUsage()
	if err := waitUntil(ctx, time.Now().Add(g.For)); err != nil {
		return nil, err
	}
	u.percent(&fs, "cpu_percent")
	fs.add("lanes", len(g.router.Domain().Lanes))
	fs.counts("", one)
	return fs, nil
}
