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

// delayed submits tasks that are due at random instants of a window; worker
// and mover are in this process. A bare timer for each is the control.
func delayed(ctx context.Context, g *ground) (fs Fields, err error) {
	alone, err := timersAlone(ctx, g.N, g.Spread)
	if err != nil {
		return nil, err
	}
	l := newLateness(g.N, false)
	client, stop, err := g.delaying(ctx, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	cpu := startUsage()
	var due time.Time
	if g.Hops {
		due, err = g.submitHops(ctx, client, l)
	} else {
		due, err = g.submitSpread(ctx, client, l, &fs)
	}
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
	fs.quantiles("timer_alone_late", alone)
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

// submitSpread submits all tasks, and returns when the last one is due.
func (g *ground) submitSpread(ctx context.Context, client *producer.Client, l *lateness, fs *Fields) (time.Time, error) {
	// All are submitted before the first is due.
	base := time.Now().Add(3*time.Second + time.Duration(g.N)*time.Second/20_000)
	last := base.Add(g.Spread)
	_, err := submit(ctx, client, g.N, func(i int) ax.Task {
		due := base.Add(rand.N(g.Spread))
		l.timers.add(due)
		return ax.Task{Kind: kind, Due: due, Payload: numbered(uint64(i), g.Payload)}
	})
	fs.add("submitted_before_due", time.Now().Before(base))
	return last, err
}

// submitHops submits tasks over the whole window: a third takes the near tier
// alone, a third has a delay equal to the shortest tier, and a third takes that
// tier twice.
func (g *ground) submitHops(ctx context.Context, client *producer.Client, l *lateness) (time.Time, error) {
	d := g.router.Domain()
	tier := d.Delay.Tiers[0]
	var asked answers
	rate := max(int(float64(g.N)/g.Spread.Seconds()), 1)
	sent, err := arrive(ctx, rate, g.Spread, func(i int) {
		now := time.Now()
		delay := tier / 10
		switch i % 3 {
		case 0:
			delay += rand.N(tier * 7 / 10)
		case 1:
			delay = tier
		case 2:
			delay += 2*tier - d.Delay.Window
		}
		due := now.Add(delay)
		l.timers.add(due)
		asked.submit(ctx, client, ax.Task{Kind: kind, Due: due, Payload: numbered(uint64(i), g.Payload)})
	})
	if err = errors.Join(err, asked.wait()); err != nil {
		return time.Time{}, err
	}
	// The rate is a whole number; the rest comes at once.
	due := time.Now().Add(tier)
	_, err = submit(ctx, client, max(g.N-sent, 0), func(i int) ax.Task {
		l.timers.add(due)
		return ax.Task{Kind: kind, Due: due, Payload: numbered(uint64(sent+i), g.Payload)}
	})
	return time.Now().Add(3 * tier), err
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
