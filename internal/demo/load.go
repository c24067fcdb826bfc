package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/producer"
)

// The kinds of the domain.
const (
	kindAlert    = "demo.alert"
	kindMail     = "demo.mail"
	kindSync     = "demo.sync"
	kindExport   = "demo.export"   // comes as a flood
	kindReminder = "demo.reminder" // delayed
	kindFlaky    = "demo.flaky"    // fails: one in ten always, two in ten once
	kindSnooze   = "demo.snooze"   // asks once to come back
)

const (
	attempts  = 3 // of kindFlaky
	snoozeFor = 1500 * time.Millisecond

	period   = 10 * time.Second // of the flood
	flood    = 2 * time.Second  // its part of the period
	maxDelay = 20 * time.Second

	// maxLive bounds the tasks that are not settled, and so memory, where the
	// worker can't keep up.
	maxLive = 200_000
)

// class is a part of the load.
type class struct {
	kind  string
	lane  string
	share float64
}

func classes() []class {
	return []class{
		{kindAlert, "critical", 0.04},
		{kindMail, "high", 0.15},
		{kindReminder, "high", 0.08},
		{kindSync, "normal", 0.20},
		{kindFlaky, "normal", 0.02},
		{kindSnooze, "normal", 0.01},
		{kindExport, "low", 0.50},
	}
}

// domain returns the demo's domain. Its tiers are short, so that a run of some
// seconds shows tasks that take several hops.
func domain(k ax.Kafka, brokers int) ax.Domain {
	d := ax.Domain{
		Name: "demo", Kafka: k, Trim: ax.Trim{Every: 5 * time.Second},
		Kinds: map[string]ax.Kind{},
		Delay: ax.Delay{
			Tiers:  []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second},
			Window: 500 * time.Millisecond,
		},
	}
	switch brokers {
	case 1:
		d.Durability = ax.Fast
	case 2:
		d.Replication = 2
	}
	for _, c := range classes() {
		d.Kinds[c.kind] = ax.Kind{Lane: c.lane}
	}
	d.Kinds[kindFlaky] = ax.Kind{
		Lane: "normal", Attempts: attempts,
		Backoff: ax.Backoff{Delays: []time.Duration{250 * time.Millisecond, 500 * time.Millisecond}},
	}
	return d.WithDefaults()
}

// load submits tasks.
type load struct {
	account *account
	client  *producer.Client
	rate    float64
	delay   time.Duration // the longest
	last    uint64        // number of the last task
}

// warmTime bounds how long the load waits for worker and mover.
const warmTime = 15 * time.Second

// warm submits one task of each class and waits until they are done, or ctx
// ends: groups take a while to form, which is not what the demo shows.
func (l *load) warm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, warmTime)
	defer cancel()
	for _, c := range classes() {
		if c.kind != kindSnooze {
			l.submit(context.WithoutCancel(ctx), c, 100*time.Millisecond)
		}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for l.account.size() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// run submits until ctx ends. What it has submitted then is answered by the
// client's Close at the latest.
func (l *load) run(ctx context.Context) {
	l.warm(ctx)
	parts := classes()
	owed := make([]float64, len(parts))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	before := began
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		since := min(now.Sub(before), 100*time.Millisecond) // a stall is not made up for
		before = now
		if l.account.size() >= maxLive {
			continue
		}
		for i, c := range parts {
			owed[i] += l.rate * c.share * since.Seconds() * c.intensity(now.Sub(began))
			for ; owed[i] >= 1 && ctx.Err() == nil; owed[i]-- {
				l.submit(context.WithoutCancel(ctx), c, rand.N(l.delay))
			}
		}
	}
}

// intensity is how much more than its average a class submits after elapsed.
func (c class) intensity(elapsed time.Duration) float64 {
	switch {
	case c.kind != kindExport:
		return 1
	case elapsed%period < flood:
		return float64(period) / float64(flood)
	}
	return 0
}

// submit submits a task, after delay if it is of the class that waits.
func (l *load) submit(ctx context.Context, c class, delay time.Duration) {
	l.last++
	n, at := l.last, queued
	task := ax.Task{Kind: c.kind, ID: l.account.id(n), Payload: []byte("a task of the demo")}
	var opts []producer.SubmitOption
	if c.kind == kindReminder {
		at = delayed
		opts = append(opts, producer.After(delay))
	}
	l.account.submit(n, c.lane, at)
	l.client.SubmitAsync(ctx, task, func(_ ax.Receipt, err error) { l.account.answered(n, err) }, opts...)
}

// handler runs the tasks of all kinds.
type handler struct {
	account *account
	work    time.Duration // mean time of a run
}

func (h *handler) HandleTask(ctx context.Context, t *ax.Task) error {
	n, ours := h.account.number(t.ID)
	if !ours {
		return nil // an earlier run left it
	}
	h.account.started(n, t, clock.Now())
	if err := h.pause(ctx); err != nil {
		h.account.failed(n, err, queued)
		return err
	}
	err := outcome(t, n)
	snooze := (*ax.SnoozeError)(nil)
	switch {
	case err == nil:
		h.account.finish(n, endedDone)
	case t.Attempt < attempts || errors.As(err, &snooze):
		h.account.failed(n, err, delayed)
	default:
		h.account.failed(n, err, dying)
	}
	return err
}

// pause stands for work: half to one and a half times the mean.
func (h *handler) pause(ctx context.Context) error {
	timer := time.NewTimer(h.work/2 + rand.N(h.work+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// outcome decides by the task's number how a run ends.
func outcome(t *ax.Task, n uint64) error {
	switch t.Kind {
	case kindFlaky:
		// Mixed, since neighbours in number are often of the same kinds.
		lot := n * 0x9e3779b97f4a7c15 >> 32 % 10
		if lot == 0 || lot <= 2 && t.Attempt == 1 {
			return fmt.Errorf("attempt %d of task %d is meant to fail", t.Attempt, n)
		}
	case kindSnooze:
		if t.Deferrals == 0 {
			return ax.Snooze(snoozeFor)
		}
	}
	return nil
}
