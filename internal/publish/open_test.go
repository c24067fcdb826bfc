package publish_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/publish"
)

const other = "other"

// owner is a publisher that owns its client, at work, with the clients that it
// has made.
type owner struct {
	*publish.Publisher
	t    *testing.T
	c    *fakekafka.Cluster
	log  lines
	stop func()

	mu      sync.Mutex
	clients []*kgo.Client
	answers []answer
	refuse  error // of the next client
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// own makes two topics of one partition each, and starts a publisher.
func own(t *testing.T, c *fakekafka.Cluster, cfg publish.Config) *owner {
	t.Helper()
	for _, name := range []string{topic, other} {
		require.NoError(t, c.Kfake().CreateTopic(name, 1, nil))
	}
	o := &owner{t: t, c: c}
	cfg.Open = o.open
	cfg.Log = slog.New(slog.NewTextHandler(&o.log, nil))
	var err error
	o.Publisher, err = publish.Open(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { o.Run(ctx) })
	o.stop = sync.OnceFunc(func() { cancel(); wg.Wait(); o.Close() })
	t.Cleanup(o.stop)
	return o
}

func (o *owner) open(own ...kgo.Opt) (*kgo.Client, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refuse != nil {
		return nil, o.refuse
	}
	cl, err := kgo.NewClient(append(append(o.c.Opts(), kgo.ProducerLinger(0), kgo.MetadataMinAge(time.Second), kgo.RecordPartitioner(kgo.ManualPartitioner())), own...)...)
	o.clients = append(o.clients, cl)
	return cl, err
}

func (o *owner) made() []*kgo.Client {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.clients)
}

// publish sends the values 0 to n-1 of a source.
func (o *owner) publish(topic, source string, n int) {
	for i := range n {
		r := &kgo.Record{Topic: topic, Value: fmt.Append(nil, source, i)}
		o.Publish(publish.Item{Record: r, Source: source, Done: o.done})
	}
}

func (o *owner) done(r *kgo.Record, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers = append(o.answers, answer{string(r.Value), err, time.Now()})
}

func (o *owner) answered() []answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.answers)
}

// requireAnswered requires that n records were answered, each once and without
// an error.
func (o *owner) requireAnswered(n int) {
	o.t.Helper()
	seen := map[string]bool{}
	for _, a := range o.answered() {
		require.NoError(o.t, a.err)
		require.False(o.t, seen[a.value], "%s was answered twice", a.value)
		seen[a.value] = true
	}
	require.Len(o.t, seen, n)
}

// values returns what a topic holds.
func (o *owner) values(topic string) (all []string) {
	for _, r := range o.c.Records(o.t, topic) {
		all = append(all, string(r.Value))
	}
	return all
}

// fault answers each write to a topic with err, until it is removed. With
// kerr.NotEnoughReplicas the client tries for ever and nothing is written; with
// kerr.RequestTimedOut the record is written and its acknowledgement is late.
func fault(c *fakekafka.Cluster, topic string, err *kerr.Error) *kfake.FaultHandle {
	return c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: err, Count: -1})
}

func numbered(source string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(source, i)
	}
	return all
}
