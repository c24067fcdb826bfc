package producer

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
)

// SubmitOption sets a field of the task that is submitted. Each has the
// meaning of the field of ax.Task that it names.
type SubmitOption func(*ax.Task)

// At makes the task due at that instant.
func At(t time.Time) SubmitOption { return func(k *ax.Task) { k.Due = t } }

// After makes the task due d after the submit; at once where d is zero or less.
func After(d time.Duration) SubmitOption {
	return func(k *ax.Task) {
		if k.Due = (time.Time{}); d > 0 {
			k.Due = clock.Now().Add(d)
		}
	}
}

// Lane puts the task into that lane instead of its kind's.
func Lane(name string) SubmitOption { return func(k *ax.Task) { k.Lane = name } }

// Key sets the task's key.
func Key(key string) SubmitOption { return func(k *ax.Task) { k.Key = key } }

// ID sets the task's id instead of a new UUID. Two submits under one id are
// two copies of one task, which a worker with a store runs once.
func ID(id string) SubmitOption { return func(k *ax.Task) { k.ID = id } }

// Timeout bounds one run of the task.
func Timeout(d time.Duration) SubmitOption { return func(k *ax.Task) { k.Timeout = d } }

// Attempts sets how many starts of the task may fail.
func Attempts(n int) SubmitOption { return func(k *ax.Task) { k.MaxAttempts = n } }

// Expires sets the instant from which the task is not worth a start.
func Expires(t time.Time) SubmitOption { return func(k *ax.Task) { k.Expires = t } }

// Option configures a client.
type Option func(*config)

type config struct {
	kafka      []kgo.Opt
	log        *slog.Logger
	tracer     trace.TracerProvider
	meter      metric.MeterProvider
	propagator propagation.TextMapPropagator
	maxRecords int
	maxBytes   int
	full       Full
	timeout    time.Duration
}

func defaults() config {
	return config{maxRecords: 10_000, maxBytes: 64 << 20, full: Block(), timeout: 30 * time.Second}
}

// WithKafka adds options to the Kafka client, after ax's own.
func WithKafka(opts ...kgo.Opt) Option { return func(c *config) { c.kafka = append(c.kafka, opts...) } }

// WithLogger sends the client's log there. Without it, or with nil, nothing is
// logged.
func WithLogger(log *slog.Logger) Option { return func(c *config) { c.log = log } }

// WithTracerProvider replaces the global provider.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracer = p } }

// WithMeterProvider replaces the global provider.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meter = p } }

// WithPropagator replaces the global propagator, or W3C trace context where
// none is set.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(c *config) { c.propagator = p }
}

// WithBuffer bounds the tasks that wait for a broker's answer, in number and
// in bytes. The default is 10,000 and 64 MiB. A single task may be larger than
// the bytes.
func WithBuffer(tasks, bytes int) Option {
	return func(c *config) { c.maxRecords, c.maxBytes = tasks, bytes }
}

// WithTimeout bounds a submit whose context has no deadline. The default is
// 30 s.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithFull says what a submit does when the buffer is full. The default is
// [Block].
func WithFull(f Full) Option { return func(c *config) { c.full = f } }

// Full is a policy for a full buffer: [Block], [Busy], [Drop] or [Call].
type Full struct {
	block bool
	// run is called in the submitter's goroutine when the buffer is full, and
	// its error is the submit's.
	run func(context.Context, *ax.Task) error
}

// Block waits for room until the context ends.
func Block() Full { return Full{block: true} }

// Busy refuses with ax.ErrBusy at once.
func Busy() Full {
	return Full{run: func(context.Context, *ax.Task) error { return ax.ErrBusy }}
}

// Drop gives the task up, tells report of it, and returns ax.ErrDropped. report
// must not block, and must not keep the task.
func Drop(report func(*ax.Task)) Full {
	return Full{run: func(_ context.Context, t *ax.Task) error {
		if report != nil {
			report(t)
		}
		return ax.ErrDropped
	}}
}

// Call hands the task to fn in the submitter's goroutine, where it may run it,
// store it elsewhere, or refuse it. A nil error of fn is a receipt without a
// topic.
func Call(fn func(context.Context, *ax.Task) error) Full { return Full{run: fn} }
