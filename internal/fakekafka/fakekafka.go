// Package fakekafka gives tests a Kafka in their own process: franz-go's
// kfake, either on real loopback ports ([Start]) or on a virtual network
// inside a testing/synctest bubble ([Bubble]), where hours pass in
// milliseconds. Run the tests with -tags synctests, which makes the Kafka
// client use locks that a bubble can see.
//
// It is for tests only; nothing else may import it.
package fakekafka

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/router"
)

// Cluster is a Kafka cluster that ends with its test.
type Cluster struct {
	kfake   *kfake.Cluster
	network *kfake.VirtualNetwork // nil on real ports
	brokers int
	stamper stamper
}

type config struct {
	brokers int
	kfake   []kfake.Opt
	network *kfake.VirtualNetwork
}

// Option configures a cluster.
type Option func(*config)

// Brokers sets the number of brokers. The default is one.
func Brokers(n int) Option { return func(c *config) { c.brokers = n } }

// With adds kfake's own options, after those of this package.
func With(opts ...kfake.Opt) Option { return func(c *config) { c.kfake = append(c.kfake, opts...) } }

// Start returns a cluster on loopback ports, which is closed at the test's end.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return start(t, config{}, opts)
}

// Bubble runs fn in a synctest bubble, with a cluster on a virtual network.
// Everything that fn starts must have ended when it returns or with t.Cleanup;
// the cluster is closed last.
func Bubble(t *testing.T, fn func(t *testing.T, c *Cluster), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fn(t, start(t, config{network: &kfake.VirtualNetwork{}}, opts))
	})
}

func start(t testing.TB, cfg config, opts []Option) *Cluster {
	t.Helper()
	cfg.brokers = 1
	for _, o := range opts {
		o(&cfg)
	}
	kopts := []kfake.Opt{
		kfake.NumBrokers(cfg.brokers),
		kfake.GroupMinSessionTimeout(100 * time.Millisecond),
		kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "100"}),
	}
	if cfg.network != nil {
		ports := make([]int, cfg.brokers)
		for i := range ports {
			ports[i] = 9092 + i
		}
		kopts = append(kopts, kfake.Ports(ports...), kfake.ListenFn(cfg.network.Listen))
	}
	fake, err := kfake.NewCluster(append(kopts, cfg.kfake...)...)
	require.NoError(t, err)
	t.Cleanup(fake.Close)
	c := &Cluster{kfake: fake, network: cfg.network, brokers: cfg.brokers}
	c.stamper.install(fake)
	return c
}

// Kfake returns the cluster itself, for faults and controls.
func (c *Cluster) Kfake() *kfake.Cluster { return c.kfake }

// Addrs returns the brokers' addresses.
func (c *Cluster) Addrs() []string { return c.kfake.ListenAddrs() }

// Opts returns what a client needs to reach the cluster, and to see a change
// of its topics soon. Hand it to producer.WithKafka and the like too: in a
// bubble it holds the dialer of the virtual network, and a reader of tiers
// needs it everywhere, since kfake stamps a batch without a new checksum.
func (c *Cluster) Opts() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Addrs()...),
		kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.DisableFetchCRCValidation(),
	}
	if c.network != nil {
		opts = append(opts, kgo.Dialer(c.network.DialContext))
	}
	return opts
}

// Client returns a client that is closed at the test's end.
func (c *Cluster) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(c.Opts(), opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

// Admin returns an admin client that is closed at the test's end.
func (c *Cluster) Admin(t testing.TB) *kadm.Client {
	t.Helper()
	return kadm.NewClient(c.Client(t))
}

// Domain returns d with this cluster's brokers. Where d says nothing of
// durability and replication, it gets what the cluster can give: with one
// broker ax.Fast, with two a replication of 2.
func (c *Cluster) Domain(d ax.Domain) ax.Domain {
	d.Kafka.Brokers = c.Addrs()
	if d.Durability == "" && d.Replication == 0 {
		switch c.brokers {
		case 1:
			d.Durability = ax.Fast
		case 2:
			d.Replication = 2
		}
	}
	return d
}

// Provision makes the topics of c.Domain(d) and returns its router, whose
// Domain is what the other packages are to be given. Records in its tiers get
// the time of their append, which kfake by itself would not do.
func (c *Cluster) Provision(t testing.TB, d ax.Domain) *router.Router {
	t.Helper()
	r, err := router.New(c.Domain(d))
	require.NoError(t, err)
	cl, err := kgo.NewClient(c.Opts()...)
	require.NoError(t, err)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	plan, err := r.Plan(t.Context(), adm)
	require.NoError(t, err)
	require.NoError(t, plan.Apply(t.Context(), adm))
	c.stamper.add(t.Context(), t, adm, r)
	return r
}

// Records returns all that a topic holds now, by partition and offset. It
// works in t.Cleanup too. The records are the caller's to keep.
func (c *Cluster) Records(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(append(c.Opts(), kgo.FetchMaxWait(100*time.Millisecond))...)
	require.NoError(t, err)
	defer cl.Close()

	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topic)
	require.NoError(t, err)
	require.NoError(t, starts.Error())
	ends, err := adm.ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	require.NoError(t, ends.Error())
	missing := map[int32]int64{} // partition → end
	from := map[int32]kgo.Offset{}
	for p, end := range ends[topic] {
		if start, _ := starts.Lookup(topic, p); start.Offset < end.Offset {
			missing[p], from[p] = end.Offset, kgo.NewOffset().At(start.Offset)
		}
	}
	var all []*kgo.Record
	if len(missing) > 0 {
		cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	}
	for len(missing) > 0 {
		fs := cl.PollFetches(ctx)
		require.NoError(t, fs.Err(), "read topic %s up to %v", topic, missing)
		fs.EachRecord(func(r *kgo.Record) {
			end, ok := missing[r.Partition]
			if !ok || r.Offset >= end {
				return // written since
			}
			all = append(all, r)
			if r.Offset == end-1 {
				delete(missing, r.Partition)
			}
		})
	}
	slices.SortFunc(all, func(a, b *kgo.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return all
}
