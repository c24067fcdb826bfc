package telemetry

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/axtasks/ax"
)

const scope = "github.com/axtasks/ax"

// Config says where telemetry goes. A nil provider is the global one; a nil
// propagator is the global one, or W3C trace context where none is set.
type Config struct {
	Tracer     trace.TracerProvider
	Meter      metric.MeterProvider
	Propagator propagation.TextMapPropagator
}

// Telemetry is safe for concurrent use.
type Telemetry struct {
	tracer trace.Tracer
	meter  metric.Meter
	prop   propagation.TextMapPropagator

	sent      metric.Int64Counter
	consumed  metric.Int64Counter
	operation metric.Float64Histogram
	process   metric.Float64Histogram
	wait      metric.Float64Histogram
	lateness  metric.Float64Histogram
	outcomes  metric.Int64Counter
	rejected  metric.Int64Counter

	// Without an SDK a span costs what a short handler does. So once a span has
	// come out as none, only every awakeEvery-th is asked for again, in case
	// an SDK is registered later.
	asleep atomic.Bool
	asked  atomic.Uint32

	starts sync.Map // name+destination → []trace.SpanStartOption
	sets   sync.Map // [4]string → metric.MeasurementOption
}

// seconds are the boundaries of all histograms. The SDK's default begins with
// 0, 5 and 10 seconds, which would put every task into one bucket.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// New makes the tracer and the instruments.
func New(c Config) (*Telemetry, error) {
	if c.Tracer == nil {
		c.Tracer = otel.GetTracerProvider()
	}
	if c.Meter == nil {
		c.Meter = otel.GetMeterProvider()
	}
	if c.Propagator == nil {
		if c.Propagator = otel.GetTextMapPropagator(); len(c.Propagator.Fields()) == 0 {
			c.Propagator = propagation.TraceContext{}
		}
	}
	t := &Telemetry{
		tracer: c.Tracer.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		prop:   c.Propagator,
	}
	t.meter = c.Meter.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	m := t.meter
	var err error
	counter := func(to *metric.Int64Counter, name, unit, desc string) {
		if err == nil {
			*to, err = m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(desc))
		}
	}
	histogram := func(to *metric.Float64Histogram, name, desc string) {
		if err == nil {
			*to, err = m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(desc),
				metric.WithExplicitBucketBoundaries(seconds...))
		}
	}
	counter(&t.sent, "messaging.client.sent.messages", "{message}", "Records that ax tried to write.")
	counter(&t.consumed, "messaging.client.consumed.messages", "{message}", "Records that ax read.")
	histogram(&t.operation, "messaging.client.operation.duration", "Time from a send to its acknowledgement.")
	histogram(&t.process, "messaging.process.duration", "Time that handlers ran.")
	histogram(&t.wait, "ax.task.wait", "Time from when a task could start to when it started.")
	histogram(&t.lateness, "ax.task.lateness", "Time from the due instant of a delayed task to its start.")
	counter(&t.outcomes, "ax.task.outcomes", "{task}", "Ends of runs, and of tasks without a run.")
	counter(&t.rejected, "ax.task.rejected", "{task}", "Submits that were refused or failed.")
	if err != nil {
		return nil, fmt.Errorf("ax: telemetry: %w", err)
	}
	return t, nil
}

// options returns the span options that are the same for each span of a name,
// so that a span without an SDK behind it allocates none.
func (t *Telemetry) options(name, destination string, build func() []trace.SpanStartOption) []trace.SpanStartOption {
	key := [2]string{name, destination}
	if opts, ok := t.starts.Load(key); ok {
		return opts.([]trace.SpanStartOption)
	}
	opts, _ := t.starts.LoadOrStore(key, build())
	return opts.([]trace.SpanStartOption)
}

// set returns the attributes of a measurement, made once for each value.
func (t *Telemetry) set(a, b, c, d string, build func() []attribute.KeyValue) metric.MeasurementOption {
	key := [4]string{a, b, c, d}
	if s, ok := t.sets.Load(key); ok {
		return s.(metric.MeasurementOption)
	}
	s, _ := t.sets.LoadOrStore(key, metric.WithAttributeSet(attribute.NewSet(build()...)))
	return s.(metric.MeasurementOption)
}

const awakeEvery = 64

// none returns the span that is none.
func none() trace.Span { return trace.SpanFromContext(context.Background()) }

// Idle reports whether a span would be none. Who has many tasks asks once.
func (t *Telemetry) Idle(ctx context.Context) bool {
	return t.asleep.Load() && t.asked.Add(1)%awakeEvery != 0 && !trace.SpanContextFromContext(ctx).IsValid()
}

// saw notes whether a span is one.
func (t *Telemetry) saw(sc trace.SpanContext) bool {
	valid := sc.IsValid()
	if t.asleep.Load() == valid {
		t.asleep.Store(!valid)
	}
	return valid
}

// Send begins the span of a submit, whose context it puts into the task's
// headers as the creation context, unless the caller gave one or used up what
// a record's headers may take: more, and the worker would refuse the record.
func (t *Telemetry) Send(ctx context.Context, task *ax.Task, destination string) (context.Context, trace.Span) {
	if t.Idle(ctx) {
		return ctx, none()
	}
	ctx, span := t.tracer.Start(ctx, "send "+destination, t.sendOptions(destination, trace.SpanKindProducer)...)
	if sc := span.SpanContext(); t.saw(sc) {
		span.SetAttributes(semconv.MessagingMessageID(task.ID), attribute.String("ax.task.kind", task.Kind))
		c := (*carrier)(task)
		if !slices.ContainsFunc(t.prop.Fields(), func(f string) bool { return c.Get(f) != "" }) {
			own := task.Headers
			if t.prop.Inject(ctx, c); !fits(task.Headers) {
				task.Headers = own
			}
		}
	}
	return ctx, span
}

// Hop begins the span of a send that moves a task on: a retry, or a tier's
// republish. It puts its context into the task's Hop and leaves the creation
// context as it is.
func (t *Telemetry) Hop(ctx context.Context, task *ax.Task, destination string) trace.Span {
	if t.Idle(ctx) {
		return none()
	}
	_, span := t.tracer.Start(ctx, "send "+destination, t.sendOptions(destination, trace.SpanKindClient)...)
	if sc := span.SpanContext(); t.saw(sc) {
		span.SetAttributes(semconv.MessagingMessageID(task.ID), attribute.String("ax.task.kind", task.Kind))
		t.link(span, task)
		task.Hop = traceparent(sc)
	}
	return span
}

func (t *Telemetry) sendOptions(destination string, kind trace.SpanKind) []trace.SpanStartOption {
	return t.options("send"+kind.String(), destination, func() []trace.SpanStartOption {
		return []trace.SpanStartOption{
			trace.WithSpanKind(kind),
			trace.WithAttributes(
				semconv.MessagingSystemKafka, semconv.MessagingOperationName("send"), semconv.MessagingOperationTypeSend,
				semconv.MessagingDestinationName(destination)),
		}
	})
}

// Process begins the span of one run of a handler.
func (t *Telemetry) Process(ctx context.Context, task *ax.Task, group string) (context.Context, trace.Span) {
	// A run's span is a root: what is in ctx makes no difference, and asking a
	// run's context for it costs more than the rest of a short run.
	if t.Idle(context.Background()) {
		return ctx, none()
	}
	destination := task.Source.Topic
	ctx, span := t.tracer.Start(ctx, "process "+destination, t.options("process", destination, func() []trace.SpanStartOption {
		return []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithNewRoot(),
			trace.WithAttributes(
				semconv.MessagingSystemKafka, semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess,
				semconv.MessagingDestinationName(destination), semconv.MessagingConsumerGroupName(group)),
		}
	})...)
	if t.saw(span.SpanContext()) {
		span.SetAttributes(
			semconv.MessagingMessageID(task.ID),
			semconv.MessagingDestinationPartitionID(strconv.Itoa(int(task.Source.Partition))),
			semconv.MessagingKafkaOffset(int(task.Source.Offset)),
			attribute.String("ax.task.kind", task.Kind), attribute.String("ax.task.lane", task.Lane),
			attribute.Int("ax.task.attempt", task.Attempt), attribute.String("ax.task.run", task.Run),
		)
		t.link(span, task)
	}
	return ctx, span
}

// link ties the span to the task's creation and to the hop that wrote it.
func (t *Telemetry) link(span trace.Span, task *ax.Task) {
	created := trace.SpanContextFromContext(t.prop.Extract(context.Background(), (*carrier)(task)))
	if created.IsValid() {
		span.AddLink(trace.Link{SpanContext: created, Attributes: []attribute.KeyValue{attribute.String("ax.link", "creation")}})
	}
	if hop := parseTraceparent(task.Hop); hop.IsValid() {
		span.AddLink(trace.Link{SpanContext: hop, Attributes: []attribute.KeyValue{attribute.String("ax.link", "hop")}})
	}
}

// End ends a span, as failed with this class unless it is empty. The text of
// an error may hold a user's data and stays out.
func End(span trace.Span, class string) {
	if class != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(class))
		span.SetStatus(codes.Error, class)
	}
	span.End()
}

// Counts reports whether Sent does anything.
func (t *Telemetry) Counts(ctx context.Context) bool {
	return t.sent.Enabled(ctx) || t.operation.Enabled(ctx)
}

// Sent counts a record written, or tried to, and how long it took.
func (t *Telemetry) Sent(ctx context.Context, destination, class string, took time.Duration) {
	if !t.Counts(ctx) {
		return
	}
	set := t.set("sent", destination, class, "", func() []attribute.KeyValue {
		return withError(class, semconv.MessagingSystemKafka, semconv.MessagingOperationName("send"),
			semconv.MessagingOperationTypeSend, semconv.MessagingDestinationName(destination))
	})
	t.sent.Add(ctx, 1, set)
	t.operation.Record(ctx, took.Seconds(), set)
}

// Consumed counts records read.
func (t *Telemetry) Consumed(ctx context.Context, destination, group string, n int) {
	if n == 0 || !t.consumed.Enabled(ctx) {
		return
	}
	t.consumed.Add(ctx, int64(n), t.set("consumed", destination, group, "", func() []attribute.KeyValue {
		return []attribute.KeyValue{semconv.MessagingSystemKafka, semconv.MessagingOperationName("poll"),
			semconv.MessagingDestinationName(destination), semconv.MessagingConsumerGroupName(group)}
	}))
}

// Started records how long a task waited once it could start, and how late a
// delayed one is; late is negative for a task that was never delayed.
func (t *Telemetry) Started(ctx context.Context, lane, kind string, wait, late time.Duration) {
	if !t.wait.Enabled(ctx) {
		return
	}
	set := t.set("started", lane, kind, "", func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("ax.task.lane", lane), attribute.String("ax.task.kind", kind)}
	})
	t.wait.Record(ctx, wait.Seconds(), set)
	if late >= 0 {
		t.lateness.Record(ctx, late.Seconds(), set)
	}
}

// Ended counts the end of a run, or of a task that ended without one, for
// which took is negative.
func (t *Telemetry) Ended(ctx context.Context, lane, kind, outcome string, took time.Duration) {
	if !t.outcomes.Enabled(ctx) {
		return
	}
	set := t.set("ended", lane, kind, outcome, func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("ax.task.lane", lane), attribute.String("ax.task.kind", kind),
			attribute.String("ax.outcome", outcome)}
	})
	t.outcomes.Add(ctx, 1, set)
	if took >= 0 {
		t.process.Record(ctx, took.Seconds(), set)
	}
}

// Rejected counts a submit that was refused or failed, by the class of its
// error.
func (t *Telemetry) Rejected(ctx context.Context, class string) {
	if !t.rejected.Enabled(ctx) {
		return
	}
	t.rejected.Add(ctx, 1, t.set("rejected", class, "", "", func() []attribute.KeyValue {
		return []attribute.KeyValue{semconv.ErrorTypeKey.String(class)}
	}))
}

func withError(class string, kvs ...attribute.KeyValue) []attribute.KeyValue {
	if class != "" {
		kvs = append(kvs, semconv.ErrorTypeKey.String(class))
	}
	return kvs
}
