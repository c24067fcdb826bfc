package delay_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a domain on a fake Kafka, a client that writes its topics raw, and
// a reader of its lanes in the place of workers.
type bench struct {
	t      *testing.T
	c      *fakekafka.Cluster
	r      *router.Router
	domain ax.Domain
	lead   time.Duration
	raw    *kgo.Client
	log    *slog.Logger

	mu  sync.Mutex
	got []arrival
}

// arrival is one record in a lane.
type arrival struct {
	*ax.Task
	topic string
	at    time.Time
}

// newBench makes a domain of two lanes, which it reads. What d leaves open is
// small.
func newBench(t *testing.T, c *fakekafka.Cluster, d ax.Delay) *bench {
	t.Helper()
	b := silent(t, c, d)
	b.listen()
	return b
}

// silent is newBench without a reader of the lanes.
func silent(t *testing.T, c *fakekafka.Cluster, d ax.Delay) *bench {
	t.Helper()
	if d.NearPartitions == 0 {
		d.NearPartitions = 1
	}
	if d.Partitions == 0 {
		d.Partitions = 1
	}
	if d.Rate == 0 {
		d.Rate = 1
	}
	r := c.Provision(t, ax.Domain{
		Name: "orders", Delay: d, Trim: ax.Trim{Every: time.Second},
		Lanes: []ax.Lane{{Name: "high", Weight: 2, Partitions: 1}, {Name: "low", Weight: 1, Partitions: 2}},
	})
	b := &bench{
		t: t, c: c, r: r, domain: r.Domain(), lead: r.Domain().Delay.Lead,
		raw: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(16<<10),
			kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MetadataMaxAge(time.Hour)),
		log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	return b
}

// listen reads each partition of the lanes with a client of its own: a client
// begins a fetch with what it has found by then, and what it finds later waits
// until that fetch is over, which is long here to keep hours cheap.
func (b *bench) listen() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, lane := range b.domain.Lanes {
		for p := range int32(lane.Partitions) {
			cl := b.c.Client(b.t, kgo.FetchMaxWait(time.Minute), kgo.MetadataMaxAge(time.Hour),
				kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{b.r.Lane(lane.Name): {p: kgo.NewOffset().AtStart()}}))
			wg.Go(func() {
				for ctx.Err() == nil {
					cl.PollFetches(ctx).EachRecord(b.arrive)
				}
			})
		}
	}
	b.t.Cleanup(func() { cancel(); wg.Wait() })
}

func (b *bench) arrive(r *kgo.Record) {
	task, err := ax.Decode(r, [16]byte{})
	if err != nil {
		b.t.Errorf("%s/%d@%d: %v", r.Topic, r.Partition, r.Offset, err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, arrival{task, r.Topic, time.Now()})
}

func (b *bench) arrived() []arrival {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]arrival(nil), b.got...)
}

// put writes tasks raw; what they claim is theirs to say.
func (b *bench) put(topic string, partition int32, tasks ...*ax.Task) {
	b.t.Helper()
	rs := make([]*kgo.Record, len(tasks))
	for i, task := range tasks {
		rs[i] = ax.Encode(task)
		rs[i].Topic, rs[i].Partition = topic, partition
	}
	require.NoError(b.t, b.raw.ProduceSync(context.Background(), rs...).FirstErr())
}

// tasks returns n tasks that are due at due(i), named after the prefix.
func tasks(prefix string, n int, lane string, due func(i int) time.Time) []*ax.Task {
	ts := make([]*ax.Task, n)
	for i := range ts {
		ts[i] = &ax.Task{ID: fmt.Sprintf("%s-%d", prefix, i), Kind: "job", Lane: lane, Due: due(i)}
	}
	return ts
}

// leaving sets what the tasks claim.
func leaving(at time.Time, ts ...*ax.Task) []*ax.Task {
	for _, t := range ts {
		t.Leave = at
	}
	return ts
}

// always is a due function.
func always(at time.Time) func(int) time.Time { return func(int) time.Time { return at } }

// requireOnTime requires that each of the tasks, and nothing else, is in the
// lanes exactly once, not before its lead and at most late after its due
// instant.
func (b *bench) requireOnTime(late time.Duration, want ...*ax.Task) {
	b.t.Helper()
	due := map[string]time.Time{}
	for _, t := range want {
		due[t.ID] = t.Due
	}
	seen := map[string]bool{}
	for _, a := range b.arrived() {
		at, ok := due[a.ID]
		require.True(b.t, ok, "task %s is unknown", a.ID) // require.Contains would copy the map
		require.False(b.t, seen[a.ID], "task %s came twice", a.ID)
		seen[a.ID] = true
		require.False(b.t, a.at.Before(at.Add(-b.lead)), "task %s is %s early", a.ID, at.Sub(a.at))
		require.LessOrEqual(b.t, a.at.Sub(at), late, "task %s is late", a.ID)
	}
	require.Len(b.t, seen, len(due), "tasks are missing")
}

// running is a mover that was started; stop ends it and returns what Run did.
type running struct {
	m      *delay.Mover
	cancel context.CancelFunc
	done   chan error
	once   sync.Once
	err    error
}

func (r *running) stop() error {
	r.once.Do(func() {
		r.cancel()
		r.err = <-r.done
	})
	return r.err
}

func (b *bench) mover(opts ...delay.Option) *running {
	b.t.Helper()
	m := b.new(opts...)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{m: m, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- m.Run(ctx) }()
	b.t.Cleanup(func() { _ = r.stop() })
	return r
}

func (b *bench) new(opts ...delay.Option) *delay.Mover {
	b.t.Helper()
	m, err := delay.New(b.domain, append([]delay.Option{delay.WithKafka(b.c.Opts()...), delay.WithLogger(b.log)}, opts...)...)
	require.NoError(b.t, err)
	return m
}

// patient makes hours of virtual time cheap: idle clients ask less often.
func patient() delay.Option {
	return delay.WithKafka(kgo.FetchMaxWait(time.Minute), kgo.SessionTimeout(5*time.Minute), kgo.HeartbeatInterval(time.Minute), kgo.MetadataMaxAge(time.Hour))
}

// smallFetches lets one poll return little.
func smallFetches() delay.Option {
	return delay.WithKafka(kgo.FetchMaxBytes(64<<10), kgo.FetchMaxPartitionBytes(32<<10), kgo.MetadataMaxAge(time.Hour))
}

// committed returns the commit of a mover's group, -1 if there is none.
func (b *bench) committed(topic string, partition int32) int64 {
	b.t.Helper()
	group := b.r.FarGroup()
	if topic == b.r.Near() {
		group = b.r.NearGroup()
	}
	info := b.c.Kfake().GroupInfo(group)
	if info == nil {
		return -1
	}
	if at, ok := info.Commits[topic][partition]; ok {
		return at.Offset
	}
	return -1
}

// count returns how many records a topic has ever taken.
func (b *bench) count(topic string) (n int64) {
	for _, p := range b.c.Kfake().PartitionInfos(topic) {
		n += p.HighWatermark
	}
	return n
}
