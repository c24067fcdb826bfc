package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/producer"
)

// delayed submits delayed tasks over a window; worker and mover are in this
// process. A bare timer for each, in this process as well, is the control. What
// those timers show of the tasks' own load is told by others that have the
// process for themselves, before the tasks or after them.
func delayed(ctx context.Context, g *ground) (fs Fields, err error) {
	var alone *samples
	if err := g.both(func() (err error) {
		fs, err = g.delayTasks(ctx)
		return err
	}, func() (err error) {
		alone, err = timersAlone(ctx, g.N, g.Spread)
		return err
	}); err != nil {
		return nil, err
	}
	fs.quantiles("timer_alone_late", alone)
	return fs, nil
}

func (g *ground) delayTasks(ctx context.Context) (fs Fields, err error) {
	l := newLateness(g.N, false)
	client, stop, err := g.delaying(ctx, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	cpu := startUsage()
	due, err := g.submitDelayed(ctx, client, l)
	if err != nil {
		return nil, err
	}
	if err := l.tally.await(ctx, due); err != nil {
		return nil, err
	}
	cpu.perTask(&fs, "cpu_us_per_task", g.N)
	if err := stop(); err != nil {
		return nil, err
	}
	l.report(&fs)
	return fs, nil
}

// timersAlone returns how late bare timers fire while nothing else is done, as
// dense as the tasks are: what the timers beside the tasks show more is the
// tasks' own load. A fifth of them tells it.
func timersAlone(ctx context.Context, n int, spread time.Duration) (*samples, error) {
	clean()
	var t timers
	defer t.stop()
	n, spread = max(n/5, 1), max(spread/5, time.Millisecond)
	base := time.Now().Add(100 * time.Millisecond)
	for range n {
		t.add(base.Add(rand.N(spread)))
	}
	if err := waitUntil(ctx, base.Add(spread)); err != nil {
		return nil, err
	}
	return &t.late, nil
}

// submitDelayed submits tasks over the whole window, and returns when the last
// one is due. A third takes the near tier alone, a third has a delay equal to
// the shortest tier, and a third takes that tier twice.
func (g *ground) submitDelayed(ctx context.Context, client *producer.Client, l *lateness) (time.Time, error) {
	d := g.router.Domain().Delay
	var asked answers
	rate := max(int(float64(g.N)/g.Spread.Seconds()), 1)
	sent, err := arrive(ctx, rate, g.Spread, func(i int) {
		due := time.Now().Add(delayOf(i, d, g.Near))
		l.timers.add(due)
		asked.submit(ctx, client, ax.Task{Kind: kind, Due: due, Payload: numbered(uint64(i), g.Payload)})
	})
	if err = errors.Join(err, asked.wait()); err != nil {
		return time.Time{}, err
	}
	// The rate is a whole number; the rest comes at once.
	due := time.Now().Add(d.Tiers[0] / 2)
	_, err = submit(ctx, client, max(g.N-sent, 0), func(i int) ax.Task {
		l.timers.add(due)
		return ax.Task{Kind: kind, Due: due, Payload: numbered(uint64(sent+i), g.Payload)}
	})
	return time.Now().Add(3 * d.Tiers[0]), err
}

// delayOf is the delay of the task of a number.
func delayOf(i int, d ax.Delay, near bool) time.Duration {
	tier := d.Tiers[0]
	switch {
	case near || i%3 == 0:
		return tier/10 + rand.N(tier*7/10)
	case i%3 == 1:
		return tier
	}
	return tier/10 + 2*tier - d.Window
}

// lateness is how delayed tasks fare.
type lateness struct {
	tally  *tally
	late   samples
	early  atomic.Int64
	timers timers
	busy   bool // tasks run for a while
}

func newLateness(n int, busy bool) *lateness { return &lateness{tally: newTally(n), busy: busy} }

// HandleTask implements consumer.Handler.
func (l *lateness) HandleTask(ctx context.Context, t *ax.Task) error {
	now := time.Now()
	n := numberOf(t.Payload)
	if l.tally.mark(n) {
		if now.Before(t.Due) {
			l.early.Add(1)
		}
		l.late.add(now.Sub(t.Due))
		if l.busy {
			return run(ctx, runTime(n))
		}
	}
	return nil
}

// report adds what was found. The roles have stopped.
func (l *lateness) report(fs *Fields) {
	l.timers.stop()
	fs.quantiles("late", &l.late)
	fs.quantiles("timer_late", &l.timers.late)
	fs.ratio("late_p50_ratio", "late_p50_ms", "timer_late_p50_ms")
	fs.ratio("late_p99_ratio", "late_p99_ms", "timer_late_p99_ms")
	fs.over("late_p99_over_ms", "late_p99_ms", "timer_late_p99_ms")
	fs.over("late_p999_over_ms", "late_p999_ms", "timer_late_p999_ms")
	fs.sum("early", int(l.early.Load()))
	fs.counts("", l.tally)
}

// delaying starts a worker and a mover, and waits until a delayed task has
// been run. stop ends all; a second call does nothing more.
func (g *ground) delaying(ctx context.Context, l *lateness) (_ *producer.Client, stop func() error, err error) {
	client, err := g.producer(ctx)
	if err != nil {
		return nil, nil, err
	}
	var roles []*role
	stop = func() error {
		l.timers.stop()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		errs := []error{client.Close(ctx)}
		for _, r := range roles {
			errs = append(errs, r.stop())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	mux := consumer.NewMux()
	mux.Handle(kind, l)
	w, err := g.worker(ctx, g.router.Domain(), mux, g.Workers)
	if err != nil {
		return nil, nil, err
	}
	roles = append(roles, w)
	m, err := g.mover(ctx)
	if err != nil {
		return nil, nil, err
	}
	roles = append(roles, m)
	if err := g.warm(ctx, client, ax.Task{Kind: kind, Due: time.Now().Add(500 * time.Millisecond)}, l.tally); err != nil {
		return nil, nil, err
	}
	clean()
	return client, stop, nil
}
