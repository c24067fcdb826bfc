package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/publish"
	"github.com/axtasks/ax/internal/telemetry"
	"github.com/axtasks/ax/router"
)

// Worker runs a domain's tasks. Make it with [New].
type Worker struct {
	cfg      config
	domain   ax.Domain
	router   *router.Router
	handlers map[string]Handler
	tel      *telemetry.Telemetry
	log      *slog.Logger
	ran      atomic.Bool

	lanes  []*lane
	sched  *scheduler
	pub    *publish.Publisher
	leases *leases // nil without a store
	ids    map[string][16]byte

	kinds   map[string]*kind
	unknown *kind
	loud    loud
}

// New returns a worker for the domain with the mux's handlers. It checks
// everything that can be checked without a broker, and talks to nobody.
func New(d ax.Domain, mux *Mux, opts ...Option) (*Worker, error) {
	cfg := defaults()
	for _, o := range opts {
		o(&cfg)
	}
	if cfg.log == nil {
		cfg.log = slog.New(slog.DiscardHandler)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if mux == nil {
		mux = NewMux()
	}
	handlers, err := mux.build()
	if err != nil {
		return nil, fmt.Errorf("ax: worker of domain %s: %w", d.Name, err)
	}
	r, err := router.New(d)
	if err != nil {
		return nil, fmt.Errorf("ax: worker: %w", err)
	}
	w := &Worker{cfg: cfg, domain: r.Domain(), router: r, handlers: handlers, log: cfg.log, kinds: map[string]*kind{}}
	if _, _, err := kafka.Options(w.domain, "worker", nil); err != nil {
		return nil, err
	}
	if w.tel, err = telemetry.New(cfg.tel); err != nil {
		return nil, err
	}
	if cfg.doneFor == 0 {
		w.cfg.doneFor = slices.Max(w.domain.Delay.Tiers) + 24*time.Hour
	}
	for name, h := range handlers {
		k := &kind{name: name, conf: w.domain.Kind(name), handler: h}
		if cfg.failures > 0 {
			k.breaker = newBreaker(name, cfg.failures, cfg.openFor, w.log)
		}
		w.kinds[name] = k
	}
	w.unknown = &kind{name: "(unknown)", conf: w.domain.Kind("(unknown)")}
	for i, l := range w.domain.Lanes {
		w.lanes = append(w.lanes, &lane{
			conf: l, index: i, topic: r.Lane(l.Name), group: r.LaneGroup(l.Name),
			room: make(chan struct{}, 1), parts: map[*group.Partition]*laneParts{},
		})
	}
	w.sched = newScheduler(cfg.slots, cfg.buffer, cfg.bufferBytes, w.lanes)
	return w, nil
}

// kind returns the kind of that name. All kinds without a handler are one, so
// that foreign records can't grow the worker's memory.
func (w *Worker) kind(name string) *kind {
	if k, ok := w.kinds[name]; ok {
		return k
	}
	return w.unknown
}

// abandonAfter is how long handlers may take to return once their contexts
// have ended.
const abandonAfter = 5 * time.Second

// Run works until ctx ends, then drains: nothing more is started, running
// tasks go on for the grace, then their contexts end and their tasks come back
// without having spent an attempt; what was finished is committed, and the
// groups are left. It returns nil for such a stop, an error at once when no
// broker answers, the credentials are refused or a topic is missing, and the
// joined reasons when the stop did not succeed within its bounds, such as
// handlers that don't return. It may be called once.
func (w *Worker) Run(ctx context.Context) error {
	if w.ran.Swap(true) {
		return fmt.Errorf("ax: worker of domain %s: run: %w", w.domain.Name, ax.ErrClosed)
	}
	tasks, interrupt := context.WithCancelCause(context.Background())
	defer interrupt(ax.ErrShutdown)
	client, members, err := w.open(ctx, tasks)
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it had begun
		}
		return fmt.Errorf("ax: worker of domain %s: %w", w.domain.Name, err)
	}
	serving, stopServing := context.WithCancel(context.Background())
	defer stopServing()
	var intake, slots, serve sync.WaitGroup
	for i, m := range members {
		intake.Go(func() { w.intake(ctx, w.lanes[i], m) })
		serve.Go(func() { m.CommitLoop(serving) })
	}
	intake.Go(func() { w.sched.open(ctx) })
	serve.Go(func() { w.pub.Run(serving) })
	if w.leases != nil {
		serve.Go(func() { w.leases.run(serving) })
	}
	for range w.cfg.slots {
		slots.Go(w.slot)
	}
	w.log.Info("worker runs", "domain", w.domain.Name, "lanes", len(w.lanes), "slots", w.cfg.slots)

	<-ctx.Done()
	w.log.Info("worker drains", "domain", w.domain.Name, "grace", w.cfg.grace)
	w.sched.stop()
	intake.Wait()
	var errs []error
	if !waitFor(&slots, w.cfg.grace) {
		interrupt(ax.ErrShutdown)
		if !waitFor(&slots, abandonAfter) {
			errs = append(errs, fmt.Errorf("ax: worker of domain %s: %d handlers did not return %s after their contexts ended",
				w.domain.Name, w.sched.busy(), abandonAfter))
		}
	}
	ending, cancel := context.WithTimeout(context.Background(), abandonAfter)
	defer cancel()
	if err := w.pub.Flush(ending); err != nil {
		errs = append(errs, fmt.Errorf("ax: worker of domain %s: %d publishes without an answer: %w", w.domain.Name, w.pub.Open(), err))
	}
	stopServing()
	serve.Wait()
	errs = append(errs, closeAll(members))
	client.Close()
	return errors.Join(errs...)
}

// waitFor reports whether wg was done within d.
func waitFor(wg *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// open makes the client that publishes and a member for each lane. On an error
// nothing is left open.
func (w *Worker) open(ctx, tasks context.Context) (*kgo.Client, []*group.Member, error) {
	base, watch, err := kafka.Options(w.domain, "worker", w.log)
	if err != nil {
		return nil, nil, err
	}
	opts := append(slices.Clone(base), kafka.Producing(w.domain)...)
	opts = append(opts, w.router.Options()...)
	client, err := kgo.NewClient(append(opts, w.cfg.kafka...)...)
	if err != nil {
		return nil, nil, err
	}
	if err := w.ask(ctx, client, watch); err != nil {
		client.Close()
		return nil, nil, err
	}
	w.pub = publish.New(client, watch, w.log)
	if w.cfg.store != nil {
		w.leases = newLeases(w.cfg.store, w.cfg.lease, w.log)
	}
	var members []*group.Member
	for _, l := range w.lanes {
		m, err := group.New(group.Config{
			Name: "worker", Group: l.group, Protocol: w.domain.Kafka.GroupProtocol, Topics: []string{l.topic}, IDs: w.ids,
			// The fetch buffers are what a lane holds beside its own buffer.
			Opts:  append(append(slices.Clone(base), kgo.FetchMaxBytes(4<<20), kgo.FetchMaxPartitionBytes(1<<20)), w.cfg.kafka...),
			Watch: watch, Log: w.log, Base: tasks,
			CommitEvery: w.cfg.commitEvery, RevokeWait: min(w.cfg.grace, 15*time.Second), MaxSpan: 100_000,
			Dropped: func(ps []*group.Partition) { w.sched.drop(l, ps) },
		})
		if err != nil {
			client.Close()
			return nil, nil, errors.Join(err, closeAll(members))
		}
		members = append(members, m)
	}
	return client, members, nil
}

// ask makes sure that the worker can work before it joins a group, and takes
// partitions from one that can.
func (w *Worker) ask(ctx context.Context, client *kgo.Client, watch *kafka.Watch) error {
	if err := kafka.Ping(ctx, client, watch, 10*time.Second); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ids, err := kafka.TopicIDs(ctx, client, watch, w.router.Topics()...)
	w.ids = ids
	return err
}

func closeAll(members []*group.Member) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = m.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// loud limits a log line to one a minute.
type loud struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (l *loud) now(about string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.last[about]) < time.Minute {
		return false
	}
	if l.last == nil || len(l.last) > 1000 {
		l.last = map[string]time.Time{}
	}
	l.last[about] = now
	return true
}
