package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/checker"
)

// offsetsTopic is where Kafka keeps the commits of all groups. Reading it shows
// every commit, in order, and under which generation it was made; asking for
// the commits now and then would miss one that goes back and forth.
const offsetsTopic = "__consumer_offsets"

// watchCommits writes a fact for each commit of a group with the prefix, until
// ctx ends.
func (s *soak) watchCommits(ctx context.Context, prefix string) error {
	if err := s.awaitOffsetsTopic(ctx); err != nil {
		return err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.cfg.brokers...), kgo.ConsumeTopics(offsetsTopic), kgo.MetadataMinAge(250*time.Millisecond),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return fmt.Errorf("watch the commits: %w", err)
	}
	s.group.Go(func() {
		defer cl.Close()
		w := commits{facts: s.facts, prefix: prefix, generations: map[string]int32{}}
		for {
			fs := cl.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			fs.EachError(func(topic string, p int32, err error) { s.say("watch the commits: %s/%d: %v", topic, p, err) })
			fs.EachRecord(w.take)
			if fs.NumRecords() == 0 && wait(ctx, 100*time.Millisecond) != nil {
				return
			}
		}
	})
	return nil
}

// awaitOffsetsTopic makes Kafka create the topic, which it does when it is
// first asked for a group.
func (s *soak) awaitOffsetsTopic(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		_, _ = s.adm.FetchOffsets(ctx, s.router.NearGroup()) // its answer is no matter
		topics, err := s.adm.ListTopicsWithInternal(ctx, offsetsTopic)
		if err == nil && topics.Has(offsetsTopic) && topics[offsetsTopic].Err == nil {
			return nil
		}
		if wait(ctx, 300*time.Millisecond) != nil {
			return fmt.Errorf("watch the commits: there is no topic %s: %w", offsetsTopic, err)
		}
	}
}

// commits turns the records of the offsets topic into facts.
type commits struct {
	facts       *checker.Writer
	prefix      string
	generations map[string]int32
}

func (c *commits) take(r *kgo.Record) {
	if len(r.Key) < 2 {
		return
	}
	switch version := int16(r.Key[0])<<8 | int16(r.Key[1]); version {
	case 0, 1:
		c.commit(r)
	case 2:
		key, value := kmsg.NewGroupMetadataKey(), kmsg.NewGroupMetadataValue()
		if key.ReadFrom(r.Key) == nil && r.Value != nil && value.ReadFrom(r.Value) == nil {
			c.generations[key.Group] = value.Generation
		}
	case 3:
		if group, epoch, ok := groupEpoch(r); ok {
			c.generations[group] = epoch
		}
	}
}

// groupEpoch reads a group's epoch, which is what KIP-848 has for a generation:
// after the version, the key holds the name of the group and the value the epoch.
func groupEpoch(r *kgo.Record) (group string, epoch int32, ok bool) {
	if len(r.Key) < 4 || len(r.Value) < 6 {
		return "", 0, false
	}
	n := int(binary.BigEndian.Uint16(r.Key[2:]))
	if len(r.Key) != 4+n {
		return "", 0, false
	}
	return string(r.Key[4:]), int32(binary.BigEndian.Uint32(r.Value[2:])), true
}

func (c *commits) commit(r *kgo.Record) {
	key, value := kmsg.NewOffsetCommitKey(), kmsg.NewOffsetCommitValue()
	if key.ReadFrom(r.Key) != nil || !strings.HasPrefix(key.Group, c.prefix) {
		return
	}
	f := checker.Fact{
		Type: checker.Committed, At: r.Timestamp.UnixNano(), Proc: "-", Group: key.Group, Topic: key.Topic, Partition: key.Partition,
		Offset: -1, Generation: c.generations[key.Group],
	}
	if r.Value != nil {
		if value.ReadFrom(r.Value) != nil {
			return
		}
		f.Offset, f.At = value.Offset, time.UnixMilli(value.CommitTimestamp).UnixNano()
	}
	c.facts.Write(f)
}

// lag returns how many records the domain's groups have not finished.
func (s *soak) lag(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var lag int64
	err := s.eachReader(ctx, func(_ string, _ kadm.OffsetResponse, from, to int64) { lag += to - from })
	return lag, err
}

// eachReader calls fn for each partition that a group of the domain reads, with
// its commit, the offset from which it would read on, and the end.
func (s *soak) eachReader(ctx context.Context, fn func(topic string, c kadm.OffsetResponse, from, to int64)) error {
	readers := map[string][]string{s.router.NearGroup(): s.topics("near"), s.router.FarGroup(): s.topics("far")}
	var all []string
	for _, l := range s.router.Domain().Lanes {
		readers[s.router.LaneGroup(l.Name)] = s.topics(l.Name)
	}
	for _, topics := range readers {
		all = append(all, topics...)
	}
	starts, err := s.adm.ListStartOffsets(ctx, all...)
	if err != nil {
		return fmt.Errorf("list the starts of topics: %w", err)
	}
	ends, err := s.adm.ListEndOffsets(ctx, all...)
	if err != nil {
		return fmt.Errorf("list the ends of topics: %w", err)
	}
	for group, topics := range readers {
		got, err := s.adm.FetchOffsetsForTopics(ctx, group, topics...)
		if err != nil {
			return fmt.Errorf("fetch the commits of %s: %w", group, err)
		}
		for _, topic := range topics {
			for id, end := range ends[topic] {
				if end.Err != nil {
					return fmt.Errorf("the end of %s/%d: %w", topic, id, end.Err)
				}
				c, ok := got.Lookup(topic, id)
				from := int64(0)
				if ok && c.Err == nil {
					from = max(c.At, 0)
				}
				if start, ok := starts.Lookup(topic, id); ok {
					from = max(from, start.Offset)
				}
				if c.Partition, c.Topic = id, topic; from < end.Offset {
					fn(topic, c, from, end.Offset)
				}
			}
		}
	}
	return nil
}
