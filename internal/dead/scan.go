package dead

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/kafka"
)

// askTimeout bounds a question about the topic.
const askTimeout = 10 * time.Second

// Scan is the dead topic as it was when it was opened: what is written later
// is not seen, tombstones included. Make it with [Open]. It is for one
// goroutine.
type Scan struct {
	fetch fetcher
	seed  maphash.Seed
	parts []part
}

// part is a partition with what its records' keys say.
type part struct {
	span
	marks marks
}

// Open reads the keys of the topic through cl, whose connections watch sees,
// and returns a scan of what is live. cl needs no options for consuming and
// stays the caller's.
func Open(ctx context.Context, cl *kgo.Client, watch *kafka.Watch, topic string) (*Scan, error) {
	s := &Scan{seed: maphash.MakeSeed(), fetch: fetcher{
		cl: cl, adm: kadm.NewClient(cl), watch: watch, topic: topic, leader: map[int32]int32{},
		unzip: kgo.DefaultDecompressor(),
	}}
	if err := s.spans(ctx); err != nil {
		return nil, fmt.Errorf("ax: dead topic %s: %w", topic, err)
	}
	x := index{seed: s.seed, seen: newBloom()}
	for i := range s.parts {
		p := &s.parts[i]
		clear(x.seen)
		x.marks = nil
		err := s.fetch.read(ctx, p.span, func(r *kgo.Record) error {
			x.add(r.Key, r.Offset)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("ax: dead topic: %w", err)
		}
		p.marks = x.marks.reduce()
	}
	return s, nil
}

// spans asks what there is to read.
func (s *Scan) spans(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	f := &s.fetch
	ids, err := kafka.TopicIDs(ctx, f.cl, f.watch, f.topic)
	if err != nil {
		return err
	}
	f.id = ids[f.topic]
	starts, err := f.adm.ListStartOffsets(ctx, f.topic)
	if err = errors.Join(err, starts.Error()); err != nil {
		return f.watch.Explain(fmt.Errorf("ask for the logs' starts: %w", err))
	}
	ends, err := f.adm.ListEndOffsets(ctx, f.topic)
	if err = errors.Join(err, ends.Error()); err != nil {
		return f.watch.Explain(fmt.Errorf("ask for the logs' ends: %w", err))
	}
	for _, end := range ends.Offsets().Sorted() {
		start, ok := starts.Lookup(f.topic, end.Partition)
		if !ok {
			return fmt.Errorf("partition %d: its log has no start", end.Partition)
		}
		s.parts = append(s.parts, part{span: span{end.Partition, start.Offset, end.At}})
	}
	return nil
}

// Each calls fn for each live death, by partition and offset, and returns its
// error as it is. It may be called again. An entry is fn's until it returns.
func (s *Scan) Each(ctx context.Context, fn func(*Entry) error) error {
	for i := range s.parts {
		p := &s.parts[i]
		var own error
		err := s.fetch.read(ctx, p.span, func(r *kgo.Record) error {
			if r.Value == nil || !p.marks.last(maphash.Bytes(s.seed, r.Key), r.Offset) {
				return nil
			}
			own = fn(NewEntry(r))
			return own
		})
		switch {
		case own != nil:
			return own
		case err != nil:
			return fmt.Errorf("ax: dead topic: %w", err)
		}
	}
	return nil
}
