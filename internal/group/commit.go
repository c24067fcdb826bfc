package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/sabotage"
)

// CommitLoop commits what is finished, at most once in the member's interval,
// until ctx ends. It sleeps while nothing is finished. A commit that fails is
// tried again with growing waits; [Member.Stalls] tells since when.
func (m *Member) CommitLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { m.tickLoop(ctx) })
	watching.Go(func() { m.lookLoop(ctx) })
	wait := m.cfg.CommitEvery
	armed := false
	for {
		select {
		case <-m.dirty:
			if !armed {
				armed = true
				timer.Reset(wait)
			}
			continue
		case <-m.urgent:
		case <-timer.C:
			armed = false
		case <-ctx.Done():
			return
		}
		within, cancel := context.WithTimeout(ctx, commitTimeout)
		err := m.Commit(within)
		cancel()
		m.commitResult(err, time.Now())
		m.relieve() // what was finished before the commit woke nobody
		switch {
		case err == nil:
			wait = m.cfg.CommitEvery
		case ctx.Err() == nil:
			wait = min(max(2*wait, 100*time.Millisecond), 5*time.Second)
			if passing(err) {
				wait = m.cfg.CommitEvery
			} else {
				m.cfg.Log.Warn("commit failed", "role", m.cfg.Name, "group", m.cfg.Group, "error", err)
			}
			m.wake()
		}
	}
}

// relieve reads partitions again whose window has room.
func (m *Member) relieve() {
	for _, p := range m.Partitions() {
		if p.relieved() {
			m.cfg.Log.Info("a partition is read again", "role", m.cfg.Name, "topic", p.Topic, "partition", p.ID)
			p.Resume(PauseWindow)
		}
	}
}

// Commit commits what is finished of all owned partitions.
func (m *Member) Commit(ctx context.Context) error { return m.commit(ctx, m.Partitions(), false) }

// commit commits what is news of the partitions. leaving says that they are
// given up, alive.
//
// It asks the broker itself, and not by the client's own commit: that one waits
// while the client joins, and a join waits for members that were killed. The
// broker takes commits of the old generation until the new one begins.
func (m *Member) commit(ctx context.Context, ps []*Partition, leaving bool) error {
	select {
	case m.committing <- struct{}{}:
		defer func() { <-m.committing }()
	case <-ctx.Done():
		return fmt.Errorf("wait for another commit: %w", context.Cause(ctx))
	}
	id, generation := m.kafka.GroupMetadata()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = m.cfg.Group, id, generation
	open := map[where]*Partition{}
	positions := map[where]position{}
	topics := map[string]int{}
	for _, p := range m.under(id, ps) {
		pos, ok := p.position(leaving)
		if !ok {
			continue
		}
		i, ok := topics[p.Topic]
		if !ok {
			i = len(req.Topics)
			topics[p.Topic] = i
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = p.Topic, p.topicID
			req.Topics = append(req.Topics, t)
		}
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p.ID, pos.at.Offset, pos.at.Epoch, &pos.metadata
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
		w := where{p.topicID, p.ID}
		open[w], positions[w] = p, pos
	}
	if len(open) == 0 {
		return nil
	}
	resp, err := req.RequestWith(ctx, m.kafka)
	if err == nil {
		err = m.answered(resp, open, positions)
	}
	for _, p := range open {
		p.failed()
	}
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.FencedInstanceID) || errors.Is(err, kerr.FencedMemberEpoch) {
		m.alive.forgotten()
	}
	return err
}

// where is a partition of a topic that can't be another of the same name.
type where struct {
	topic     [16]byte
	partition int32
}

// answered takes what a broker has committed out of open.
func (m *Member) answered(resp *kmsg.OffsetCommitResponse, open map[where]*Partition, positions map[where]position) (failed error) {
	ids := map[string][16]byte{}
	for w, p := range open {
		ids[p.Topic] = w.topic
	}
	opened := false
	for _, topic := range resp.Topics {
		id := topic.TopicID
		if topic.Topic != "" {
			id = ids[topic.Topic]
		}
		for _, part := range topic.Partitions {
			w := where{id, part.Partition}
			p := open[w]
			if p == nil {
				continue
			}
			if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s/%d@%d: %w", p.Topic, p.ID, positions[w].at.Offset, err))
				continue
			}
			opened = opened || !p.Ready()
			p.committed(positions[w])
			delete(open, w)
		}
	}
	if opened {
		m.moved()
	}
	return failed
}

// passing reports whether the group is between two generations, which is no
// fault: the next commit will do.
func passing(err error) bool {
	for _, e := range []error{kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.StaleMemberEpoch} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// under returns those partitions that were assigned under the member id. A
// member that was evicted and is joining again has a new one before it knows
// what it still owns, and the broker would take its commits.
func (m *Member) under(id string, ps []*Partition) []*Partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := make([]*Partition, 0, len(ps))
	for _, p := range ps {
		if p.id == id || sabotage.SettleLost {
			kept = append(kept, p)
		}
	}
	return kept
}

// commitLast commits partitions that are given up, and tries again while the
// group is between two generations.
func (m *Member) commitLast(ctx context.Context, ps []*Partition) error {
	for {
		err := m.commit(ctx, ps, true)
		if err == nil || !passing(err) {
			return err
		}
		wait := time.NewTimer(50 * time.Millisecond)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}
