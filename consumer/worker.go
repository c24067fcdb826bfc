package consumer

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/axtasks/ax"
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
	lanes    []*lane
	kinds    map[string]*kind
	unknown  *kind
	loud     loud
	trouble  trouble
	life     lifetime
	settings settings

	// Made by Run, before anything uses them.
	sched  *scheduler
	pub    *publish.Publisher
	leases *leases // nil without a store
	// completing are the runs that only the store has to hear of, outside of
	// slots.
	completing sync.WaitGroup
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
		k.budget.set(k.conf.RetryBudget)
		k.breaker = newBreaker(name, cfg.failures, cfg.openFor, w.log)
		w.kinds[name] = k
	}
	w.unknown = &kind{name: "(unknown)", conf: w.domain.Kind("(unknown)")}
	for _, l := range w.domain.Lanes {
		w.addLane(l, r.Lane(l.Name))
	}
	w.settings.now = w.settingsOf(w.domain, cfg.slots)
	w.life.init()
	return w, nil
}

func (w *Worker) addLane(conf ax.Lane, topic string) {
	w.lanes = append(w.lanes, &lane{
		conf: conf, topic: topic, group: w.router.LaneGroup(conf.Name),
		maxKeep: w.cfg.buffer, maxBytes: w.cfg.bufferBytes, room: make(chan struct{}, 1),
	})
}

// kind returns the kind of that name. All kinds without a handler are one, so
// that foreign records can't grow the worker's memory.
func (w *Worker) kind(name string) *kind {
	if k, ok := w.kinds[name]; ok {
		return k
	}
	return w.unknown
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
