//go:build kafka

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/offset"
)

// offsetsTopic is where Kafka keeps the commits of all groups.
const offsetsTopic = "__consumer_offsets"

// commit is one commit that a broker has taken.
type commit struct {
	topic     string
	partition int32
	at        int64
	metadata  string
}

// committed returns the last commit of partition 0 of a topic.
func committed(t *testing.T, adm *kadm.Client, group, topic string) (commit, error) {
	t.Helper()
	got, err := adm.FetchOffsetsForTopics(t.Context(), group, topic)
	if err != nil {
		return commit{}, err
	}
	o, ok := got.Lookup(topic, 0)
	require.True(t, ok)
	return commit{topic: topic, at: o.At, metadata: o.Metadata}, o.Err
}

// awaitEnd waits until all below the offset is committed.
func awaitEnd(t *testing.T, adm *kadm.Client, group, topic string, at int64) {
	t.Helper()
	eventually(t, time.Minute, func() (bool, string) {
		c, err := committed(t, adm, group, topic)
		return c.at == at, fmt.Sprintf("committed %d of %d: %v", c.at, at, err)
	})
}

// awaitCommit waits until the commit of partition 0 is at the offset and names
// all from there to end as finished, but the first.
func awaitCommit(t *testing.T, adm *kadm.Client, group, topic string, at, end int64) {
	t.Helper()
	id := topicID(t, adm, topic)
	eventually(t, time.Minute, func() (bool, string) {
		c, err := committed(t, adm, group, topic)
		if err != nil || c.at != at {
			return false, fmt.Sprintf("committed %d, want %d: %v", c.at, at, err)
		}
		m, err := offset.Parse(c.metadata, id, c.at)
		require.NoError(t, err)
		for o := at + 1; o < end; o++ {
			if !m.Finished.Has(o, -1) {
				return false, fmt.Sprintf("offset %d of %d is not finished", o, end)
			}
		}
		return true, ""
	})
}

func topicID(t *testing.T, adm *kadm.Client, topic string) [16]byte {
	t.Helper()
	topics, err := adm.ListTopics(t.Context(), topic)
	require.NoError(t, err)
	require.NoError(t, topics[topic].Err)
	return topics[topic].ID
}

// ledger is every commit of a group, in order, as Kafka has kept them: asking
// for the commits now and then would miss one that goes back and forth.
type ledger struct {
	mu  sync.Mutex
	all []commit
}

func (l *ledger) list() []commit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]commit(nil), l.all...)
}

// watchCommits reads the commits of the group from its first one, until the
// test ends.
func watchCommits(t *testing.T, adm *kadm.Client, group string) *ledger {
	t.Helper()
	eventually(t, 30*time.Second, func() (bool, string) {
		_, _ = adm.FetchOffsets(t.Context(), group) // it makes Kafka create the topic
		topics, err := adm.ListTopicsWithInternal(t.Context(), offsetsTopic)
		return err == nil && topics.Has(offsetsTopic) && topics[offsetsTopic].Err == nil, fmt.Sprintf("there is no %s: %v", offsetsTopic, err)
	})
	cl := bare(t, kgo.ConsumeTopics(offsetsTopic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))
	l := &ledger{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { l.take(r, group) })
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return l
}

func (l *ledger) take(r *kgo.Record, group string) {
	if len(r.Key) < 2 || r.Key[0] != 0 || r.Key[1] > 1 || r.Value == nil {
		return // not a commit
	}
	key, value := kmsg.NewOffsetCommitKey(), kmsg.NewOffsetCommitValue()
	if key.ReadFrom(r.Key) != nil || key.Group != group || value.ReadFrom(r.Value) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, commit{topic: key.Topic, partition: key.Partition, at: value.Offset, metadata: value.Metadata})
}

// records returns all records of a topic, oldest first within a partition.
func records(t *testing.T, adm *kadm.Client, topic string) []*kgo.Record {
	t.Helper()
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	require.NoError(t, ends.Error())
	left := map[int32]int64{}
	for _, o := range ends[topic] {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	}
	if len(left) == 0 {
		return nil
	}
	cl := bare(t, kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all []*kgo.Record
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		require.NoError(t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) {
			all = append(all, r)
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return all
}
