package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/embedded"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/uid"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

// Config of a run.
type Config struct {
	// Kafka to use. Without brokers: one in this process.
	Kafka ax.Kafka
	// For is how long tasks are submitted. Zero: until the context ends.
	For time.Duration
	// Rate is the mean of tasks submitted a second, at least 1.
	Rate int
	// Slots of the worker, at least 1.
	Slots int
	// Show is called with how the run stands each time that Every has passed.
	// Nil: never.
	Show  func(Snapshot)
	Every time.Duration
	// Log of all roles. Nil: nothing is logged.
	Log *slog.Logger
}

// endTime bounds all that comes after the last submit.
const endTime = 90 * time.Second

// Run runs the demo until cfg.For has passed or ctx ends, stops all roles in
// order, and returns the balance; see [Summary.Err] for whether it is good. An
// error means that there is no balance.
func Run(ctx context.Context, cfg Config) (s Summary, err error) {
	if cfg.Rate < 1 || cfg.Slots < 1 {
		return s, fmt.Errorf("demo: rate %d, slots %d: want at least 1 of each", cfg.Rate, cfg.Slots)
	}
	own := len(cfg.Kafka.Brokers) == 0
	if own {
		broker, startErr := embedded.Start()
		if startErr != nil {
			return s, fmt.Errorf("demo: %w", startErr)
		}
		defer func() { err = errors.Join(err, broker.Close()) }()
		cfg.Kafka = ax.Kafka{Brokers: broker.Addrs()}
	}
	d, err := open(ctx, cfg, own)
	if err != nil {
		return s, fmt.Errorf("demo: %w", err)
	}
	defer d.close()
	if err := d.run(ctx); err != nil {
		return s, fmt.Errorf("demo: %w", err)
	}
	// The context may have ended, which is how a run without end does.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if s, err = d.balance(ending); err != nil {
		return s, fmt.Errorf("demo: balance: %w", err)
	}
	return s, nil
}

// demo is a run.
type demo struct {
	cfg     Config
	own     bool // the broker is in this process
	router  *router.Router
	opts    []kgo.Opt
	client  *kgo.Client
	adm     *kadm.Client
	account *account
	dead    *tail
	began   time.Time
	took    time.Duration // of the load
}

// open connects, provisions and notes where the dead topic ends.
func open(ctx context.Context, cfg Config, own bool) (_ *demo, err error) {
	d := &demo{cfg: cfg, own: own}
	var watch *kafka.Watch
	if d.opts, watch, err = kafka.Options(ax.Domain{Name: "demo", Kafka: cfg.Kafka}, "demo", cfg.Log); err != nil {
		return nil, err
	}
	if d.client, err = kgo.NewClient(d.opts...); err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	d.adm = kadm.NewClient(d.client)
	defer func() {
		if err != nil {
			d.client.Close()
		}
	}()
	if err := kafka.Ping(ctx, d.client, watch, 10*time.Second); err != nil {
		return nil, err
	}
	brokers, err := d.adm.ListBrokers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list brokers: %w", watch.Explain(err))
	}
	if d.router, err = router.New(domain(cfg.Kafka, len(brokers))); err != nil {
		return nil, err
	}
	if err := d.alone(ctx); err != nil {
		return nil, err
	}
	plan, err := d.router.Plan(ctx, d.adm)
	if err != nil {
		return nil, watch.Explain(err)
	}
	if err := plan.Apply(ctx, d.adm); err != nil {
		return nil, watch.Explain(err)
	}
	from, err := ends(ctx, d.adm, d.router.Dead())
	if err != nil {
		return nil, err
	}
	if d.dead, err = newTail(d.opts, from); err != nil {
		return nil, err
	}
	d.account = newAccount(uid.New(clock.Now()), d.router.Domain().Lanes)
	return d, nil
}

// alone returns an error if another demo runs on the cluster: its worker would
// run this one's tasks, which would then seem lost.
func (d *demo) alone(ctx context.Context) error {
	names := []string{d.router.NearGroup(), d.router.FarGroup()}
	for _, l := range d.router.Domain().Lanes {
		names = append(names, d.router.LaneGroup(l.Name))
	}
	// To list is to ask all brokers; to describe is to ask coordinators, which
	// a new cluster does not have.
	groups, err := d.adm.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	for _, name := range names {
		if g, ok := groups[name]; ok && g.State != "Empty" && g.State != "Dead" {
			return fmt.Errorf("group %s is in state %s: another demo runs on this cluster, wait for its end", name, g.State)
		}
	}
	return nil
}

func (d *demo) close() {
	d.dead.close()
	d.client.Close()
}

// run runs all roles until ctx ends or the time has passed, and stops them in
// order: load, worker, mover.
func (d *demo) run(ctx context.Context) error {
	conf := d.router.Domain()
	client, err := producer.New(conf, producer.WithLogger(d.cfg.Log))
	if err != nil {
		return err
	}
	// At the mean rate, slots are busy for three quarters of the time; the
	// flood is above what they can do.
	h := &handler{account: d.account, work: min(time.Duration(float64(d.cfg.Slots)/float64(d.cfg.Rate)*0.75*float64(time.Second)), 250*time.Millisecond)}
	mux := consumer.NewMux()
	for _, c := range classes() {
		mux.Handle(c.kind, h)
	}
	worker, err := consumer.New(conf, mux, consumer.WithSlots(d.cfg.Slots), consumer.WithLogger(d.cfg.Log))
	if err != nil {
		return errors.Join(err, client.Close(ctx))
	}
	mover, err := delay.New(conf, delay.WithTrim(), delay.WithLogger(d.cfg.Log))
	if err != nil {
		return errors.Join(err, client.Close(ctx))
	}
	d.began = time.Now()
	work, move := start(ctx, worker.Run), start(ctx, mover.Run)
	l := &load{account: d.account, client: client, rate: float64(d.cfg.Rate), delay: maxDelay}
	until, cancel := ctx, context.CancelFunc(func() {})
	if d.cfg.For > 0 {
		l.delay = min(maxDelay, d.cfg.For)
		until, cancel = context.WithTimeout(ctx, d.cfg.For)
	}
	defer cancel()
	submit := start(until, func(ctx context.Context) error { l.run(ctx); return nil })

	watched := d.watch(until, work, move)
	d.took = time.Since(d.began)
	ending, done := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer done()
	return errors.Join(watched, submit.stop(), client.Close(ending), work.stop(), move.stop())
}

// watch shows how the run stands, and reads the dead topic, until ctx ends or
// a role fails.
func (d *demo) watch(ctx context.Context, roles ...*role) error {
	every := d.cfg.Every
	if every <= 0 || d.cfg.Show == nil {
		every = time.Second
	}
	show, read := time.NewTicker(every), time.NewTicker(time.Second)
	defer show.Stop()
	defer read.Stop()
	for {
		select {
		case <-show.C:
			if d.cfg.Show != nil {
				d.cfg.Show(d.snapshot())
			}
		case <-read.C:
			if err := d.readDead(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		case <-roles[0].over:
			return errors.New("the worker stopped by itself")
		case <-roles[1].over:
			return errors.New("the mover stopped by itself")
		case <-ctx.Done():
			return nil
		}
	}
}

func (d *demo) snapshot() Snapshot {
	s := d.account.snapshot()
	s.Elapsed, s.Rate, s.Slots = time.Since(d.began), d.cfg.Rate, d.cfg.Slots
	if s.Brokers = "a Kafka in this process"; !d.own {
		s.Brokers = strings.Join(d.cfg.Kafka.Brokers, ", ")
	}
	return s
}

// readDead takes in what has come to the dead topic. A broker of our own then
// forgets it, since nothing else would.
func (d *demo) readDead(ctx context.Context) error {
	if err := d.dead.read(ctx, func(rec *kgo.Record) {
		if n, ok := numberOf(rec, d.account); ok {
			d.account.finish(n, endedDead)
		}
	}); err != nil {
		return fmt.Errorf("dead topic: %w", err)
	}
	if !d.own {
		return nil
	}
	deleted, err := d.adm.DeleteRecords(ctx, d.dead.at)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return fmt.Errorf("delete what was read of the dead topic: %w", err)
	}
	return nil
}

// balance judges the run once all roles have stopped.
func (d *demo) balance(ctx context.Context) (Summary, error) {
	if err := d.readDead(ctx); err != nil {
		return Summary{}, err
	}
	found, err := waiting(ctx, d.opts, d.adm, d.router, d.account)
	if err != nil {
		return Summary{}, err
	}
	s := d.account.judge(found)
	s.Seconds = float64(d.took.Milliseconds()) / 1000
	return s, nil
}

// role is a function that runs until it is stopped.
type role struct {
	cancel context.CancelFunc
	over   chan struct{}
	err    error
}

// start runs fn, whatever becomes of ctx, until it is stopped.
func start(ctx context.Context, fn func(context.Context) error) *role {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &role{cancel: cancel, over: make(chan struct{})}
	go func() {
		defer close(r.over)
		r.err = fn(ctx)
	}()
	return r
}

// stop ends the role and returns its error.
func (r *role) stop() error {
	r.cancel()
	<-r.over
	return r.err
}
