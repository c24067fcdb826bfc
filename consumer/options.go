package consumer

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/idempotency"
	"github.com/axtasks/ax/internal/telemetry"
)

// Option configures a worker.
type Option func(*config)

type config struct {
	slots       int
	grace       time.Duration
	commitEvery time.Duration
	buffer      int
	bufferBytes int
	store       idempotency.Store
	lease       time.Duration
	doneFor     time.Duration
	deafAfter   time.Duration
	deafLimit   time.Duration
	failures    int
	openFor     time.Duration
	log         *slog.Logger
	tel         telemetry.Config
	kafka       []kgo.Opt
}

func defaults() config {
	return config{
		slots: 32, grace: 30 * time.Second, commitEvery: 200 * time.Millisecond,
		buffer: 2000, bufferBytes: 16 << 20, lease: 30 * time.Second,
		deafAfter: 10 * time.Second, deafLimit: 10 * time.Minute,
		failures: 20, openFor: 10 * time.Second,
	}
}

// checkSlots refuses a number of slots that no worker can have.
func checkSlots(n int) error {
	if n < 1 || n > 100_000 {
		return &ax.FieldError{Path: "slots", Value: fmt.Sprint(n), Reason: "want 1 to 100000"}
	}
	return nil
}

func (c *config) validate() error {
	if err := checkSlots(c.slots); err != nil {
		return fmt.Errorf("ax: worker: %w", err)
	}
	for _, f := range []struct {
		name string
		ok   bool
		have any
	}{
		{"grace", c.grace > 0, c.grace},
		{"commit interval", c.commitEvery > 0, c.commitEvery},
		{"buffer", c.buffer >= 1, c.buffer},
		{"buffer bytes", c.bufferBytes >= 1, c.bufferBytes},
		{"lease", c.lease >= 100*time.Millisecond, c.lease},
		{"done for", c.doneFor >= 0, c.doneFor},
		{"deaf after", c.deafAfter >= time.Second, c.deafAfter},
		{"deaf limit", c.deafLimit >= c.deafAfter, c.deafLimit},
		{"breaker failures", c.failures >= 0, c.failures},
		{"breaker open for", c.openFor > 0, c.openFor},
	} {
		if !f.ok {
			return fmt.Errorf("ax: worker: %s %v is out of range", f.name, f.have)
		}
	}
	return nil
}

// WithSlots sets how many tasks run at once. The default is 32.
func WithSlots(n int) Option { return func(c *config) { c.slots = n } }

// WithGrace sets how long running tasks may go on once the worker is told to
// stop; then their contexts end with ax.ErrShutdown. The default is 30 s.
func WithGrace(d time.Duration) Option { return func(c *config) { c.grace = d } }

// WithCommitEvery sets how long a finished task waits for its commit, which
// bounds the repeats after a kill. The default is 200 ms.
func WithCommitEvery(d time.Duration) Option { return func(c *config) { c.commitEvery = d } }

// WithBuffer bounds what a lane holds in memory ahead of its start: the lane
// is polled again when less than half of it is left. One poll may exceed it by
// up to 4 MiB of records. The default is 2,000 tasks and 16 MiB.
func WithBuffer(tasks, bytes int) Option {
	return func(c *config) { c.buffer, c.bufferBytes = tasks, bytes }
}

// WithStore makes the worker claim each task in the store before it runs, so
// that no two runs of one task are at work at once and a task that is done is
// not run again. While the store fails, nothing is started.
func WithStore(s idempotency.Store) Option { return func(c *config) { c.store = s } }

// WithLease sets how long a claim lasts without being renewed, which is how
// long a killed worker's tasks wait. The default is 30 s.
func WithLease(d time.Duration) Option { return func(c *config) { c.lease = d } }

// WithDoneFor sets for how long the store remembers that a task is done. The
// default is the longest tier plus a day.
func WithDoneFor(d time.Duration) Option { return func(c *config) { c.doneFor = d } }

// WithDeaf sets how long a handler may go on after its context has ended, by its
// timeout or anything else. After the first time it is reported as deaf and its
// slot is lent to others, for up to a quarter of the slots; the task is still its
// own: its lease is renewed, its kind's concurrency and its lane's limit stay
// taken, and nobody else starts it. After the limit the worker gives the run up:
// the task becomes what its kind's OnDeaf says, and whatever the handler returns
// later changes nothing. The defaults are 10 s and 10 min.
func WithDeaf(after, limit time.Duration) Option {
	return func(c *config) { c.deafAfter, c.deafLimit = after, limit }
}

// WithBreaker sets after how many failures in a row of one kind its tasks wait
// instead of running, and for how long; then one task is tried. The default is
// 20 failures and 10 s. Zero failures switches breakers off. A task that waits
// so spends no attempt.
func WithBreaker(failures int, openFor time.Duration) Option {
	return func(c *config) { c.failures, c.openFor = failures, openFor }
}

// WithLogger sends the worker's log there. Without it, or with nil, nothing is
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

// WithKafka adds options to the worker's Kafka clients, after ax's own.
func WithKafka(opts ...kgo.Opt) Option { return func(c *config) { c.kafka = append(c.kafka, opts...) } }
