package fakekafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testRoundTrip writes to two partitions and reads the topic back.
func testRoundTrip(t *testing.T, c *fakekafka.Cluster) {
	r := c.Provision(t, ax.Domain{Name: "orders"})
	topic := r.Lane("normal")
	require.Empty(t, c.Records(t, topic))

	cl := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 10 {
		rec := &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: fmt.Append(nil, i)}
		require.NoError(t, cl.ProduceSync(t.Context(), rec).FirstErr())
	}
	var got []string
	for _, rec := range c.Records(t, topic) {
		got = append(got, fmt.Sprintf("%d@%d=%s", rec.Partition, rec.Offset, rec.Value))
	}
	require.Equal(t, []string{"0@0=0", "0@1=2", "0@2=4", "0@3=6", "0@4=8", "1@0=1", "1@1=3", "1@2=5", "1@3=7", "1@4=9"}, got)
}

func TestStartServesARoundTripOnLoopback(t *testing.T) {
	t.Parallel()
	testRoundTrip(t, fakekafka.Start(t))
}

func TestStartWithThreeBrokersSuitsASafeDomain(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t, fakekafka.Brokers(3))
	require.Len(t, c.Addrs(), 3)
	require.Empty(t, c.Domain(ax.Domain{Name: "orders"}).Durability)
	testRoundTrip(t, c)
}

func TestBubbleServesARoundTripWithoutTimePassing(t *testing.T) {
	t.Parallel()
	for _, brokers := range []int{1, 3} {
		fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
			began := time.Now()
			testRoundTrip(t, c)
			require.Less(t, time.Since(began), 500*time.Millisecond)
		}, fakekafka.Brokers(brokers))
	}
}

// A group consumer in a bubble: an hour passes, then a record arrives at once,
// and brokers stamp tiers with the bubble's time.
func TestBubbleCarriesAGroupOverAnHour(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		r := c.Provision(t, ax.Domain{Name: "orders"})
		topic := r.Tiers()[0].Topic
		cl := c.Client(t, kgo.ConsumerGroup(r.FarGroup()), kgo.ConsumeTopics(topic),
			kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
		time.Sleep(time.Hour)
		sent := time.Now()
		rec := &kgo.Record{Topic: topic, Value: []byte("x"), Timestamp: sent.Add(-time.Hour)}
		require.NoError(t, c.Client(t).ProduceSync(t.Context(), rec).FirstErr())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		fs := cl.PollFetches(ctx)
		require.NoError(t, fs.Err())
		require.Len(t, fs.Records(), 1)
		require.Less(t, time.Since(sent), time.Second)
		require.WithinDuration(t, sent, fs.Records()[0].Timestamp, time.Second)
	})
}

func TestDomainAsksForWhatTheClusterHas(t *testing.T) {
	t.Parallel()
	one, two := fakekafka.Start(t), fakekafka.Start(t, fakekafka.Brokers(2))
	require.Equal(t, ax.Fast, one.Domain(ax.Domain{}).Durability)
	require.Equal(t, 2, two.Domain(ax.Domain{}).Replication)
	require.Equal(t, 7, one.Domain(ax.Domain{Replication: 7}).Replication)
	_, err := router.New(two.Domain(ax.Domain{Name: "orders"}))
	require.NoError(t, err)
}
