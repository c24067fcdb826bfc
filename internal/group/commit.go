package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/sabotage"
)

// CommitLoop commits what is finished, at most once in the member's interval,
// until ctx ends. It sleeps while nothing is finished. A commit that fails is
// tried again with growing waits.
func (m *Member) CommitLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	wait := m.cfg.CommitEvery
	for {
		select {
		case <-m.dirty:
		case <-ctx.Done():
			return
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		for _, p := range m.Partitions() {
			if p.Paused()&PauseWindow != 0 && p.Span() < m.cfg.MaxSpan/2 {
				p.Resume(PauseWindow)
			}
		}
		within, cancel := context.WithTimeout(ctx, commitTimeout)
		err := m.Commit(within)
		cancel()
		switch {
		case err == nil:
			wait = m.cfg.CommitEvery
		case ctx.Err() == nil:
			m.cfg.Log.Warn("commit failed", "role", m.cfg.Name, "group", m.cfg.Group, "error", err)
			wait = min(max(2*wait, 100*time.Millisecond), 5*time.Second)
			m.wake()
		}
	}
}

// Commit commits what is finished of all owned partitions.
func (m *Member) Commit(ctx context.Context) error { return m.commit(ctx, m.Partitions()) }

func (m *Member) commit(ctx context.Context, ps []*Partition) error {
	select {
	case m.committing <- struct{}{}:
		defer func() { <-m.committing }()
	case <-ctx.Done():
		return fmt.Errorf("wait for another commit: %w", context.Cause(ctx))
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	texts := map[string]map[int32]string{}
	open := map[*Partition]bool{}
	for _, p := range m.ours(ps) {
		at, metadata, ok := p.position()
		if !ok {
			continue
		}
		if offsets[p.Topic] == nil {
			offsets[p.Topic], texts[p.Topic] = map[int32]kgo.EpochOffset{}, map[int32]string{}
		}
		offsets[p.Topic][p.ID], texts[p.Topic][p.ID] = at, metadata
		open[p] = true
	}
	if len(offsets) == 0 {
		return nil
	}
	failed := m.send(ctx, offsets, texts, func(topic string, id int32) {
		for p := range open {
			if p.Topic == topic && p.ID == id {
				delete(open, p)
			}
		}
	})
	for p := range open {
		p.failed()
	}
	return failed
}

// ours returns those partitions that were assigned under the member's present
// id. A member that was evicted and is joining again has a new one before it
// knows what it still owns, and the broker would take its commits.
func (m *Member) ours(ps []*Partition) []*Partition {
	id, _ := m.kafka.GroupMetadata()
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

// send commits offsets with their metadata, and calls committed for each
// partition that the broker took.
func (m *Member) send(ctx context.Context, offsets map[string]map[int32]kgo.EpochOffset, texts map[string]map[int32]string, committed func(string, int32)) error {
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				p := &req.Topics[i].Partitions[j]
				text := texts[req.Topics[i].Topic][p.Partition]
				p.Metadata = &text
			}
		}
		return nil
	})
	var failed error
	m.kafka.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			failed = err
			return
		}
		for _, topic := range resp.Topics {
			for _, part := range topic.Partitions {
				if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s/%d: %w", topic.Topic, part.Partition, err))
					continue
				}
				committed(topic.Topic, part.Partition)
			}
		}
	})
	return failed
}

// Close commits, leaves the group and closes the client. It does not wait for
// what runs: its caller has. It returns an error when ctx ended first; the
// session then ends by itself.
func (m *Member) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closing = true
	m.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		// Leaving calls revoked, which waits, commits and fences.
		err := m.kafka.LeaveGroupContext(ctx)
		m.kafka.CloseAllowingRebalance()
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("ax: %s: leave group %s: %w", m.cfg.Name, m.cfg.Group, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ax: %s: leave group %s: %w", m.cfg.Name, m.cfg.Group, context.Cause(ctx))
	}
}
