package dead_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/dead"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a domain on a fake Kafka with a dead topic of three partitions.
type bench struct {
	t  *testing.T
	c  *fakekafka.Cluster
	r  *router.Router
	cl *kgo.Client // writes where a record says
}

func orders() ax.Domain {
	return ax.Domain{
		Name:       "orders",
		Lanes:      []ax.Lane{{Name: "high", Weight: 4, Partitions: 1}, {Name: "low", Weight: 1, Partitions: 1}},
		Kinds:      map[string]ax.Kind{"report": {Lane: "low", Expires: time.Hour}},
		Delay:      ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}, Partitions: 1, NearPartitions: 1, Rate: 1},
		MaxPayload: 1000, DefaultLane: "high",
	}
}

func newBench(t *testing.T, c *fakekafka.Cluster) *bench {
	t.Helper()
	return &bench{
		t: t, c: c, r: c.Provision(t, orders()),
		cl: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation()),
	}
}

// death returns the record of a task's death, as a worker makes it.
func (b *bench) death(n int, t ax.Task, change ...func(*ax.Death)) *kgo.Record {
	b.t.Helper()
	r := ax.Encode(&t)
	r.Topic, r.Partition, r.Offset = b.r.Lane(t.Lane), 0, int64(n)
	d := ax.Death{Reason: ax.ReasonFailed, Error: "it broke", At: day, Attempt: 3, TopicID: [16]byte{7}}
	for _, c := range change {
		c(&d)
	}
	dr := ax.DeadRecord(r, d)
	dr.Topic = b.r.Dead()
	return dr
}

var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// job is a death of a plain task.
func (b *bench) job(n int) *kgo.Record {
	return b.death(n, ax.Task{ID: fmt.Sprintf("job-%d", n), Kind: "job", Lane: "high", Payload: fmt.Appendf(nil, "payload %d", n)})
}

// put writes records, each to its partition, and returns the first.
func (b *bench) put(rs ...*kgo.Record) *kgo.Record {
	b.t.Helper()
	require.NoError(b.t, b.cl.ProduceSync(context.Background(), rs...).FirstErr())
	return rs[0]
}

// tomb returns the tombstone of a record.
func tomb(r *kgo.Record) *kgo.Record {
	return &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key}
}

// again returns a copy of a record that can be written.
func again(r *kgo.Record) *kgo.Record {
	return &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers}
}

func (b *bench) open() (*dead.Scan, error) {
	return dead.Open(b.t.Context(), b.cl, &kafka.Watch{}, b.r.Dead())
}

// scan opens the dead topic.
func (b *bench) scan() *dead.Scan {
	b.t.Helper()
	s, err := b.open()
	require.NoError(b.t, err)
	return s
}

// live returns what of the entries that f chooses.
func (b *bench) live(f dead.Filter, what func(*dead.Entry) string) []string {
	b.t.Helper()
	all := []string{}
	require.NoError(b.t, b.scan().Each(b.t.Context(), func(e *dead.Entry) error {
		if f.Match(e) {
			all = append(all, what(e))
		}
		return nil
	}))
	return all
}

func id(e *dead.Entry) string    { return e.ID }
func place(e *dead.Entry) string { return fmt.Sprintf("%s@%d/%d", e.ID, e.Partition, e.Offset) }

func (b *bench) writer(opts ...kgo.Opt) *dead.Writer {
	b.t.Helper()
	w, err := dead.NewWriter(b.r, append(b.c.Opts(), opts...)...)
	require.NoError(b.t, err)
	b.t.Cleanup(w.Close)
	return w
}

// tasks returns the tasks that a topic holds.
func (b *bench) tasks(topic string) []*ax.Task {
	b.t.Helper()
	var all []*ax.Task
	for _, r := range b.c.Records(b.t, topic) {
		t, err := ax.Decode(r, [16]byte{})
		require.NoError(b.t, err)
		all = append(all, t)
	}
	return all
}

// ids returns the ids of the tasks in a topic.
func (b *bench) ids(topic string) []string {
	b.t.Helper()
	all := []string{}
	for _, t := range b.tasks(topic) {
		all = append(all, t.ID)
	}
	return all
}
