// Package publish writes records until they are acknowledged, for those who
// may finish a source record only then: worker and mover.
//
// A publish keeps the promise it has. While a broker may hold the record, it
// waits, since a second publish would be a copy; what passes is an alarm
// ([Publisher.Stalled], and a line in the log). Only what definitely failed is
// published again, with growing waits. Where a client can't go on, or says
// nothing for so long that it never will, a publisher that was made with [Open]
// replaces its client and publishes again what was open, which may make copies
// and counts them ([Publisher.Copies]).
//
// Nothing blocks. What is handed to the client is bounded for each target
// topic, in number and bytes, so that one dead target can't fill the client's
// buffer; what is beyond that waits here, in order and by source, and no source
// takes all of a target's room from the others. The callers bound what waits.
package publish

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/kafka"
)

// ErrNever: the record can't be written as it is, however often it is tried.
var ErrNever = errors.New("the record can't be written")

// ErrGivenUp: the record is not written and not tried again, since what it
// stands for is no longer its sender's.
var ErrGivenUp = errors.New("the source was lost before the record was written")

// Item is one record to be written.
type Item struct {
	// Record is the publisher's until it is answered.
	Record *kgo.Record
	// Source is who sends the record, such as the partition of its source
	// record; any comparable value. Records of one source and topic are handed
	// to the client in order, and sources share a topic's room.
	Source any
	// Owned, if not nil, tells whether the source is still the sender's. What
	// definitely failed is given up once it is not, with [ErrGivenUp], since
	// whoever owns the source now sends the record too. It must not block.
	Owned func() bool
	// Done is called once: with nil when the record is acknowledged, with an
	// error matching [ErrNever] when it can't be written as it is, or with
	// [ErrGivenUp]. It is not called for what is still open when the client is
	// closed: nobody knows whether that was written. It runs in the client's
	// goroutine or in that of [Publisher.Run], and must not block.
	Done func(*kgo.Record, error)
}

// Config describes a publisher that owns its client. Zero values take the
// defaults.
type Config struct {
	// Open makes a client: the caller's options, and after them those that it
	// is given. It is called again, by [Publisher.Run], for each rebuild.
	Open  func(...kgo.Opt) (*kgo.Client, error)
	Watch *kafka.Watch // nil: none
	Log   *slog.Logger // nil: nothing is logged

	// MaxRecords and MaxBytes bound what is handed to the client for one topic
	// and not answered: 4096 and 32 MiB. One record always fits. While others
	// wait, one source takes at most a quarter.
	MaxRecords int
	MaxBytes   int
	// AlarmAfter is how long a record may be open before it is an alarm: 30 s.
	AlarmAfter time.Duration
	// RebuildAfter is how long the client may say nothing of a record before
	// it is replaced, and the least time between two replacements: 5 min.
	RebuildAfter time.Duration
}

func (c *Config) setDefaults() {
	if c.Watch == nil {
		c.Watch = &kafka.Watch{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.MaxRecords = cmp.Or(c.MaxRecords, 4096)
	c.MaxBytes = cmp.Or(c.MaxBytes, 32<<20)
	c.AlarmAfter = cmp.Or(c.AlarmAfter, 30*time.Second)
	c.RebuildAfter = cmp.Or(c.RebuildAfter, 5*time.Minute)
}

// Publisher writes records with one client at a time. Make it with [Open] or
// [New], and run [Publisher.Run] while it is used. Its methods are safe for
// concurrent use.
type Publisher struct {
	cfg    Config
	wake   chan struct{}
	open   atomic.Int64
	copies atomic.Int64
	purges sync.WaitGroup

	// Of the goroutine of Run, and of Close after it.
	kafka   *kgo.Client
	rebuilt time.Time // the last rebuild
	checkAt time.Time // of the next look at what is open

	mu         sync.Mutex
	seq        uint64
	targets    map[string]*target
	ready      []*target // something waits, and there may be room for it
	retries    retries
	purge      []string // topics that were made anew
	inside     int      // items that the client has
	flushing   int
	generation int     // of the client
	broken     error   // why the client can't go on; nil while it can
	rebuilding bool    // what the client gives back is published again
	returned   []*item // by a client that was closed for a rebuild
}

// Open returns a publisher with a client of its own, which [Publisher.Close]
// closes. It returns the error of Config.Open.
func Open(cfg Config) (*Publisher, error) {
	cfg.setDefaults()
	p := newPublisher(cfg)
	var err error
	p.kafka, err = cfg.Open(p.own(p.generation)...)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// New returns a publisher that writes with client, which stays the caller's.
// It never replaces the client.
func New(client *kgo.Client, watch *kafka.Watch, log *slog.Logger) *Publisher {
	cfg := Config{Watch: watch, Log: log}
	cfg.setDefaults()
	p := newPublisher(cfg)
	p.kafka = client
	return p
}

func newPublisher(cfg Config) *Publisher {
	return &Publisher{cfg: cfg, wake: make(chan struct{}, 1), targets: map[string]*target{}}
}

// own returns the options that the publisher needs in its client.
func (p *Publisher) own(generation int) []kgo.Opt {
	return []kgo.Opt{
		// The bounds here are the client's too; its own would stop all topics
		// for one that is dead.
		kgo.MaxBufferedRecords(math.MaxInt32),
		kgo.ProducerOnDataLossDetected(func(topic string, _ int32) { p.forgotten(generation, topic) }),
	}
}

// Close closes the client of a publisher that was made with [Open], and
// otherwise does nothing to it. What is open then is not answered. It must be
// called after Run has returned, and waits for the client's goroutines.
func (p *Publisher) Close() {
	if p.cfg.Open != nil {
		p.kafka.Close()
	}
	p.purges.Wait()
}

// Publish takes a record and answers it once, see [Item]. It never blocks, may
// be called from within a Done function, and writes nothing unless Run runs.
func (p *Publisher) Publish(i Item) {
	it := &item{Item: i, size: sizeOf(i.Record), began: time.Now()}
	p.open.Add(1)
	p.mu.Lock()
	p.seq++
	it.seq = p.seq
	t := p.target(i.Record.Topic)
	t.add(it)
	p.markReady(t)
	p.mu.Unlock()
	p.signal()
}

// Send is [Publisher.Publish] of a record without a source.
func (p *Publisher) Send(r *kgo.Record, done func(*kgo.Record, error)) { p.SendWhile(nil, r, done) }

// SendWhile is Send while owned reports true.
func (p *Publisher) SendWhile(owned func() bool, r *kgo.Record, done func(*kgo.Record, error)) {
	p.Publish(Item{Record: r, Owned: owned, Done: done})
}

// Queue is the same as Send.
func (p *Publisher) Queue(r *kgo.Record, done func(*kgo.Record, error)) { p.SendWhile(nil, r, done) }

// QueueWhile is the same as SendWhile.
func (p *Publisher) QueueWhile(owned func() bool, r *kgo.Record, done func(*kgo.Record, error)) {
	p.SendWhile(owned, r, done)
}

// Open returns how many records have no answer yet.
func (p *Publisher) Open() int { return int(p.open.Load()) }

// Copies returns how many records were published again without an answer to
// the first publish: so many copies there may be.
func (p *Publisher) Copies() int64 { return p.copies.Load() }

// Flush waits until every record has an answer, or ctx ends, whose cause it
// then returns. It is for the way to a stop: while it waits, the client is not
// replaced.
func (p *Publisher) Flush(ctx context.Context) error {
	p.flush(1)
	defer p.flush(-1)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for p.open.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (p *Publisher) flush(n int) {
	p.mu.Lock()
	p.flushing += n
	p.mu.Unlock()
}

func (p *Publisher) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// target returns the state of a topic. Called with the lock held.
func (p *Publisher) target(topic string) *target {
	t := p.targets[topic]
	if t == nil {
		t = newTarget(topic, p.cfg.MaxRecords, p.cfg.MaxBytes)
		p.targets[topic] = t
	}
	return t
}

// markReady lets Run look whether the target has room for what waits. Called
// with the lock held.
func (p *Publisher) markReady(t *target) {
	if !t.ready && t.waiting() {
		t.ready = true
		p.ready = append(p.ready, t)
	}
}
