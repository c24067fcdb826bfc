package bench

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/producer"
)

// reader is the control of a worker: the bare client in a group of its own. It
// commits what it has handled, gives each record a deadline, and does nothing
// else that a worker does.
type reader struct {
	client *kgo.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// read starts a reader with so many slots.
func (g *ground) read(ctx context.Context, topic string, slots int, handle func(context.Context, *kgo.Record)) (*reader, error) {
	group := g.router.Domain().Name + ".raw"
	g.groups = append(g.groups, group)
	cl, err := g.bare(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.AutoCommitMarks(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &reader{client: cl, cancel: cancel}
	queue := make(chan *kgo.Record, 4096)
	for range slots {
		r.wg.Go(func() {
			for rec := range queue {
				within, cancel := context.WithTimeout(ctx, ax.DefaultTimeout)
				handle(within, rec)
				cancel()
				cl.MarkCommitRecords(rec)
			}
		})
	}
	r.wg.Go(func() {
		defer close(queue)
		for {
			fs := cl.PollFetches(ctx)
			if fs.IsClientClosed() || ctx.Err() != nil {
				return
			}
			fs.EachRecord(func(rec *kgo.Record) {
				select {
				case queue <- rec:
				case <-ctx.Done():
				}
			})
		}
	})
	return r, nil
}

// stop ends the reader and leaves its group. A second call does nothing.
func (r *reader) stop() {
	r.cancel()
	r.wg.Wait()
	r.client.Close()
}

// sample submits a task that doesn't count and returns its record as the log
// has it, so that the control writes the same.
func (g *ground) sample(ctx context.Context, c *producer.Client, task ax.Task) (*kgo.Record, error) {
	task.Payload = numbered(warmUp, g.Payload)
	at, err := c.Submit(ctx, task)
	if err != nil {
		return nil, err
	}
	cl, err := g.bare(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		at.Topic: {at.Partition: kgo.NewOffset().At(at.Offset)},
	}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	fs := cl.PollFetches(ctx)
	if err := fs.Err(); err != nil {
		return nil, fmt.Errorf("read a task back: %w", err)
	}
	return fs.Records()[0], nil
}

// template makes records that differ from a sample in id and payload alone,
// at the least cost: everything else is shared.
type template struct {
	headers []kgo.RecordHeader
	id      int // its index
	idSize  int
	key     []byte
	size    int
}

func newTemplate(sample *kgo.Record) (*template, error) {
	t := &template{headers: sample.Headers, key: sample.Key, size: len(sample.Value)}
	t.id = slices.IndexFunc(sample.Headers, func(h kgo.RecordHeader) bool { return h.Key == ax.HeaderID })
	if t.id < 0 {
		return nil, errors.New("a task came back without an id")
	}
	t.idSize = len(sample.Headers[t.id].Value)
	return t, nil
}

// record returns the record of a number.
func (t *template) record(n int) *kgo.Record {
	value := numbered(uint64(n), t.size)
	// As random as a UUID: what compresses better is another record.
	id := make([]byte, t.idSize)
	for at := 0; at < len(id); at += 16 {
		var digits [16]byte
		hex.Encode(digits[:], binary.BigEndian.AppendUint64(nil, rand.Uint64()))
		copy(id[at:], digits[:])
	}
	headers := slices.Clone(t.headers)
	headers[t.id].Value = id
	return &kgo.Record{Key: t.key, Value: value, Headers: headers}
}

// write writes n records to a topic, in the batches in which tasks are
// submitted and as safely, and returns how long it took.
func (g *ground) write(ctx context.Context, topic string, n int, t *template) (took time.Duration, err error) {
	cl, err := g.bare(append(kafka.Producing(g.router.Domain()), kgo.DefaultProduceTopic(topic))...)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return 0, err
	}
	return inBatches(ctx, n, func(ctx context.Context, from, to int) error {
		rs := make([]*kgo.Record, to-from)
		for i := range rs {
			rs[i] = t.record(from + i)
		}
		return cl.ProduceSync(ctx, rs...).FirstErr()
	})
}

// timers is the control of delayed tasks: a bare timer for each.
type timers struct {
	mu   sync.Mutex
	all  []*time.Timer
	late samples
}

// add lets a timer fire at an instant.
func (t *timers) add(due time.Time) {
	timer := time.AfterFunc(time.Until(due), func() { t.late.add(time.Since(due)) })
	t.mu.Lock()
	t.all = append(t.all, timer)
	t.mu.Unlock()
}

func (t *timers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, timer := range t.all {
		timer.Stop()
	}
}
