package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// One task that fails once: a send, two runs that link to it and are no
// children of it, and the send of the retry between them.
func TestOneTaskIsOneStoryOfLinkedSpans(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		spans := tracetest.NewInMemoryExporter()
		tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		reader := metric.NewManualReader()
		mp := metric.NewMeterProvider(metric.WithReader(reader))
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {Backoff: ax.Backoff{Delays: []time.Duration{3 * time.Second}}}}})
		client, err := producer.New(b.domain, producer.WithKafka(c.Opts()...), producer.WithTracerProvider(tp))
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close(context.Background())) }()
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(ctx context.Context, t *ax.Task) error {
			trace.SpanFromContext(ctx).AddEvent("in the handler")
			if t.Attempt == 1 {
				return errors.New("secret text")
			}
			return nil
		})
		w := b.worker(mux, consumer.WithTracerProvider(tp), consumer.WithMeterProvider(mp))
		m := b.mover(delay.WithTracerProvider(tp))
		receipt, err := client.Submit(t.Context(), ax.Task{Kind: "job"}, producer.Lane("high"))
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		var rm metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &rm)) // while the worker is there
		running := names(rm)
		for _, n := range []string{"ax.worker.slots", "ax.lane.weight", "ax.lane.running", "ax.lane.buffered", "ax.lane.held", "ax.lane.slot.time"} {
			require.True(t, running[n], n)
		}
		require.EqualValues(t, 2, total(rm, "ax.lane.starts", "ax.rule", "share"))
		require.NoError(t, w.stop())
		require.NoError(t, m.stop())

		byName := map[string][]tracetest.SpanStub{}
		for _, s := range spans.GetSpans() {
			byName[s.Name] = append(byName[s.Name], s)
			for _, a := range s.Attributes {
				require.NotContains(t, a.Value.String(), "secret text")
			}
		}
		created := byName["send orders.lane.high"][0]
		require.Equal(t, trace.SpanKindProducer, created.SpanKind)
		runs := byName["process orders.lane.high"]
		require.Len(t, runs, 2)
		for i, run := range runs {
			require.Equal(t, trace.SpanKindConsumer, run.SpanKind)
			require.False(t, run.Parent.IsValid(), "a run is no child of the submit")
			require.NotEqual(t, created.SpanContext.TraceID(), run.SpanContext.TraceID())
			require.Len(t, run.Events, 1, "the handler sees the run's span")
			links := map[trace.SpanID]bool{}
			for _, l := range run.Links {
				links[l.SpanContext.SpanID()] = true
			}
			require.True(t, links[created.SpanContext.SpanID()], "run %d links to the creation", i)
			require.Len(t, run.Links, 1+i, "and the second to the hop that brought it")
			attrs := map[string]string{}
			for _, a := range run.Attributes {
				attrs[string(a.Key)] = a.Value.String()
			}
			require.Equal(t, receipt.ID, attrs["messaging.message.id"])
			require.Equal(t, "orders.worker.high", attrs["messaging.consumer.group.name"])
			require.Equal(t, []string{"1", "2"}[i], attrs["ax.task.attempt"])
		}
		require.Equal(t, "failed", runs[0].Status.Description)

		require.NoError(t, reader.Collect(t.Context(), &rm))
		require.EqualValues(t, 1, total(rm, "ax.task.outcomes", "ax.outcome", "done"))
		require.EqualValues(t, 1, total(rm, "ax.task.outcomes", "ax.outcome", "failed"))
		require.EqualValues(t, 2, total(rm, "ax.task.outcomes", "", ""))
		have := names(rm)
		for _, n := range []string{"ax.task.wait", "ax.task.lateness", "messaging.process.duration", "messaging.client.consumed.messages"} {
			require.True(t, have[n], n)
		}
	})
}

// names returns which metrics there are.
func names(rm metricdata.ResourceMetrics) map[string]bool {
	out := map[string]bool{}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			out[m.Name] = true
		}
	}
	return out
}

// total returns the sum of a counter where an attribute has a value, or
// everywhere if key is empty.
func total(rm metricdata.ResourceMetrics, name string, key attribute.Key, value string) (n int64) {
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == name {
				for _, p := range sum.DataPoints {
					if v, _ := p.Attributes.Value(key); key == "" || v.AsString() == value {
						n += p.Value
					}
				}
			}
		}
	}
	return n
}
