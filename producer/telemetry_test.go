package producer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

func tracing() (*tracetest.InMemoryExporter, producer.Option) {
	spans := tracetest.NewInMemoryExporter()
	return spans, producer.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
}

func attributes(kvs []attribute.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range kvs {
		out[string(kv.Key)] = kv.Value.String()
	}
	return out
}

func header(task *ax.Task, name string) (values []string) {
	for _, h := range task.Headers {
		if h.Name == name {
			values = append(values, string(h.Value))
		}
	}
	return values
}

func TestSubmitIsOneProducerSpanWhoseContextTravels(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	spans, with := tracing()
	cl, r := open(t, c, orders(), with)
	for _, wait := range []time.Duration{0, time.Hour} {
		spans.Reset()
		receipt, err := cl.Submit(t.Context(), ax.Task{Kind: "order.close", ID: "id-1", Key: "secret-key"}, producer.After(wait))
		require.NoError(t, err)
		got := spans.GetSpans()
		require.Len(t, got, 1)
		require.Equal(t, "send orders.lane.high", got[0].Name, "the lane, though it goes to %s", receipt.Topic)
		require.Equal(t, trace.SpanKindProducer, got[0].SpanKind)
		require.Equal(t, map[string]string{
			"messaging.system": "kafka", "messaging.operation.name": "send", "messaging.operation.type": "send",
			"messaging.destination.name": "orders.lane.high", "messaging.message.id": "id-1", "ax.task.kind": "order.close",
		}, attributes(got[0].Attributes))
		task := decode(t, c.Records(t, receipt.Topic)[0])
		sc := got[0].SpanContext
		require.Equal(t, []string{fmt.Sprintf("00-%s-%s-01", sc.TraceID(), sc.SpanID())}, header(task, "traceparent"))
		require.Empty(t, task.Hop)
	}
	_ = r
}

func TestTraceOfTheCallerIsItsParentAndAGivenContextIsKept(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	spans, with := tracing()
	cl, _ := open(t, c, orders(), with, producer.WithPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})))
	ctx, parent := sdktrace.NewTracerProvider().Tracer("test").Start(t.Context(), "request")
	const given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	headers := make([]ax.Header, 1, 8) // room in which an append would write
	headers[0] = ax.Header{Name: "traceparent", Value: []byte(given)}
	receipt, err := cl.Submit(ctx, ax.Task{Kind: "k", Headers: headers})
	require.NoError(t, err)
	require.Equal(t, parent.SpanContext().TraceID(), spans.GetSpans()[0].Parent.TraceID())
	require.Equal(t, []string{given}, header(decode(t, c.Records(t, receipt.Topic)[0]), "traceparent"))
	require.Empty(t, headers[:2][1].Name, "the caller's slice is not written to")
}

// A task with all the headers that a record may carry once became malformed by
// the traceparent that tracing added.
func TestTracingNeverMakesARecordThatTheWorkerRefuses(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	_, with := tracing()
	cl, _ := open(t, c, orders(), with)
	many := make([]ax.Header, ax.MaxHeaders)
	for i := range many {
		many[i].Name = fmt.Sprint("h", i)
	}
	for _, headers := range [][]ax.Header{many, {{Name: "a", Value: make([]byte, ax.MaxHeaderBytes-1)}}} {
		receipt, err := cl.Submit(t.Context(), ax.Task{Kind: "order.close", Headers: headers}, producer.Key(fmt.Sprint(len(headers))))
		require.NoError(t, err)
		for _, rec := range c.Records(t, receipt.Topic) {
			_, err = ax.Decode(rec, [16]byte{})
			require.NoError(t, err)
		}
	}
}

func TestFailedSubmitMarksItsSpan(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	spans, with := tracing()
	cl := client(t, c.Domain(orders()), producer.WithKafka(c.Opts()...), with)
	_, err := cl.Submit(t.Context(), ax.Task{Kind: "k"})
	require.ErrorIs(t, err, ax.ErrTopicMissing)
	got := spans.GetSpans()
	require.Len(t, got, 1)
	require.Equal(t, codes.Error, got[0].Status.Code)
	require.Equal(t, "topic_missing", attributes(got[0].Attributes)["error.type"])
}

func TestMetricsCountSubmitsByLaneAndClass(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		reader := sdkmetric.NewManualReader()
		cl, _ := open(t, c, orders(), producer.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
			producer.WithBuffer(1, 1<<20), producer.WithFull(producer.Call(func(context.Context, *ax.Task) error { return nil })))
		for range 3 {
			_, err := cl.Submit(t.Context(), ax.Task{Kind: "order.close"})
			require.NoError(t, err)
		}
		_, err := cl.Submit(t.Context(), ax.Task{Kind: ""})
		require.Error(t, err)
		mute(c)
		cl.SubmitAsync(t.Context(), ax.Task{Kind: "k"}, func(ax.Receipt, error) {})
		_, err = cl.Submit(t.Context(), ax.Task{Kind: "k"})
		require.NoError(t, err, "run by the caller, not sent")
		closeSoon(t, cl)
		time.Sleep(time.Second)

		var rm metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &rm))
		counts := map[string]int64{}
		var bounds []float64
		for _, m := range rm.ScopeMetrics[0].Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					a := attributes(p.Attributes.ToSlice())
					counts[m.Name+" "+a["messaging.destination.name"]+" "+a["error.type"]] = p.Value
				}
			case metricdata.Histogram[float64]:
				require.Equal(t, "messaging.client.operation.duration", m.Name)
				require.Equal(t, "s", m.Unit)
				bounds = data.DataPoints[0].Bounds
			}
		}
		require.Equal(t, map[string]int64{
			"messaging.client.sent.messages orders.lane.high ":                  3,
			"messaging.client.sent.messages orders.lane.normal unknown_outcome": 1,
			"ax.task.rejected  invalid":                                         1,
			"ax.task.rejected  unknown_outcome":                                 1,
		}, counts)
		require.Equal(t, 0.001, bounds[0])
		require.Contains(t, bounds, 0.05)
	})
}
