package delay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/publish"
	"github.com/axtasks/ax/internal/telemetry"
	"github.com/axtasks/ax/router"
)

// Option configures a mover.
type Option func(*config)

type config struct {
	kafka       []kgo.Opt
	log         *slog.Logger
	tel         telemetry.Config
	commitEvery time.Duration
	grace       time.Duration
	trim        bool
}

// WithKafka adds options to the mover's Kafka clients, after ax's own.
func WithKafka(opts ...kgo.Opt) Option { return func(c *config) { c.kafka = append(c.kafka, opts...) } }

// WithLogger sends the mover's log there. Without it, or with nil, nothing is
// logged.
func WithLogger(log *slog.Logger) Option { return func(c *config) { c.log = log } }

// WithTracerProvider replaces the global provider.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tel.Tracer = p } }

// WithMeterProvider replaces the global provider.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.tel.Meter = p } }

// WithPropagator replaces the global propagator, or W3C trace context where
// none is set.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(c *config) { c.tel.Propagator = p }
}

// WithCommitEvery sets how long a record that was moved waits for its commit,
// which bounds the copies that a killed mover makes. The default is 200 ms.
func WithCommitEvery(d time.Duration) Option { return func(c *config) { c.commitEvery = d } }

// WithGrace sets how long a stopping mover waits for the answers to what it
// has published. The default is 10 s.
func WithGrace(d time.Duration) Option { return func(c *config) { c.grace = d } }

// WithTrim lets the mover delete what all groups of the domain are done with
// from lanes and tiers, when it starts and then each [ax.Trim.Every]. That needs
// the permissions DELETE on the topics and DESCRIBE on all groups; where they
// are missing, nothing is deleted and an error is logged once in each interval.
// The command "ax trim" does the same in a process of its own.
func WithTrim() Option { return func(c *config) { c.trim = true } }

// Mover republishes what is due. Make it with [New].
type Mover struct {
	cfg    config
	domain ax.Domain
	router *router.Router
	tel    *telemetry.Telemetry
	ran    atomic.Bool
	// working is set while readers and their clients are there.
	working atomic.Bool

	readers []*reader
	danger  danger
	skews   skews

	lookEvery time.Duration // whether leftovers still exist
	mu        sync.Mutex
	leftovers []router.Leftover // topics that the domain no longer names
}

// New returns a mover for the domain. It talks to nobody.
func New(d ax.Domain, opts ...Option) (*Mover, error) {
	cfg := config{commitEvery: 200 * time.Millisecond, grace: 10 * time.Second}
	for _, o := range opts {
		o(&cfg)
	}
	if cfg.log == nil {
		cfg.log = slog.New(slog.DiscardHandler)
	}
	if cfg.commitEvery <= 0 || cfg.grace <= 0 {
		return nil, fmt.Errorf("ax: mover: commit interval %s, grace %s: want more than 0", cfg.commitEvery, cfg.grace)
	}
	r, err := router.New(d)
	if err != nil {
		return nil, fmt.Errorf("ax: mover: %w", err)
	}
	tel, err := telemetry.New(cfg.tel)
	if err != nil {
		return nil, err
	}
	m := &Mover{cfg: cfg, domain: r.Domain(), router: r, tel: tel, lookEvery: 15 * time.Second}
	if _, _, err := kafka.Options(m.domain, "mover", nil); err != nil {
		return nil, err
	}
	far := map[string]router.Tier{}
	var topics []string
	for _, t := range m.router.Tiers() {
		far[t.Topic] = t
		topics = append(topics, t.Topic)
	}
	m.readers = []*reader{
		// A far tier is read a queue's length ahead of the clock, and what a
		// fetch brings beyond that is dropped and fetched again.
		{m: m, name: "far mover", group: m.router.FarGroup(), topics: topics, tiers: far, fetch: 1 << 20, each: 32 << 10, gap: farGap},
		{m: m, name: "near mover", group: m.router.NearGroup(), topics: []string{m.router.Near()}, fetch: 8 << 20, each: 1 << 20, gap: min(farGap, max(m.domain.Delay.Lead, 0)/10)},
	}
	for _, r := range m.readers {
		r.parts, r.loads, r.tracks = map[*group.Partition]*source{}, map[string]*load{}, map[string]*track{}
		for _, topic := range r.topics {
			r.track(topic)
		}
		r.wake = make(chan struct{}, 1)
	}
	return m, nil
}

// Run moves tasks until ctx ends, then waits within the grace for what it has
// published, commits, leaves its groups and returns nil. It returns an error
// at once when no broker answers, the credentials are refused, or a topic is
// missing; and at the end when the stop did not succeed within its bounds. It
// may be called once.
func (m *Mover) Run(ctx context.Context) error {
	if m.ran.Swap(true) {
		return fmt.Errorf("ax: mover of domain %s: run: %w", m.domain.Name, ax.ErrClosed)
	}
	for i, r := range m.readers {
		err := r.open(ctx)
		if err == nil {
			continue
		}
		closing, done := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.grace)
		defer done()
		var left error
		for _, opened := range m.readers[:i] {
			left = errors.Join(left, opened.close(closing))
		}
		if ctx.Err() != nil {
			return left // it was told to stop before it had begun
		}
		return fmt.Errorf("ax: mover of domain %s: %w", m.domain.Name, errors.Join(err, left))
	}
	m.working.Store(true)
	defer m.working.Store(false)
	for _, r := range m.readers {
		r.obey() // what was commanded meanwhile
	}
	unwatch, err := m.tel.WatchMover(m.measure)
	if err != nil {
		m.cfg.log.Error("no metrics of the tiers", "error", err)
	} else {
		defer func() { _ = unwatch() }()
	}
	var wg sync.WaitGroup
	errs := make([]error, len(m.readers))
	for i, r := range m.readers {
		wg.Go(func() { errs[i] = r.run(ctx) })
	}
	if len(m.lost()) > 0 {
		wg.Go(func() { m.lookLoop(ctx, m.readers[0].member.Kafka()) })
	}
	wg.Go(func() { m.danger.watch(ctx, m, m.readers[0].member.Kafka()) })
	if m.cfg.trim {
		wg.Go(func() { m.trimLoop(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// open makes the reader's clients and checks that they can work. On an error
// nothing is left open.
func (r *reader) open(ctx context.Context) error {
	m := r.m
	base, watch, err := kafka.Options(m.domain, "mover", m.cfg.log)
	if err != nil {
		return err
	}
	// A client of its own asks before the member joins: a group that can't
	// work must not take partitions from one that can.
	if err := r.ask(ctx, slices.Concat(base, m.cfg.kafka), watch); err != nil {
		return err
	}
	// What publishes may have to be replaced, and the member must not leave its
	// group for that.
	r.pub, err = publish.Open(publish.Config{
		Open: func(own ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(slices.Concat(base, kafka.Producing(m.domain), m.router.Options(), m.cfg.kafka, own)...)
		},
		Watch: watch, Log: m.cfg.log, MaxRecords: maxOpen, MaxBytes: maxOpenBytes,
	})
	if err != nil {
		return err
	}
	r.member, err = group.New(group.Config{
		Name: r.name, Group: r.group, Protocol: m.domain.Kafka.GroupProtocol, Topics: r.topics, IDs: r.ids, Watch: watch, Log: m.cfg.log,
		Opts:        slices.Concat(base, []kgo.Opt{kgo.FetchMaxBytes(r.fetch), kgo.FetchMaxPartitionBytes(r.each)}, m.cfg.kafka),
		CommitEvery: m.cfg.commitEvery, RevokeWait: m.cfg.grace, MaxUnfinished: max(100_000, 4*m.domain.Delay.Buffer),
		Assigned: r.assigned, Dropped: r.dropped,
	})
	if err != nil {
		r.pub.Close()
	}
	return err
}

// close leaves the group and closes the clients: first the group's, so that an
// answer that comes meanwhile is in the last commit.
func (r *reader) close(ctx context.Context) error {
	defer r.pub.Close()
	return r.member.Close(ctx)
}

// ask makes sure that a broker answers and that the domain's topics exist, and
// takes in the tiers that the domain has lost.
func (r *reader) ask(ctx context.Context, opts []kgo.Opt, watch *kafka.Watch) error {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := kafka.Ping(ctx, cl, watch, 10*time.Second); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if r.ids, err = kafka.TopicIDs(ctx, cl, watch, r.m.router.Topics()...); err != nil {
		return err
	}
	if r.tiers == nil {
		return nil
	}
	return r.adopt(ctx, watch, kadm.NewClient(cl))
}

// run works until ctx ends, and stops in order: no more reads, no more moves,
// answers to what was published, commit, leave.
func (r *reader) run(ctx context.Context) error {
	background, stop := context.WithCancel(context.Background())
	defer stop()
	var work, serve sync.WaitGroup
	work.Go(func() {
		for r.member.Poll(ctx, r.take) == nil {
		}
	})
	work.Go(func() { r.moveLoop(ctx) })
	serve.Go(func() { r.pub.Run(background) })
	serve.Go(func() { r.member.CommitLoop(background) })
	work.Wait()

	ending, cancel := context.WithTimeout(background, r.m.cfg.grace)
	defer cancel()
	var errs []error
	if err := r.pub.Flush(ending); err != nil {
		errs = append(errs, fmt.Errorf("ax: %s of domain %s: %d moves without an answer: %w", r.name, r.m.domain.Name, r.pub.Open(), err))
	}
	stop()
	serve.Wait()
	closing, done := context.WithTimeout(context.Background(), r.m.cfg.grace)
	defer done()
	errs = append(errs, r.close(closing))
	return errors.Join(errs...)
}
