// Package publish writes records until they are acknowledged, for those who
// may finish a source record only then: worker and mover.
//
// A publish keeps the promise it has: while a broker may hold the record, it
// waits, since a second publish would be a copy. Only what definitely failed is
// published again, with growing waits. Nothing blocks: where the client's
// buffer is full, the record waits its turn here.
package publish

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/sabotage"
)

// ErrNever: the record can't be written as it is, however often it is tried.
var ErrNever = errors.New("the record can't be written")

// ErrGivenUp: the record is not written and not tried again, since what it
// stands for is no longer its sender's.
var ErrGivenUp = errors.New("the source was lost before the record was written")

// Publisher writes records with one client. Make it with [New], and run
// [Publisher.Run] while it is used.
type Publisher struct {
	kafka *kgo.Client
	watch *kafka.Watch
	log   *slog.Logger
	open  atomic.Int64
	wake  chan struct{}

	mu     sync.Mutex
	waits  waiting
	logged map[string]time.Time // by topic: the last failure that was
}

// New returns a publisher that writes with client, which stays the caller's.
func New(client *kgo.Client, watch *kafka.Watch, log *slog.Logger) *Publisher {
	return &Publisher{kafka: client, watch: watch, log: log, wake: make(chan struct{}, 1), logged: map[string]time.Time{}}
}

type item struct {
	record  *kgo.Record
	done    func(*kgo.Record, error)
	owned   func() bool // nil: always
	tries   int
	refused int       // tries that a broker refused as they were
	at      time.Time // of the next try
}

// Send writes r and calls done once: with nil when it is acknowledged, with an
// error matching [ErrNever] when it can't be written as it is. done is not
// called for records that are still open when the publisher is closed. It is
// called in the client's goroutine and must not block. Send itself never
// blocks.
func (p *Publisher) Send(r *kgo.Record, done func(*kgo.Record, error)) { p.SendWhile(nil, r, done) }

// SendWhile is Send while owned reports true: what definitely failed is given
// up after that, with [ErrGivenUp], since whoever owns the source now sends the
// record too.
func (p *Publisher) SendWhile(owned func() bool, r *kgo.Record, done func(*kgo.Record, error)) {
	p.open.Add(1)
	p.try(&item{record: r, done: done, owned: owned})
}

// Queue is Send from within a done function, where the client must not be
// called: the goroutine of [Publisher.Run] sends it.
func (p *Publisher) Queue(r *kgo.Record, done func(*kgo.Record, error)) { p.QueueWhile(nil, r, done) }

// QueueWhile is [Publisher.SendWhile] from within a done function.
func (p *Publisher) QueueWhile(owned func() bool, r *kgo.Record, done func(*kgo.Record, error)) {
	p.open.Add(1)
	p.push(&item{record: r, done: done, owned: owned, at: time.Now()})
}

// Open returns how many records have no answer yet.
func (p *Publisher) Open() int { return int(p.open.Load()) }

func (p *Publisher) try(it *item) {
	if it.owned != nil && !it.owned() {
		p.open.Add(-1)
		it.done(it.record, ErrGivenUp)
		return
	}
	it.record.Timestamp = time.Time{}
	// Without a deadline: the wait for an answer is kept, see above.
	p.kafka.TryProduce(context.Background(), it.record, func(r *kgo.Record, err error) {
		switch {
		case err == nil, sabotage.DropFailedPublish && !errors.Is(err, kgo.ErrClientClosed):
			p.open.Add(-1)
			it.done(r, nil)
		case errors.Is(err, kgo.ErrClientClosed):
			p.open.Add(-1) // its source is not finished, and is read again
		case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge), errors.Is(err, kerr.InvalidRecord):
			// A broker refuses the batch, not the record: what shared it with
			// one that is too large comes through on its own.
			if it.refused++; it.refused <= refusals {
				p.again(it, err)
				return
			}
			p.open.Add(-1)
			it.done(r, errors.Join(ErrNever, err))
		default:
			p.again(it, err)
		}
	})
}

const (
	firstWait = 50 * time.Millisecond
	longWait  = 5 * time.Second
	logEvery  = 10 * time.Second
	refusals  = 4
)

func (p *Publisher) again(it *item, err error) {
	wait := min(firstWait<<min(it.tries, 10), longWait)
	it.tries++
	it.at = time.Now().Add(wait/2 + rand.N(wait/2))
	if !errors.Is(err, kgo.ErrMaxBuffered) && p.tell(it.record.Topic) {
		p.log.Error("publish failed, it will be tried again", "topic", it.record.Topic, "tries", it.tries, "error", p.watch.Explain(err))
	}
	p.push(it)
}

// tell reports whether a failure is to be logged: thousands of records may fail
// for one reason.
func (p *Publisher) tell(topic string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.logged[topic]) < logEvery {
		return false
	}
	p.logged[topic] = now
	return true
}

func (p *Publisher) push(it *item) {
	p.mu.Lock()
	heap.Push(&p.waits, it)
	first := p.waits[0] == it
	p.mu.Unlock()
	if first {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// Run publishes again what failed, until ctx ends.
func (p *Publisher) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := time.Hour
		now := time.Now()
		var due []*item
		p.mu.Lock()
		for len(p.waits) > 0 && !p.waits[0].at.After(now) {
			due = append(due, heap.Pop(&p.waits).(*item))
		}
		if len(p.waits) > 0 {
			next = p.waits[0].at.Sub(now)
		}
		p.mu.Unlock()
		for _, it := range due {
			p.try(it)
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-ctx.Done():
			return
		}
	}
}

// Flush waits until every record has an answer, or ctx ends.
func (p *Publisher) Flush(ctx context.Context) error {
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

// waiting is a heap by the time of the next try.
type waiting []*item

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].at.Before(w[j].at) }
func (w waiting) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waiting) Push(x any)        { *w = append(*w, x.(*item)) }
func (w *waiting) Pop() any {
	old := *w
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*w = old[:len(old)-1]
	return it
}
