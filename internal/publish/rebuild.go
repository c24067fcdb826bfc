package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// forgets is after how many reports in a row that the broker does not know the
// producer the client is taken as lost. It helps itself with a new epoch, which
// a broker in order accepts at once.
const forgets = 3

// lastAnswers is how long a rebuild waits for answers that are on their way:
// each that comes is no copy.
const lastAnswers = 250 * time.Millisecond

var (
	errForgotten = errors.New("the broker does not know the producer")
	errSilent    = errors.New("no answer")
)

// fatal reports whether a client that returned err returns it for ever: it
// keeps what it learned of its producer id.
func fatal(err error) bool {
	for _, f := range []*kerr.Error{
		kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerIDMapping, kerr.InvalidProducerEpoch,
		kerr.ProducerFenced, kerr.ClusterAuthorizationFailed,
	} {
		if errors.Is(err, f) {
			return true
		}
	}
	return false
}

// forgotten takes the client's word that a broker refused its producer id or
// the sequence of a batch. The client goes on under a new epoch and says
// nothing to the batch's promises, however often that fails.
func (p *Publisher) forgotten(generation int, topic string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if generation != p.generation {
		return // a client that was replaced since
	}
	t := p.target(topic)
	t.err = errForgotten
	if t.lost++; t.lost >= forgets && p.broken == nil {
		p.broken = errForgotten
		p.signal()
	}
}

// mustRebuild returns why the client has to be replaced now, or nil. Called
// with the lock held.
func (p *Publisher) mustRebuild(now time.Time) error {
	if p.cfg.Open == nil || p.flushing > 0 || now.Sub(p.rebuilt) < p.cfg.RebuildAfter {
		return nil
	}
	if p.broken != nil {
		return p.broken
	}
	before := now.Add(-p.cfg.RebuildAfter)
	for _, t := range p.targets {
		if t.silent(before) {
			return fmt.Errorf("topic %s: %w since %s", t.topic, errSilent, p.cfg.RebuildAfter)
		}
	}
	return nil
}

// rebuild replaces the client, and publishes again, in their order, what the
// old one has not answered.
func (p *Publisher) rebuild(ctx context.Context, why error) {
	p.rebuilt = time.Now()
	fresh, err := p.cfg.Open(p.own(p.generation + 1)...)
	if err != nil {
		p.cfg.Log.Error("the producer can't go on, and no new one can be made", "reason", why, "error", err)
		return
	}
	p.mu.Lock()
	p.rebuilding = true
	p.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, lastAnswers)
	p.waitEmpty(within)
	cancel()
	p.kafka.Close()
	p.waitEmpty(ctx)
	p.kafka = fresh

	now := time.Now()
	p.mu.Lock()
	open := p.returned
	p.returned, p.rebuilding, p.broken = nil, false, nil
	p.generation++
	for _, t := range p.targets {
		t.lost = 0
	}
	stop := ctx.Err() != nil || p.flushing > 0
	if stop {
		// What a stopping process publishes now would be a copy that nobody
		// waits for.
		for _, it := range open {
			p.end(it)
		}
	} else {
		p.enter(open, now)
	}
	p.mu.Unlock()
	if stop {
		p.open.Add(-int64(len(open)))
		return
	}
	slices.SortFunc(open, func(a, b *item) int { return cmp.Compare(a.seq, b.seq) })
	p.copies.Add(int64(len(open)))
	p.cfg.Log.Warn("the producer was replaced; what it had not answered is published again", "reason", p.cfg.Watch.Explain(why), "records", len(open))
	for _, it := range open {
		p.try(it)
	}
}

// waitEmpty waits until the client has answered everything, or ctx ends.
func (p *Publisher) waitEmpty(ctx context.Context) {
	for {
		p.mu.Lock()
		n := p.inside
		p.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
			return
		}
	}
}
