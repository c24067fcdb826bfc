package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/router"
)

// tail reads topics without a group.
type tail struct {
	client *kgo.Client
	adm    *kadm.Client
	topics []string
	at     kadm.Offsets // what is to be read next
}

// newTail returns a tail that reads from the given offsets.
func newTail(opts []kgo.Opt, from kadm.Offsets) (*tail, error) {
	t := &tail{at: from}
	for topic := range from {
		t.topics = append(t.topics, topic)
	}
	client, err := kgo.NewClient(append(slices.Clip(opts),
		kgo.ConsumePartitions(from.KOffsets()), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchMaxBytes(4<<20), kgo.FetchMaxPartitionBytes(1<<20))...)
	if err != nil {
		return nil, fmt.Errorf("client to read topics: %w", err)
	}
	t.client, t.adm = client, kadm.NewClient(client)
	return t, nil
}

func (t *tail) close() { t.client.Close() }

// read calls fn for all records from where the last read ended up to the
// topics' ends as they are now, and maybe some that came since.
func (t *tail) read(ctx context.Context, fn func(*kgo.Record)) error {
	ends, err := t.adm.ListEndOffsets(ctx, t.topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("list the ends of %d topics: %w", len(t.topics), err)
	}
	missing := map[string]map[int32]int64{} // topic, partition → end
	open := 0
	ends.Each(func(end kadm.ListedOffset) {
		if at, ok := t.at.Lookup(end.Topic, end.Partition); !ok || at.At >= end.Offset {
			return
		}
		if missing[end.Topic] == nil {
			missing[end.Topic] = map[int32]int64{}
		}
		missing[end.Topic][end.Partition] = end.Offset
		open++
	})
	for open > 0 {
		fs := t.client.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return fmt.Errorf("read %d partitions to their ends: %w", open, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			fn(r)
			t.at.AddOffset(r.Topic, r.Partition, r.Offset+1, -1)
			if end, ok := missing[r.Topic][r.Partition]; ok && r.Offset+1 >= end {
				delete(missing[r.Topic], r.Partition)
				open--
			}
		})
	}
	return nil
}

// ends returns the offsets at which the topic ends now.
func ends(ctx context.Context, adm *kadm.Client, topic string) (kadm.Offsets, error) {
	listed, err := adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the end of topic %s: %w", topic, err)
	}
	return offsets(listed), nil
}

// offsets returns what was listed without leader epochs: kadm.Offsets keeps
// the offset of the higher epoch, whichever offset is added.
func offsets(listed kadm.ListedOffsets) kadm.Offsets {
	out := kadm.Offsets{}
	listed.Each(func(l kadm.ListedOffset) { out.AddOffset(l.Topic, l.Partition, l.Offset, -1) })
	return out
}

// unfinished returns for all lanes and tiers the offset from which their group
// has not finished everything.
func unfinished(ctx context.Context, adm *kadm.Client, r *router.Router) (kadm.Offsets, error) {
	groups := map[string][]string{r.NearGroup(): {r.Near()}}
	for _, t := range r.Tiers() {
		groups[r.FarGroup()] = append(groups[r.FarGroup()], t.Topic)
	}
	for _, l := range r.Domain().Lanes {
		groups[r.LaneGroup(l.Name)] = []string{r.Lane(l.Name)}
	}
	var topics []string
	for _, ts := range groups {
		topics = append(topics, ts...)
	}
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the starts of %d topics: %w", len(topics), err)
	}
	from := offsets(starts)
	for group, ts := range groups {
		commits, err := adm.FetchOffsetsForTopics(ctx, group, ts...)
		if errors.Is(err, kerr.GroupIDNotFound) {
			continue // it has finished nothing
		}
		if err != nil {
			return nil, fmt.Errorf("commits of group %s: %w", group, err)
		}
		var errs []error
		commits.Each(func(c kadm.OffsetResponse) {
			if c.Err != nil {
				errs = append(errs, fmt.Errorf("commit of group %s for %s/%d: %w", group, c.Topic, c.Partition, c.Err))
			} else if start, _ := from.Lookup(c.Topic, c.Partition); c.At > start.At {
				from.AddOffset(c.Topic, c.Partition, c.At, -1)
			}
		})
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	return from, nil
}

// waiting returns the run's tasks that lanes and tiers hold behind what their
// groups have committed.
func waiting(ctx context.Context, opts []kgo.Opt, adm *kadm.Client, r *router.Router, a *account) (map[uint64]bool, error) {
	from, err := unfinished(ctx, adm, r)
	if err != nil {
		return nil, err
	}
	t, err := newTail(opts, from)
	if err != nil {
		return nil, err
	}
	defer t.close()
	found := map[uint64]bool{}
	err = t.read(ctx, func(rec *kgo.Record) {
		if n, ok := numberOf(rec, a); ok {
			found[n] = true
		}
	})
	return found, err
}

// numberOf returns the number of the record's task, and false for a record
// that is no task of this run.
func numberOf(rec *kgo.Record, a *account) (uint64, bool) {
	t, err := ax.Decode(rec, [16]byte{})
	if err != nil {
		return 0, false
	}
	return a.number(t.ID)
}
