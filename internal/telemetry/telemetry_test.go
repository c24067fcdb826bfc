package telemetry_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func traced(t *testing.T, p propagation.TextMapPropagator) (*telemetry.Telemetry, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	tel, err := telemetry.New(telemetry.Config{
		Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), Meter: noop.NewMeterProvider(), Propagator: p,
	})
	require.NoError(t, err)
	return tel, spans
}

func parent(sc trace.SpanContext) string {
	return fmt.Sprintf("00-%s-%s-01", sc.TraceID(), sc.SpanID())
}

func headers(task *ax.Task, name string) (values []string) {
	for _, h := range task.Headers {
		if h.Name == name {
			values = append(values, string(h.Value))
		}
	}
	return values
}

// links returns the links of a span: which sort, and to which context.
func links(s tracetest.SpanStub) map[string]string {
	out := map[string]string{}
	for _, l := range s.Links {
		out[l.Attributes[0].Value.AsString()] = parent(l.SpanContext)
	}
	return out
}

// One task over three hops: the creation context never changes, each hop
// replaces Hop and links to the creation and to the hop before.
func TestEachHopLinksToCreationAndToTheHopBefore(t *testing.T) {
	t.Parallel()
	tel, spans := traced(t, nil)
	task := &ax.Task{ID: "id-1", Kind: "k", Lane: "high", Source: ax.Source{Topic: "d.lane.high", Partition: 3, Offset: 9}}
	_, span := tel.Send(t.Context(), task, "d.lane.high")
	telemetry.End(span, "")
	created := headers(task, "traceparent")
	require.Equal(t, []string{parent(span.SpanContext())}, created)
	require.Empty(t, task.Hop)

	last := ""
	for range 3 {
		hop := tel.Hop(t.Context(), task, "d.delay.near")
		telemetry.End(hop, "")
		require.Equal(t, parent(hop.SpanContext()), task.Hop)
		require.Equal(t, created, headers(task, "traceparent"))
		stub := spans.GetSpans()[len(spans.GetSpans())-1]
		want := map[string]string{"creation": created[0]}
		if last != "" {
			want["hop"] = last
		}
		require.Equal(t, want, links(stub))
		require.Equal(t, "send d.delay.near", stub.Name)
		require.Equal(t, trace.SpanKindClient, stub.SpanKind)
		last = task.Hop
	}

	ctx, run := tel.Process(trace.ContextWithSpan(t.Context(), span), task, "d.worker.high")
	require.Equal(t, run.SpanContext(), trace.SpanContextFromContext(ctx))
	telemetry.End(run, "timeout")
	stub := spans.GetSpans()[4]
	require.Equal(t, map[string]string{"creation": created[0], "hop": last}, links(stub))
	require.Equal(t, trace.SpanKindConsumer, stub.SpanKind)
	require.False(t, stub.Parent.IsValid(), "no child of the submit: a new trace")
	require.Equal(t, codes.Error, stub.Status.Code)
	require.Contains(t, stub.Attributes, attribute.String("error.type", "timeout"))
	require.Contains(t, stub.Attributes, attribute.String("messaging.consumer.group.name", "d.worker.high"))
}

func TestGivenCreationContextIsNeitherReplacedNorDoubled(t *testing.T) {
	t.Parallel()
	tel, _ := traced(t, nil)
	const given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	task := &ax.Task{ID: "i", Kind: "k", Headers: []ax.Header{{Name: "traceparent", Value: []byte(given)}}}
	for range 3 {
		_, span := tel.Send(t.Context(), task, "d.lane.high")
		telemetry.End(span, "")
		telemetry.End(tel.Hop(t.Context(), task, "d.delay.near"), "")
	}
	require.Equal(t, []string{given}, headers(task, "traceparent"))
	require.Len(t, task.Headers, 1)
}

// doubling injects its field twice, as a careless propagator might.
type doubling struct{ propagation.TraceContext }

func (d doubling) Inject(ctx context.Context, c propagation.TextMapCarrier) {
	d.TraceContext.Inject(ctx, c)
	d.TraceContext.Inject(ctx, c)
}

func TestCarrierNeverHoldsAFieldTwiceNorWritesToTheCallersSlice(t *testing.T) {
	t.Parallel()
	tel, _ := traced(t, doubling{})
	own := make([]ax.Header, 1, 4)
	own[0] = ax.Header{Name: "tenant", Value: []byte("7")}
	task := &ax.Task{ID: "i", Kind: "k", Headers: own}
	_, span := tel.Send(t.Context(), task, "d.lane.high")
	telemetry.End(span, "")
	require.Len(t, headers(task, "traceparent"), 1)
	require.Len(t, task.Headers, 2)
	require.Equal(t, ax.Header{}, own[:2][1])
}

// A record that is full stays as it is: the worker would refuse one header
// more.
func TestFullHeadersGetNoTraceContext(t *testing.T) {
	t.Parallel()
	tel, _ := traced(t, nil)
	for _, full := range [][]ax.Header{make([]ax.Header, ax.MaxHeaders), {{Name: "a", Value: make([]byte, ax.MaxHeaderBytes-10)}}} {
		task := &ax.Task{ID: "i", Kind: "k", Headers: full}
		_, span := tel.Send(t.Context(), task, "d.lane.high")
		telemetry.End(span, "")
		require.Empty(t, headers(task, "traceparent"))
		require.Len(t, task.Headers, len(full))
	}
}

func TestMalformedContextsAreNoLinks(t *testing.T) {
	t.Parallel()
	tel, spans := traced(t, nil)
	task := &ax.Task{ID: "i", Kind: "k", Hop: "not a traceparent", Headers: []ax.Header{{Name: "traceparent", Value: []byte("\xff")}}}
	telemetry.End(tel.Hop(t.Context(), task, "d.dead"), "")
	require.Empty(t, spans.GetSpans()[0].Links)
	require.Equal(t, parent(spans.GetSpans()[0].SpanContext), task.Hop)
}

func untraced(t testing.TB) *telemetry.Telemetry {
	tel, err := telemetry.New(telemetry.Config{Tracer: nooptrace.NewTracerProvider(), Meter: noop.NewMeterProvider()})
	require.NoError(t, err)
	return tel
}

func TestWithoutAnSDKNothingIsInjected(t *testing.T) {
	t.Parallel()
	tel := untraced(t)
	task := &ax.Task{ID: "i", Kind: "k"}
	_, span := tel.Send(t.Context(), task, "d.lane.high")
	telemetry.End(span, "")
	telemetry.End(tel.Hop(t.Context(), task, "d.delay.near"), "other")
	require.Empty(t, task.Headers)
	require.Empty(t, task.Hop)
}

// What is left is the span's name and the API's own context. Not parallel, as
// it counts allocations.
func TestWithoutAnSDKMeasurementsAndSpansAreCheap(t *testing.T) {
	tel := untraced(t)
	ctx, task := t.Context(), &ax.Task{ID: "i", Kind: "k"}
	run := func() {
		_, span := tel.Send(ctx, task, "d.lane.high")
		telemetry.End(span, "")
		tel.Sent(ctx, "d.lane.high", "", time.Millisecond)
		tel.Started(ctx, "high", "k", 0, 0)
		tel.Ended(ctx, "high", "k", "done", time.Millisecond)
		tel.Rejected(ctx, "busy")
	}
	run()
	require.LessOrEqual(t, testing.AllocsPerRun(100, run), 3.0)
}

func TestInstrumentsHaveNamesUnitsAndExplicitBounds(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	tel, err := telemetry.New(telemetry.Config{
		Tracer: nooptrace.NewTracerProvider(), Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	})
	require.NoError(t, err)
	ctx := t.Context()
	tel.Sent(ctx, "d.lane.high", "busy", time.Second)
	tel.Consumed(ctx, "d.lane.high", "g", 3)
	tel.Consumed(ctx, "d.lane.high", "g", 0)
	tel.Started(ctx, "high", "k", time.Second, -1)
	tel.Started(ctx, "high", "k", time.Second, 0)
	tel.Ended(ctx, "high", "k", "done", time.Second)
	tel.Ended(ctx, "high", "k", "expired", -1)
	tel.Rejected(ctx, "busy")
	var rm metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(ctx, &rm))
	got := map[string]string{}
	for _, m := range rm.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			n := int64(0)
			for _, p := range data.DataPoints {
				n += p.Value
			}
			got[m.Name] = fmt.Sprint(m.Unit, " ", n)
		case metricdata.Histogram[float64]:
			n := uint64(0)
			for _, p := range data.DataPoints {
				require.Equal(t, 0.001, p.Bounds[0])
				require.Equal(t, 1800.0, p.Bounds[len(p.Bounds)-1])
				n += p.Count
			}
			got[m.Name] = fmt.Sprint(m.Unit, " ", n)
		}
	}
	require.Equal(t, map[string]string{
		"messaging.client.sent.messages": "{message} 1", "messaging.client.consumed.messages": "{message} 3",
		"messaging.client.operation.duration": "s 1", "messaging.process.duration": "s 1",
		"ax.task.wait": "s 2", "ax.task.lateness": "s 1", "ax.task.outcomes": "{task} 2", "ax.task.rejected": "{task} 1",
	}, got)
}
