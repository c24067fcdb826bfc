// Package bench measures ax, each figure beside a control that was taken in
// the same run on the same machine and brokers: what the bare Kafka client, or
// a bare timer, does with the same work. A figure alone says more about the
// machine than about ax; the ratio of the two is what can be compared.
//
// A work is repeated in pairs of a measurement and its control, each pair on
// topics of its own, and each figure is the median of the pairs. Every task
// has a number, so that a run also says what was lost and what ran twice.
package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/embedded"
)

// Config of a run. A zero field has the work's default; a field that the work
// has no use for must be zero.
type Config struct {
	// Work is one of [Works].
	Work string
	// Kafka to use. Without brokers: one in this process, whose work then is
	// part of all figures.
	Kafka ax.Kafka
	// N is the number of tasks.
	N int
	// Live is how many tasks of the far work leave their tier during the run.
	Live int
	// Rate is how many tasks arrive a second, for the time For.
	Rate int
	For  time.Duration
	// Rest is how long a mover is watched once all that was due is gone.
	Rest time.Duration
	// Spread is the window of the due times.
	Spread time.Duration
	// Busy is how long a low task runs.
	Busy time.Duration
	// Workers is the number of slots of the worker, and of the control.
	Workers int
	// Payload is the size of a task's payload in bytes, at least 8.
	Payload int
	// Pairs is the number of measurements.
	Pairs int
	// Near lets all tasks of the delay work take the near tier alone. Without
	// it a third of them have a delay equal to a tier, and a third one that
	// takes that tier twice.
	Near bool
	// Lead replaces the domain's: how long before it is due a task goes to its
	// lane. Zero is no lead. Nil: the domain's default.
	Lead *time.Duration

	// Mover makes the command of a mover in a process of its own, for the far
	// work: it must do what "ax mover" does with these arguments. What it
	// needs to reach Kafka, beside the brokers, is in its environment.
	Mover func(ctx context.Context, args ...string) *exec.Cmd
	// Version of the program, for the result.
	Version string
	// Log of all roles. Nil: nothing is logged.
	Log *slog.Logger
	// Progress is called with what is being done. Nil: never.
	Progress func(string)
	// Profiles is a directory for CPU profiles of ax's part of the run. Empty:
	// none are taken.
	Profiles string
}

// work is one kind of measurement.
type work struct {
	name, about string
	defaults    Config
	domain      func(*Config) ax.Domain
	run         func(context.Context, *ground) (Fields, error)
}

func works() []work {
	return []work{
		{"drain", "tasks that do nothing are queued, then one worker drains them; control: the bare client",
			Config{N: 200_000, Workers: 32, Payload: 100, Pairs: 3}, plain, drain},
		{"latency", "from submit to start at a steady rate; control: the bare client reads the same records",
			Config{Rate: 1000, For: 10 * time.Second, Workers: 32, Payload: 100, Pairs: 3}, plain, latency},
		{"delay", "from due time to start of delayed tasks, of one to three hops; control: a bare timer for each",
			Config{N: 25_000, Spread: 10 * time.Second, Workers: 32, Payload: 100, Pairs: 5}, plain, delayed},
		{"priority", "urgent tasks in a flood of low ones; controls: a bare client that has no low ones, and the low ones alone",
			Config{Rate: 1000, For: 10 * time.Second, Busy: 5 * time.Millisecond, Workers: 16, Payload: 100, Pairs: 3}, twoLanes, priority},
		{"fair", "shares of worker time of four flooded lanes, against their weights",
			Config{For: 10 * time.Second, Workers: 16, Payload: 100, Pairs: 1}, fourLanes, fairness},
		{"far", "a mover, in a process of its own, before a backlog due in an hour to thirty days",
			Config{N: 100_000, Live: 20_000, For: 20 * time.Second, Rest: 20 * time.Second, Payload: 100, Pairs: 1}, plain, far},
		{"idle", "what a worker of four lanes costs that has nothing to do",
			Config{For: 20 * time.Second, Workers: 32, Payload: 100, Pairs: 1}, fourLanes, idle},
		{"mixed", "delayed tasks of 50 to 800 ms on many slots; control: a bare timer for each",
			Config{N: 100_000, Spread: 30 * time.Second, Workers: 2000, Payload: 100, Pairs: 1}, plain, mixed},
		{"burst", "many low tasks due at one instant, while critical ones arrive; control: the critical ones alone",
			Config{N: 100_000, Rate: 1000, For: 10 * time.Second, Workers: 32, Payload: 100, Pairs: 3}, twoLanes, burst},
	}
}

// leads reports whether the work is about tasks that leave the near tier, which
// is what the lead is for.
func (w work) leads() bool { return w.name == "delay" || w.name == "mixed" || w.name == "burst" }

// domainOf returns the domain that the work runs on.
func (w work) domainOf(c *Config) ax.Domain {
	d := w.domain(c)
	if c.Lead != nil {
		if d.Delay.Lead = *c.Lead; d.Delay.Lead == 0 {
			d.Delay.Lead = -1 // its word for none: zero is the default
		}
	}
	return d
}

// Works returns the names of all works and what each measures.
func Works() (names, abouts []string) {
	for _, w := range works() {
		names, abouts = append(names, w.name), append(abouts, w.about)
	}
	return names, abouts
}

// setting is one number of a Config, under the name of its flag.
type setting struct {
	name   string
	count  *int
	time   *time.Duration
	lo, hi int
}

func (c *Config) settings() []setting {
	return []setting{
		{name: "n", count: &c.N, lo: 1, hi: 100_000_000},
		{name: "live", count: &c.Live, lo: 1, hi: 10_000_000},
		{name: "rate", count: &c.Rate, lo: 1, hi: 1_000_000},
		{name: "for", time: &c.For},
		{name: "rest", time: &c.Rest},
		{name: "spread", time: &c.Spread},
		{name: "busy", time: &c.Busy},
		{name: "workers", count: &c.Workers, lo: 1, hi: 100_000},
		{name: "payload", count: &c.Payload, lo: numberBytes, hi: 512 << 10},
		{name: "pairs", count: &c.Pairs, lo: 1, hi: 1000},
	}
}

// Validate returns nil, or all that is wrong with c, each fault an
// [*ax.FieldError] that names the flag.
func (c Config) Validate() error {
	w, err := find(c.Work)
	if err != nil {
		return err
	}
	return c.complete(w)
}

func find(name string) (work, error) {
	all := works()
	i := slices.IndexFunc(all, func(w work) bool { return w.name == name })
	if i < 0 {
		names, _ := Works()
		return work{}, &ax.FieldError{Path: "work", Value: fmt.Sprintf("%q", name), Reason: "want one of " + strings.Join(names, ", ")}
	}
	return all[i], nil
}

// complete fills in the work's defaults, and returns all that is wrong with c.
func (c *Config) complete(w work) error {
	var faults []error
	fault := func(name string, value any, reason string) {
		faults = append(faults, &ax.FieldError{Path: "--" + name, Value: fmt.Sprint(value), Reason: reason})
	}
	defaults := w.defaults.settings()
	for i, s := range c.settings() {
		d := defaults[i]
		if s.count != nil {
			if *s.count == 0 {
				*s.count = *d.count
			} else if *s.count < s.lo || *s.count > s.hi {
				fault(s.name, *s.count, fmt.Sprintf("want %d to %d", s.lo, s.hi))
			} else if *d.count == 0 && (s.name != "n" || w.name != "priority") {
				fault(s.name, *s.count, fmt.Sprintf("the work %q has no use for it", w.name))
			}
			continue
		}
		if *s.time == 0 {
			*s.time = *d.time
		} else if *s.time < time.Millisecond || *s.time > 24*time.Hour {
			fault(s.name, *s.time, "want 1ms to 24h")
		} else if *d.time == 0 {
			fault(s.name, *s.time, fmt.Sprintf("the work %q has no use for it", w.name))
		}
	}
	if c.Near && w.name != "delay" {
		fault("near", true, fmt.Sprintf("the work %q has no use for it", w.name))
	}
	if c.Lead != nil {
		if most := w.domain(c).WithDefaults().Delay.Window / 2; !w.leads() {
			fault("lead", *c.Lead, fmt.Sprintf("the work %q has no use for it", w.name))
		} else if *c.Lead < 0 || *c.Lead > most {
			fault("lead", *c.Lead, fmt.Sprintf("want 0 to %s, half of the window", most))
		}
	}
	if (w.name == "priority" || w.name == "burst") && c.Workers < 2 {
		fault("workers", c.Workers, "want at least 2: one is reserved")
	}
	if w.name == "priority" {
		if c.N == 0 && len(faults) == 0 {
			// Twice what both phases can work off.
			c.N = 1000 + int(4*float64(c.Workers)*(c.For+settleTime).Seconds()/c.Busy.Seconds())
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return errors.Join(faults...)
}

// Run measures one work. The topics and groups of the run are deleted at its
// end, also when ctx ends.
func Run(ctx context.Context, cfg Config) (r *Result, err error) {
	w, err := find(cfg.Work)
	if err != nil {
		return nil, err
	}
	if err := cfg.complete(w); err != nil {
		return nil, err
	}
	own := len(cfg.Kafka.Brokers) == 0
	if own {
		broker, err := embedded.Start()
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		defer func() { err = errors.Join(err, broker.Close()) }()
		cfg.Kafka = ax.Kafka{Brokers: broker.Addrs()}
	}
	before := loadAverage()
	var pairs []Fields
	var at place
	for n := range cfg.Pairs {
		got, where, err := measure(ctx, &cfg, w, n)
		if err != nil {
			return nil, fmt.Errorf("bench: %s: pair %d of %d: %w", w.name, n+1, cfg.Pairs, err)
		}
		pairs, at = append(pairs, got), where
	}
	at.embedded = own
	return newResult(&cfg, w, at, before, pairs), nil
}

// measure makes one pair on topics of its own.
func measure(ctx context.Context, cfg *Config, w work, n int) (f Fields, at place, err error) {
	cfg.Progress(fmt.Sprintf("%s: pair %d of %d", w.name, n+1, cfg.Pairs))
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	g, err := open(ctx, fail, cfg, w.domainOf(cfg), n)
	if err != nil {
		return nil, at, err
	}
	defer func() { err = errors.Join(err, g.close(ctx)) }()
	if f, err = w.run(ctx, g); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause // a role that ended by itself, or the user
		}
		return nil, at, err
	}
	return f, g.place, nil
}
