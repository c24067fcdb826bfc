package group

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/kafka"
)

// Batch is what one poll returned of one partition.
type Batch struct {
	Partition *Partition
	Records   []*kgo.Record
	Tickets   []Ticket
}

// Poll waits for records, hands them to take, one batch a partition, and
// allows rebalances again. take must not block. Poll returns nil after a poll
// that only failed, which it has logged and waited out; it returns an error
// when the member is closed or ctx has ended.
func (m *Member) Poll(ctx context.Context, take func(Batch)) error {
	m.hold()
	fs := m.kafka.PollFetches(ctx)
	// After every poll, an empty or failed one too: all of them block.
	defer m.kafka.AllowRebalance()
	if fs.IsClientClosed() {
		return errClosed
	}
	if err := ctx.Err(); err != nil && fs.NumRecords() == 0 {
		return err
	}
	fs.EachPartition(func(f kgo.FetchTopicPartition) {
		if len(f.Records) == 0 {
			return
		}
		p := m.partition(f.Topic, f.Partition)
		if p == nil {
			return
		}
		todo, tickets, n := p.add(&f.FetchPartition)
		m.tell(p, n)
		if !p.Ready() {
			poke(m.urgent)
		}
		if n.commit {
			m.wake()
		}
		if len(todo) > 0 {
			take(Batch{Partition: p, Records: todo, Tickets: tickets})
		}
	})
	return m.pollErrors(ctx, fs)
}

// hold stops reading partitions whose window is full. That is judged before a
// poll and not after it: one poll may bring more than a window's bound, which
// the caller has worked off before it polls again, unless something is stuck.
func (m *Member) hold() {
	for _, p := range m.Partitions() {
		if holder, n, ok := p.fills(); ok {
			p.Pause(PauseWindow)
			m.cfg.Log.Warn("a partition is not read on: too much of it waits for what is unfinished", "role", m.cfg.Name,
				"topic", p.Topic, "partition", p.ID, "offset", holder, "unfinished", n)
		}
	}
}

// tell logs what a fetch brought beside records.
func (m *Member) tell(p *Partition, n news) {
	log := m.cfg.Log.With("role", m.cfg.Name, "topic", p.Topic, "partition", p.ID)
	if n.backwards {
		log.Error("offsets went back: the log was cut; what was known of those that are gone is forgotten")
	}
	if n.skipped != [2]int64{} {
		log.Error("records were deleted before they were committed: some may never have been worked", "from", n.skipped[0], "to", n.skipped[1])
	}
}

// pollErrors logs what went wrong in a poll, and waits a little where nothing
// but errors came, since some of them come thousands of times a second.
func (m *Member) pollErrors(ctx context.Context, fs kgo.Fetches) error {
	failed := false
	missing := map[string]bool{}
	fs.EachError(func(topic string, id int32, err error) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return
		}
		failed = true
		if loss, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
			if p := m.partition(topic, id); p != nil {
				p.lost(loss.ResetTo)
			}
			m.cfg.Log.Error("the log lost records", "role", m.cfg.Name, "topic", topic, "partition", id, "error", err)
			return
		}
		if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) {
			missing[topic] = true
		}
		m.cfg.Log.Error("fetch failed", "role", m.cfg.Name, "group", m.cfg.Group, "topic", topic, "partition", id, "error", m.cfg.Watch.Explain(err))
	})
	if !failed || fs.NumRecords() > 0 {
		return nil
	}
	m.kafka.AllowRebalance()
	for topic := range missing {
		m.renew(ctx, topic)
	}
	wait := time.NewTimer(pollBackoff)
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	commitTimeout = 5 * time.Second
	pollBackoff   = 500 * time.Millisecond
)

// renew reads a topic again that was deleted and made anew: the client goes on
// asking for the old one, and what was read is of records that are gone.
func (m *Member) renew(ctx context.Context, topic string) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	ids, err := kafka.TopicIDs(ctx, m.kafka, m.cfg.Watch, topic)
	m.mu.Lock()
	if err != nil || ids[topic] == m.ids[topic] {
		m.mu.Unlock()
		return // it is gone, or this broker has only not heard of it yet
	}
	m.ids[topic] = ids[topic]
	var ps []*Partition
	for _, p := range m.parts[topic] {
		ps = append(ps, p)
	}
	m.mu.Unlock()
	m.cfg.Log.Error("a topic was deleted and made anew: what was read of the old one is dropped", "role", m.cfg.Name, "topic", topic)
	m.giveUp(ps)
	m.kafka.PurgeTopicsFromConsuming(topic)
	m.kafka.AddConsumeTopics(topic)
}

// TopicID returns the id of a topic as it is now.
func (m *Member) TopicID(topic string) [16]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ids[topic]
}
