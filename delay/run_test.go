package delay_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
)

func TestNewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := ax.Domain{Name: "orders", Durability: ax.Fast}
	_, err := delay.New(good)
	require.NoError(t, err)
	_, err = delay.New(ax.Domain{})
	var fault *ax.FieldError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, "domain", fault.Path)
	_, err = delay.New(good, delay.WithCommitEvery(0))
	require.ErrorContains(t, err, "commit interval 0s")
	_, err = delay.New(good, delay.WithGrace(-time.Second))
	require.ErrorContains(t, err, "grace -1s")
	bad := good
	bad.Kafka.TLS = ax.TLS{CAFile: "testdata/absent.pem"}
	_, err = delay.New(bad)
	require.ErrorContains(t, err, "absent.pem")
	_, err = delay.New(good, delay.WithLogger(nil))
	require.NoError(t, err)
}

func TestRunNamesTheTopicThatIsMissing(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"orders.delay.near", "orders.delay.5s", "orders.lane.low", "orders.dead"} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Delay{})
				require.NoError(t, c.Kfake().DeleteTopic(missing))
				began := time.Now()
				m := b.new()
				err := m.Run(t.Context())
				require.ErrorIs(t, err, ax.ErrTopicMissing)
				require.ErrorContains(t, err, missing)
				require.Less(t, time.Since(began), 20*time.Second)
				require.Nil(t, c.Kfake().GroupInfo(b.r.NearGroup()), "it joined a group and can't work")
				require.ErrorIs(t, m.Run(t.Context()), ax.ErrClosed, "a second Run")
			})
		})
	}
}

func TestRunSaysThatNoBrokerAnswers(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		refused := kgo.Dialer(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody there") })
		began := time.Now()
		err := b.new(delay.WithKafka(refused)).Run(t.Context())
		require.ErrorIs(t, err, ax.ErrUnreachable)
		require.ErrorContains(t, err, "nobody there")
		require.Less(t, time.Since(began), 15*time.Second)
	})
}

func TestAStopBeforeTheStartIsNoError(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, b.new().Run(ctx))
		time.Sleep(time.Minute)
		if info := c.Kfake().GroupInfo(b.r.FarGroup()); info != nil {
			require.Empty(t, info.Members)
		}
	})
}

// A stop while a lane refuses its tasks ends within the grace, and says so.
func TestAStopWithOpenMovesEndsWithinTheGrace(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		fault := b.refuse(b.r.Lane("high"))
		all := tasks("t", 3, "high", always(time.Now().Add(time.Second)))
		b.put(b.r.Near(), 0, all...)
		m := b.mover(delay.WithGrace(2 * time.Second))
		time.Sleep(5 * time.Second)
		began := time.Now()
		require.ErrorContains(t, m.stop(), "3 moves without an answer")
		require.Less(t, time.Since(began), 5*time.Second)
		fault.Remove()
		b.mover()
		time.Sleep(5 * time.Second)
		b.requireOnTime(time.Minute, all...)
	})
}

func parent(sc trace.SpanContext) string {
	return fmt.Sprintf("00-%s-%s-01", sc.TraceID(), sc.SpanID())
}

// Over a hundred hops the creation context stays, the hop's is replaced, and
// the headers don't grow.
func TestAHundredHopsAreLinkedSpansAndHeadersOfConstantSize(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{time.Second}, Window: 100 * time.Millisecond})
		spans := tracetest.NewInMemoryExporter()
		b.mover(delay.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))), delay.WithPropagator(propagation.TraceContext{}))
		const created = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		now := time.Now()
		task := tasks("t", 1, "low", always(now.Add(90*time.Second+111*time.Millisecond)))[0]
		task.Headers = []ax.Header{{Name: "mine", Value: []byte("x")}, {Name: "traceparent", Value: []byte(created)}}
		b.put(b.r.Next(task, now, now), 0, task)
		time.Sleep(2 * time.Minute)
		b.requireOnTime(0, task)

		tier := b.r.Tiers()[0].Topic
		hops := append(c.Records(t, tier), c.Records(t, b.r.Near())...)
		hops = append(hops, c.Records(t, b.r.Lane("low"))...)
		require.Greater(t, len(hops), 100)
		list := spans.GetSpans()
		require.Len(t, list, len(hops)-1, "a span for each move")
		last, size := "", 0
		for i, r := range hops {
			seen := map[string]string{}
			n := 0
			for _, h := range r.Headers {
				require.NotContains(t, seen, h.Key, "repeated")
				seen[h.Key] = string(h.Value)
				if h.Key != ax.HeaderLeave { // a time, whose zeros at the end are left out
					n += len(h.Key) + len(h.Value)
				}
			}
			require.Equal(t, created, seen["traceparent"])
			require.Equal(t, "x", seen["mine"])
			if i == 0 {
				continue
			}
			if size == 0 {
				size = n
			}
			require.Equal(t, size, n, "hop %d", i)
			span := list[i-1]
			require.Equal(t, trace.SpanKindClient, span.SpanKind)
			require.Equal(t, parent(span.SpanContext), seen[ax.HeaderHop])
			links := map[string]string{}
			for _, l := range span.Links {
				links[l.Attributes[0].Value.AsString()] = parent(l.SpanContext)
			}
			require.Equal(t, created, links["creation"])
			require.Equal(t, last, links["hop"])
			require.Equal(t, "send "+r.Topic, span.Name, "the span names where the record went")
			last = seen[ax.HeaderHop]
		}
	})
}
