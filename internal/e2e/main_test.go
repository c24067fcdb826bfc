//go:build kafka

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(setupVar); text != "" {
		if err := play(text); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", text, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv("AX_KAFKA") == "" {
		fmt.Fprintln(os.Stderr, `e2e: AX_KAFKA names no broker; run "make real", which starts a Kafka`)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// newDomain returns a domain of its own, with topics, for one test.
func newDomain(t *testing.T, change func(*ax.Domain)) *router.Router {
	t.Helper()
	d := bareDomain()
	if change != nil {
		change(&d)
	}
	r, err := router.New(d)
	require.NoError(t, err)
	adm := admin(t)
	plan, err := r.Plan(t.Context(), adm)
	require.NoError(t, err)
	require.NoError(t, plan.Apply(t.Context(), adm))
	awaitEverywhere(t, r.Topics())
	t.Cleanup(func() {
		_, err := adm.DeleteTopics(context.Background(), r.Topics()...)
		require.NoError(t, err)
	})
	return r
}

// awaitEverywhere waits until each broker has heard of the topics: where many
// tests make topics at once, that takes a while.
func awaitEverywhere(t *testing.T, topics []string) {
	t.Helper()
	cl := bare(t)
	require.NoError(t, cl.Ping(t.Context()))
	req := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, rt)
	}
	eventually(t, time.Minute, func() (bool, string) {
		for _, b := range cl.DiscoveredBrokers() {
			resp, err := req.RequestWith(t.Context(), b)
			if err != nil {
				return false, err.Error()
			}
			for _, topic := range resp.Topics {
				if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
					return false, fmt.Sprintf("a broker says of %s: %v", *topic.Topic, err)
				}
				for _, p := range topic.Partitions {
					if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
						return false, fmt.Sprintf("a broker says of %s/%d: %v", *topic.Topic, p.Partition, err)
					}
				}
			}
		}
		return true, ""
	})
}

func bareDomain() ax.Domain {
	var b [5]byte
	_, _ = rand.Read(b[:])
	return ax.Domain{
		Name:  "e2e-" + hex.EncodeToString(b[:]),
		Kafka: ax.Kafka{Brokers: strings.Split(os.Getenv("AX_KAFKA"), ",")},
		// Fewer partitions than by default: the tests make many topics.
		Delay: ax.Delay{Tiers: []time.Duration{2 * time.Second, 10 * time.Second}, NearPartitions: 3, Window: 500 * time.Millisecond},
	}
}

func admin(t *testing.T) *kadm.Client {
	t.Helper()
	return kadm.NewClient(bare(t, kgo.MetadataMinAge(50*time.Millisecond)))
}

// bare returns a client that knows nothing of ax.
func bare(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(os.Getenv("AX_KAFKA"), ",")...)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func client(t *testing.T, d ax.Domain, opts ...producer.Option) *producer.Client {
	t.Helper()
	c, err := producer.New(d, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

// submit writes tasks and returns their receipts.
func submit(t *testing.T, c *producer.Client, tasks ...ax.Task) []ax.Receipt {
	t.Helper()
	receipts := make([]ax.Receipt, len(tasks))
	for i, r := range c.SubmitMany(t.Context(), tasks) {
		require.NoError(t, r.Err)
		receipts[i] = r.Receipt
	}
	return receipts
}

// jobs returns n tasks with the ids prefix-0 and so on.
func jobs(prefix string, n int) []ax.Task {
	tasks := make([]ax.Task, n)
	for i := range tasks {
		tasks[i] = ax.Task{ID: fmt.Sprintf("%s-%d", prefix, i), Kind: "job"}
	}
	return tasks
}

var heavy sync.Mutex

// load keeps tests apart that load the machine: one at a time, until it ends
// with its subtests.
func load(t *testing.T) {
	heavy.Lock()
	t.Cleanup(heavy.Unlock)
}

// eventually waits until ok, and fails with what it says after the limit.
func eventually(t *testing.T, limit time.Duration, ok func() (bool, string)) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(limit)
	for range tick.C {
		done, why := ok()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %s: %s", limit, why)
		}
	}
}

// work runs a role of this process until the test ends.
func work(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(t, <-done)
	}
	t.Cleanup(stop)
	return stop
}
