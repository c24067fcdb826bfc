package trim_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/offset"
	"github.com/axtasks/ax/internal/trim"
	"github.com/axtasks/ax/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a domain on a fake Kafka, and who trims it.
type bench struct {
	t    *testing.T
	c    *fakekafka.Cluster
	r    *router.Router
	adm  *kadm.Client
	trim *trim.Trimmer
	log  lines
}

// newBench makes a domain of two lanes and two far tiers, which waits for the
// groups beside its own.
func newBench(t *testing.T, c *fakekafka.Cluster, groups ...string) *bench {
	t.Helper()
	b := &bench{t: t, c: c, adm: c.Admin(t)}
	b.edit(ax.Domain{
		Name: "orders", Trim: ax.Trim{Every: time.Minute, Groups: groups},
		Lanes: []ax.Lane{{Name: "high", Weight: 2, Partitions: 1}, {Name: "low", Weight: 1, Partitions: 2}},
		Delay: ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}, Partitions: 1, NearPartitions: 1, Rate: 1},
	})
	return b
}

// edit puts another file in the place of the domain's.
func (b *bench) edit(d ax.Domain) {
	b.t.Helper()
	b.r = b.c.Provision(b.t, d)
	b.trim = trim.New(b.r, b.adm, &kafka.Watch{}, slog.New(slog.NewTextHandler(&b.log, nil)))
}

// put writes n records, with a client that knows no older topic of the name.
func (b *bench) put(topic string, partition int32, n int) {
	b.t.Helper()
	cl, err := kgo.NewClient(append(b.c.Opts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	require.NoError(b.t, err)
	defer cl.Close()
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte("x")}
	}
	require.NoError(b.t, cl.ProduceSync(context.Background(), rs...).FirstErr())
}

// commit commits for a group.
func (b *bench) commit(group, topic string, partition int32, at int64, metadata ...string) {
	b.t.Helper()
	os := kadm.Offsets{}
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: at, LeaderEpoch: -1, Metadata: strings.Join(metadata, "")})
	require.NoError(b.t, b.adm.CommitAllOffsets(context.Background(), group, os))
}

// text returns what ax says with a commit below which all is finished.
func text(id [16]byte, at int64) string {
	var w offset.Window
	for o := range at {
		w.Add(o, 0)
		w.Done(o)
	}
	return (&offset.Metadata{}).Encode(&w, id)
}

func (b *bench) id(topic string) [16]byte {
	b.t.Helper()
	topics, err := b.adm.ListTopics(context.Background(), topic)
	require.NoError(b.t, err)
	return topics[topic].ID
}

// start returns the first offset that a partition holds.
func (b *bench) start(topic string, partition int32) int64 {
	return b.c.Kfake().PartitionInfo(topic, partition).LogStartOffset
}

// once trims once, without an error.
func (b *bench) once() trim.Report {
	b.t.Helper()
	report, err := b.trim.Once(context.Background())
	require.NoError(b.t, err)
	return report
}

// run trims until the function that it returns is called.
func (b *bench) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { b.trim.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	b.t.Cleanup(stop)
	return stop
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns how many lines hold the text.
func (l *lines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
