package publish

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/sabotage"
)

const (
	firstWait  = 50 * time.Millisecond
	longWait   = 5 * time.Second
	logEvery   = 10 * time.Second
	refusals   = 4
	purgeEvery = 5 * time.Second
)

// Run hands records to the client, tries again what failed, raises alarms and
// replaces the client, until ctx ends. Nothing is written after that. It must
// run once.
func (p *Publisher) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		p.handOver(now)
		next, rebuild := p.look(now)
		if rebuild != nil {
			p.rebuild(ctx, rebuild)
			continue
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-ctx.Done():
		}
	}
}

// handOver gives the client all that is to be tried now.
func (p *Publisher) handOver(now time.Time) {
	var run []*item
	p.mu.Lock()
	for len(p.retries) > 0 && !p.retries[0].at.After(now) {
		run = append(run, heap.Pop(&p.retries).(*item))
	}
	for i, t := range p.ready {
		t.ready = false
		for it := t.take(); it != nil; it = t.take() {
			run = append(run, it)
		}
		p.ready[i] = nil
	}
	p.ready = p.ready[:0]
	p.enter(run, now)
	purge := p.purge
	p.purge = nil
	p.mu.Unlock()
	for _, topic := range purge {
		client := p.kafka
		// It waits for the client's metadata, which nobody else should.
		p.purges.Go(func() { client.PurgeTopicsFromProducing(topic) })
	}
	for _, it := range run {
		p.try(it)
	}
}

// enter notes that the client has the items. Called with the lock held.
func (p *Publisher) enter(items []*item, now time.Time) {
	for _, it := range items {
		it.inside, it.sent = true, now
	}
	p.inside += len(items)
}

// leave notes that the client is done with the item. Called with the lock held.
func (p *Publisher) leave(it *item) {
	it.inside = false
	p.inside--
	if p.rebuilding {
		p.signal()
	}
}

func (p *Publisher) try(it *item) {
	if it.Owned != nil && !it.Owned() {
		p.answer(it, ErrGivenUp)
		return
	}
	it.Record.Timestamp = time.Time{}
	// Without a deadline: the wait for an answer is kept, see above.
	p.kafka.TryProduce(context.Background(), it.Record, func(_ *kgo.Record, err error) { p.promised(it, err) })
}

// promised takes what the client says of an item.
func (p *Publisher) promised(it *item, err error) {
	switch {
	case err == nil, sabotage.DropFailedPublish && !errors.Is(err, kgo.ErrClientClosed):
		p.answer(it, nil)
	case errors.Is(err, kgo.ErrClientClosed):
		p.closed(it)
	case tooLarge(err):
		// A broker refuses the batch, not the record: what shared it with one
		// that is too large comes through on its own.
		if it.refused++; it.refused > refusals {
			p.answer(it, errors.Join(ErrNever, err))
			return
		}
		p.again(it, err)
	default:
		p.again(it, err)
	}
}

func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) || errors.Is(err, kerr.InvalidRecord)
}

// answer ends the item.
func (p *Publisher) answer(it *item, err error) {
	p.mu.Lock()
	p.leave(it)
	t := p.end(it)
	if err == nil {
		t.err, t.lost = nil, 0
	}
	more := t.ready
	p.mu.Unlock()
	it.Done(it.Record, err)
	p.open.Add(-1)
	if more {
		p.signal()
	}
}

// end frees the item's room. Called with the lock held.
func (p *Publisher) end(it *item) *target {
	t := it.line.t
	t.end(it)
	p.markReady(t)
	return t
}

// closed takes back an item from a client that was closed. Nobody knows
// whether it was written: in a rebuild it is published again; else its source
// is not finished, and is read again.
func (p *Publisher) closed(it *item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(it)
	if p.rebuilding {
		p.returned = append(p.returned, it)
		return
	}
	p.end(it)
	p.open.Add(-1)
}

// again plans another try of an item that definitely failed.
func (p *Publisher) again(it *item, err error) {
	wait := min(firstWait<<min(it.tries, 10), longWait)
	now := time.Now()
	p.mu.Lock()
	p.leave(it)
	it.tries++
	it.at = now.Add(wait/2 + rand.N(wait/2))
	heap.Push(&p.retries, it)
	wake := p.retries[0] == it
	t, tell := it.line.t, false
	if !errors.Is(err, kgo.ErrMaxBuffered) {
		t.err = err
		if tell = now.Sub(t.logged) >= logEvery; tell {
			t.logged = now
		}
	}
	if errors.Is(err, kerr.UnknownTopicID) && now.Sub(t.purged) >= purgeEvery {
		// The topic was deleted and made anew, and this client would refuse it
		// for ever.
		t.purged = now
		p.purge = append(p.purge, t.topic)
		wake = true
	}
	if fatal(err) && p.broken == nil {
		p.broken, wake = err, true
	}
	p.mu.Unlock()
	if tell {
		p.cfg.Log.Error("publish failed, it will be tried again", "topic", t.topic, "tries", it.tries, "error", p.cfg.Watch.Explain(err))
	}
	if wake {
		p.signal()
	}
}
