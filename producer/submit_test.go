package producer_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

func TestReceiptSaysWhereTheTaskIsAndTheRecordHoldsIt(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, r := open(t, c, orders())
		payload := []byte{0, 0xff, '\n', 0x80}
		now := time.Now().UTC()
		receipt, err := cl.Submit(t.Context(), ax.Task{
			Kind: "order.close", Payload: payload, Headers: []ax.Header{{Name: "tenant", Value: []byte{1, 0, 2}}},
		}, producer.Key("customer-7"), producer.Timeout(90*time.Second), producer.Attempts(3), producer.Expires(now.Add(time.Hour)))
		require.NoError(t, err)
		require.Equal(t, "orders.lane.high", receipt.Topic)
		require.Len(t, receipt.ID, 36)
		require.WithinDuration(t, now, receipt.Due, time.Second)

		records := c.Records(t, receipt.Topic)
		require.Len(t, records, 1)
		rec := records[0]
		require.Equal(t, payload, rec.Value)
		require.Equal(t, "customer-7", string(rec.Key))
		require.Equal(t, [2]int64{int64(receipt.Partition), receipt.Offset}, [2]int64{int64(rec.Partition), rec.Offset})
		headers := map[string]string{}
		for _, h := range rec.Headers {
			headers[h.Key] = string(h.Value)
		}
		require.Equal(t, map[string]string{
			"ax-kind": "order.close", "ax-id": receipt.ID, "ax-lane": "high", "ax-timeout": "1m30s", "ax-max-attempts": "3",
			"ax-expires":   now.Add(time.Hour).Format(time.RFC3339Nano),
			"ax-submitted": receipt.Due.UTC().Format(time.RFC3339Nano), "tenant": "\x01\x00\x02",
		}, headers)
		require.Equal(t, 1, total(t, c, r))
	})
}

func TestReceiptsCountOffsetsUp(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	cl, _ := open(t, c, orders())
	for i := range 5 {
		receipt, err := cl.Submit(t.Context(), ax.Task{Kind: "k"}, producer.Key("one"), producer.ID(fmt.Sprint("id-", i)))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("id-", i), receipt.ID)
		require.EqualValues(t, i, receipt.Offset)
		require.Equal(t, "orders.lane.normal", receipt.Topic)
	}
}

func TestDelayedTaskGoesToItsTierWithALeaveTime(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, _ := open(t, c, orders())
		require.NoError(t, cl.Ping(t.Context())) // the first submit waits for a broker
		for wait, want := range map[time.Duration]string{
			0: "orders.lane.normal", -time.Hour: "orders.lane.normal", 50 * time.Millisecond: "orders.lane.normal",
			3 * time.Second: "orders.delay.near", 5 * time.Second: "orders.delay.5s",
			time.Hour: "orders.delay.1h", 399 * 24 * time.Hour: "orders.delay.1h",
		} {
			now := time.Now()
			receipt, err := cl.Submit(t.Context(), ax.Task{Kind: "k"}, producer.After(wait))
			require.NoError(t, err)
			require.Equal(t, want, receipt.Topic, "%s", wait)
			require.True(t, now.Add(max(wait, 0)).Equal(receipt.Due))
			recs := c.Records(t, receipt.Topic)
			task := decode(t, recs[len(recs)-1])
			for _, rec := range recs {
				if other := decode(t, rec); other.ID == receipt.ID {
					task = other
				}
			}
			if wait <= 0 {
				require.Zero(t, task.Due, "a task for now is not a delayed one")
				continue
			}
			require.True(t, task.Due.Equal(receipt.Due))
			switch want {
			case "orders.delay.5s":
				require.True(t, task.Leave.Equal(now.Add(4*time.Second)))
			case "orders.delay.1h":
				require.True(t, task.Leave.Equal(now.Add(time.Hour-time.Second)))
			default:
				require.True(t, task.Leave.IsZero())
			}
		}
	})
}

// What ax itself sets can't be smuggled in, such as attempts already spent.
func TestFieldsOfADeliveryAreIgnored(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	cl, _ := open(t, c, orders())
	long := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	receipt, err := cl.Submit(t.Context(), ax.Task{
		Kind: "k", Attempt: 9, Deferrals: 8, Submitted: long, Leave: long, Hop: "x", Run: "r", Token: 7, Source: ax.Source{Topic: "t"},
	})
	require.NoError(t, err)
	task := decode(t, c.Records(t, receipt.Topic)[0])
	require.Equal(t, 1, task.Attempt)
	require.Zero(t, task.Deferrals)
	require.WithinDuration(t, time.Now(), task.Submitted, time.Minute)
	require.True(t, task.Leave.IsZero())
	require.Empty(t, task.Hop)
}

func TestKindsDefaultExpiryCountsFromTheDueTime(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	cl, _ := open(t, c, orders())
	receipt, err := cl.Submit(t.Context(), ax.Task{Kind: "brief"}, producer.After(time.Hour))
	require.NoError(t, err)
	require.True(t, receipt.Due.Add(time.Minute).Equal(decode(t, c.Records(t, receipt.Topic)[0]).Expires))
}

func TestSubmitManyAnswersInOrderWithMixedResults(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	cl, r := open(t, c, orders())
	tasks := make([]ax.Task, 100)
	for i := range tasks {
		tasks[i] = ax.Task{Kind: "k", ID: fmt.Sprint("id-", i), Payload: fmt.Append(nil, i)}
		if i%10 == 3 {
			tasks[i].Lane = "nowhere"
		}
	}
	results := cl.SubmitMany(t.Context(), tasks)
	require.Len(t, results, len(tasks))
	at := map[string]string{}
	for _, rec := range c.Records(t, r.Lane("normal")) {
		at[fmt.Sprintf("%d@%d", rec.Partition, rec.Offset)] = string(rec.Value)
	}
	require.Len(t, at, 90)
	for i, res := range results {
		if i%10 == 3 {
			require.ErrorIs(t, res.Err, ax.ErrUnknownLane)
			require.Zero(t, res.Receipt)
			require.Equal(t, fmt.Sprint("id-", i), requireTaskError(t, res.Err).ID)
			continue
		}
		require.NoError(t, res.Err)
		require.Equal(t, fmt.Sprint("id-", i), res.Receipt.ID)
		require.Equal(t, fmt.Sprint(i), at[fmt.Sprintf("%d@%d", res.Receipt.Partition, res.Receipt.Offset)])
	}
	require.Empty(t, cl.SubmitMany(t.Context(), nil))

	own := []ax.Task{{Kind: "order.close"}}
	require.Len(t, cl.SubmitMany(t.Context(), own)[0].Receipt.ID, 36)
	require.Equal(t, []ax.Task{{Kind: "order.close"}}, own, "the caller's tasks are not written to")
}

func TestSubmitAsyncCallsDoneExactlyOnce(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, _ := open(t, c, orders())
		var ok, refused, late atomic.Int32
		count := func(to *atomic.Int32) func(ax.Receipt, error) { return func(ax.Receipt, error) { to.Add(1) } }
		for range 20 {
			cl.SubmitAsync(t.Context(), ax.Task{Kind: "k"}, count(&ok))
			cl.SubmitAsync(t.Context(), ax.Task{}, count(&refused))
		}
		require.EqualValues(t, 20, refused.Load(), "refused in the caller's goroutine")
		time.Sleep(time.Second)
		require.EqualValues(t, 20, ok.Load())

		mute(c)
		var unknown atomic.Int32
		for range 20 {
			cl.SubmitAsync(t.Context(), ax.Task{Kind: "k"}, func(_ ax.Receipt, err error) {
				late.Add(1)
				if errors.Is(err, ax.ErrUnknownOutcome) {
					unknown.Add(1)
				}
			})
		}
		time.Sleep(2 * time.Second)
		require.Zero(t, late.Load())
		closeSoon(t, cl)
		time.Sleep(time.Hour)
		require.EqualValues(t, 20, late.Load(), "answered by the close")
		require.EqualValues(t, 20, unknown.Load())
		require.EqualValues(t, 20, ok.Load())
	})
}

func TestRefusalsAreTypedAndWriteNothing(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	cl, r := open(t, c, orders())
	many := make([]ax.Header, ax.MaxHeaders+1)
	for i := range many {
		many[i] = ax.Header{Name: fmt.Sprint("h", i)}
	}
	for name, k := range map[string]struct {
		task   ax.Task
		opts   []producer.SubmitOption
		closer error
		field  string
	}{
		"no kind":            {ax.Task{}, nil, nil, "kind"},
		"kind with a space":  {ax.Task{Kind: "a b"}, nil, nil, "kind"},
		"kind too long":      {ax.Task{Kind: strings.Repeat("k", 101)}, nil, nil, "kind"},
		"id with a newline":  {ax.Task{Kind: "k", ID: "a\nb"}, nil, nil, "id"},
		"id too long":        {ax.Task{Kind: "k", ID: strings.Repeat("i", 201)}, nil, nil, "id"},
		"unknown lane":       {ax.Task{Kind: "k"}, []producer.SubmitOption{producer.Lane("x")}, ax.ErrUnknownLane, "lane"},
		"key too long":       {ax.Task{Kind: "k", Key: strings.Repeat("k", 1025)}, nil, nil, "key"},
		"payload too large":  {ax.Task{Kind: "k", Payload: make([]byte, 1<<20)}, nil, ax.ErrTooLarge, "payload"},
		"negative timeout":   {ax.Task{Kind: "k", Timeout: -1}, nil, nil, "timeout"},
		"negative attempts":  {ax.Task{Kind: "k"}, []producer.SubmitOption{producer.Attempts(-1)}, nil, "attempts"},
		"past the horizon":   {ax.Task{Kind: "k"}, []producer.SubmitOption{producer.After(401 * 24 * time.Hour)}, ax.ErrHorizon, "due"},
		"year 10000":         {ax.Task{Kind: "k"}, []producer.SubmitOption{producer.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))}, ax.ErrHorizon, "due"},
		"expires before due": {ax.Task{Kind: "k"}, []producer.SubmitOption{producer.After(time.Hour), producer.Expires(time.Now())}, ax.ErrExpired, "expires"},
		"expired already":    {ax.Task{Kind: "k", Expires: time.Now().Add(-time.Second)}, nil, ax.ErrExpired, "expires"},
		"reserved header":    {ax.Task{Kind: "k", Headers: []ax.Header{{Name: "AX-kind"}}}, nil, ax.ErrHeader, "header"},
		"repeated header":    {ax.Task{Kind: "k", Headers: []ax.Header{{Name: "a"}, {Name: "a"}}}, nil, ax.ErrHeader, "header"},
		"too many headers":   {ax.Task{Kind: "k", Headers: many}, nil, ax.ErrHeader, "header"},
		"headers too large":  {ax.Task{Kind: "k", Headers: []ax.Header{{Name: "a", Value: make([]byte, 17<<10)}}}, nil, ax.ErrHeader, "header"},
	} {
		receipt, err := cl.Submit(t.Context(), k.task, k.opts...)
		require.ErrorIs(t, err, ax.ErrInvalid, name)
		require.NotErrorIs(t, err, ax.ErrUnknownOutcome, name)
		require.Equal(t, k.field, requireTaskError(t, err).Field, name)
		require.Zero(t, receipt, name)
		if k.closer != nil {
			require.ErrorIs(t, err, k.closer, name)
		}
	}
	require.Zero(t, total(t, c, r))
}

func TestLargestPayloadAndHeadersFit(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	cl, r := open(t, c, orders())
	d := r.Domain()
	receipt, err := cl.Submit(t.Context(), ax.Task{
		Kind: strings.Repeat("k", ax.MaxKindBytes), ID: strings.Repeat("i", ax.MaxIDBytes), Key: strings.Repeat("y", ax.MaxKeyBytes),
		Payload: make([]byte, d.MaxPayload), Headers: []ax.Header{{Name: "a", Value: make([]byte, ax.MaxHeaderBytes-1)}},
	})
	require.NoError(t, err)
	require.Len(t, c.Records(t, receipt.Topic), 1)
}

func TestBrokersRefusalsHaveTheirSentinels(t *testing.T) {
	t.Parallel()
	for _, k := range []struct{ refusal, want error }{
		{kerr.MessageTooLarge, ax.ErrTooLarge}, {kerr.TopicAuthorizationFailed, ax.ErrAuth},
	} {
		c := fakekafka.Start(t, fakekafka.Brokers(2))
		cl, r := open(t, c, orders())
		c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: k.refusal.(*kerr.Error), Count: -1})
		_, err := cl.Submit(t.Context(), ax.Task{Kind: "k"})
		require.ErrorIs(t, err, k.want)
		require.ErrorContains(t, err, "orders.lane.normal")
		require.NotErrorIs(t, err, ax.ErrUnknownOutcome)
		require.Zero(t, total(t, c, r))
	}
}

func TestMissingTopicIsNamedWithAHint(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	cl := client(t, c.Domain(orders()), producer.WithKafka(c.Opts()...))
	_, err := cl.Submit(t.Context(), ax.Task{Kind: "k"})
	requireTaskError(t, err)
	require.ErrorIs(t, err, ax.ErrTopicMissing)
	require.NotErrorIs(t, err, ax.ErrUnknownOutcome)
	require.ErrorContains(t, err, "orders.lane.normal")
	require.ErrorContains(t, err, "ax topics apply")
}

func TestUsersKafkaOptionsComeLast(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r := c.Provision(t, orders())
	d := r.Domain()
	d.Kafka.Brokers = []string{"127.0.0.1:1"}
	cl := client(t, d, producer.WithKafka(kgo.SeedBrokers(c.Addrs()...)))
	require.NoError(t, cl.Ping(t.Context()))
}

func TestNewRefusesImpossibleSettings(t *testing.T) {
	t.Parallel()
	for want, opt := range map[string]producer.Option{
		"buffer of 0 tasks":  producer.WithBuffer(0, 1),
		"and 0 bytes":        producer.WithBuffer(1, 0),
		"timeout 0s":         producer.WithTimeout(0),
		"Call with a functi": producer.WithFull(producer.Call(nil)),
	} {
		_, err := producer.New(orders(), opt)
		require.ErrorContains(t, err, want)
	}
	_, err := producer.New(ax.Domain{})
	require.ErrorContains(t, err, "domain: is required")
}
