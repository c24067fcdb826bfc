package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/checker"
	"github.com/axtasks/ax/internal/offset"
)

// drain waits until nothing is left in lanes and tiers. It reports false when
// that took too long.
func (s *soak) drain(ctx context.Context) bool {
	limit, cancel := context.WithTimeout(ctx, s.cfg.drain)
	defer cancel()
	empty, last := 0, int64(-1)
	for {
		lag, err := s.lag(limit)
		switch {
		case err != nil && limit.Err() == nil:
			s.say("drain: %v", err)
			empty = 0
		case err == nil && lag == 0:
			// Twice, since a record can be on its way from one topic to another
			// between two questions.
			if empty++; empty == 2 {
				return true
			}
		case err == nil:
			empty, last = 0, lag
		}
		if wait(limit, time.Second) != nil {
			s.say("drain: %d records are still waiting after %s", last, s.cfg.drain)
			return false
		}
	}
}

// collect writes the facts that only the log knows at the end: who is dead,
// and who waits.
func (s *soak) collect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute+s.cfg.length/10)
	defer cancel()
	dead := s.router.Dead()
	starts, err := s.adm.ListStartOffsets(ctx, dead)
	if err != nil {
		return fmt.Errorf("collect the dead: %w", err)
	}
	ends, err := s.adm.ListEndOffsets(ctx, dead)
	if err != nil {
		return fmt.Errorf("collect the dead: %w", err)
	}
	var parts []part
	ends.Each(func(e kadm.ListedOffset) {
		if start, ok := starts.Lookup(dead, e.Partition); ok && start.Offset < e.Offset {
			parts = append(parts, part{topic: dead, id: e.Partition, from: start.Offset, to: e.Offset})
		}
	})
	if err := s.readAll(ctx, parts, s.death); err != nil {
		return fmt.Errorf("collect the dead: %w", err)
	}

	details, err := s.adm.ListTopics(ctx, s.router.Topics()...)
	if err != nil {
		return fmt.Errorf("collect who waits: %w", err)
	}
	parts = nil
	finished := map[string]offset.Finished{}
	err = s.eachReader(ctx, func(topic string, c kadm.OffsetResponse, from, to int64) {
		parts = append(parts, part{topic: topic, id: c.Partition, from: from, to: to})
		if m, err := offset.Parse(c.Metadata, details[topic].ID, c.At); err == nil {
			finished[fmt.Sprint(topic, c.Partition)] = m.Finished
		}
	})
	if err != nil {
		return fmt.Errorf("collect who waits: %w", err)
	}
	err = s.readAll(ctx, parts, func(r *kgo.Record) {
		if f := finished[fmt.Sprint(r.Topic, r.Partition)]; f.Has(r.Offset, r.LeaderEpoch) {
			return
		}
		s.waits(r, details[r.Topic].ID)
	})
	if err != nil {
		return fmt.Errorf("collect who waits: %w", err)
	}
	return nil
}

func (s *soak) death(r *kgo.Record) {
	f := checker.Fact{Type: checker.Dead, Proc: "-"}
	for _, h := range r.Headers {
		switch h.Key {
		case ax.HeaderID:
			f.ID = string(h.Value)
		case ax.HeaderDeadReason:
			f.Reason = string(h.Value)
		}
	}
	if f.ID == "" {
		f.ID = string(r.Key)
	}
	s.facts.Write(f)
}

func (s *soak) waits(r *kgo.Record, topicID [16]byte) {
	t, err := ax.Decode(r, topicID)
	if err != nil {
		s.say("a record that is no task waits: %v", err)
		return
	}
	s.facts.Write(checker.Fact{
		Type: checker.Waiting, Proc: "-", ID: t.ID, Due: nanos(t.Due), Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
	})
}

// part is a stretch of a partition.
type part struct {
	topic    string
	id       int32
	from, to int64
}

// readAll calls take with all records of the parts.
func (s *soak) readAll(ctx context.Context, parts []part, take func(*kgo.Record)) error {
	if len(parts) == 0 {
		return nil
	}
	type where struct {
		topic string
		id    int32
	}
	left := map[where]int64{}
	from := map[string]map[int32]kgo.Offset{}
	for _, p := range parts {
		if from[p.topic] == nil {
			from[p.topic] = map[int32]kgo.Offset{}
		}
		from[p.topic][p.id] = kgo.NewOffset().At(p.from)
		left[where{p.topic, p.id}] = p.to
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.cfg.brokers...), kgo.ConsumePartitions(from), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d partitions were not read to their end: %w", len(left), err)
		}
		var failed error
		fs.EachError(func(topic string, id int32, err error) {
			failed = errors.Join(failed, fmt.Errorf("%s/%d: %w", topic, id, err))
		})
		if failed != nil {
			s.say("read: %v", failed)
		}
		fs.EachRecord(func(r *kgo.Record) {
			w := where{r.Topic, r.Partition}
			end, ok := left[w]
			if !ok || r.Offset >= end {
				return
			}
			take(r)
			if r.Offset == end-1 {
				delete(left, w)
			}
		})
	}
	return nil
}
