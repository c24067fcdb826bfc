package dead

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/kafka"
)

const (
	// fetchBytes bounds an answer, but for a single batch that is larger.
	fetchBytes = 1 << 20
	// idle is how long a partition may answer nothing of use before it is
	// given up.
	idle = 30 * time.Second
	// pause is between two questions of which the first failed.
	pause = 200 * time.Millisecond
	// patience is how long a leader may wait with an answer that is empty.
	patience = 500 * time.Millisecond
)

var (
	errBehind = errors.New("its leader knows no offsets up to the end that was asked for")
	errAnew   = errors.New("the topic was made anew meanwhile")
)

// span is the offsets of a partition that are read: from start on, and below
// end.
type span struct {
	partition  int32
	start, end int64
}

// fetcher reads partitions of a topic. It is for one goroutine.
type fetcher struct {
	cl     *kgo.Client
	adm    *kadm.Client
	watch  *kafka.Watch
	topic  string
	id     [16]byte
	leader map[int32]int32
	unzip  kgo.Decompressor
}

// read calls fn for all records of s, in the order of the log. It returns fn's
// error as it is. Its own names partition and offset, and comes at once where
// asking again is no use, else after [idle] without progress.
func (f *fetcher) read(ctx context.Context, s span, fn func(*kgo.Record) error) error {
	at, moved := s.start, time.Now()
	for at < s.end {
		next, err := f.step(ctx, s, at, moved, fn)
		var own *callbackError
		switch {
		case errors.As(err, &own):
			return own.err
		case next > at:
			at, moved = next, time.Now() // what fn took is no fault of Kafka's
			continue
		case err == nil:
			return nil // nothing is left below the end
		}
		fail := fmt.Errorf("read %s/%d@%d: %w", f.topic, s.partition, at, f.watch.Explain(err))
		if ctx.Err() != nil {
			return fmt.Errorf("read %s/%d@%d: %w", f.topic, s.partition, at, context.Cause(ctx))
		}
		if !again(err) {
			return fail
		}
		if time.Since(moved)+pause >= idle {
			return fmt.Errorf("nothing for %s: %w", idle, fail)
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
	}
	return nil
}

// again reports whether to ask once more.
func again(err error) bool {
	if coded, ok := errors.AsType[*kerr.Error](err); ok {
		return coded.Retriable || errors.Is(err, kerr.OffsetOutOfRange) || errors.Is(err, kerr.UnknownServerError)
	}
	var bad *brokenError
	return !errors.As(err, &bad) && !errors.Is(err, errAnew)
}

// brokenError is a batch that can't be read: it will not get better.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// callbackError carries an error of a callback past those of the fetch.
type callbackError struct{ err error }

func (e *callbackError) Error() string { return e.err.Error() }
func (e *callbackError) Unwrap() error { return e.err }

// step makes one fetch and returns the offset from which the next one goes on:
// not above at where there is nothing more, or an error.
func (f *fetcher) step(ctx context.Context, s span, at int64, moved time.Time, fn func(*kgo.Record) error) (next int64, err error) {
	asking, cancel := context.WithDeadline(ctx, moved.Add(idle))
	defer cancel()
	answer, err := f.fetch(asking, s.partition, at)
	if err != nil {
		delete(f.leader, s.partition) // it may be another one by now
		if errors.Is(err, kerr.OffsetOutOfRange) {
			return f.restart(asking, s.partition, at, err)
		}
		return at, err
	}
	if len(answer.RecordBatches) == 0 {
		if answer.HighWatermark < s.end {
			return at, errBehind // a leader that is new to it
		}
		return at, nil
	}
	return f.decode(s, at, answer, fn)
}

// decode hands over an answer's records, batch by batch.
func (f *fetcher) decode(s span, at int64, answer *kmsg.FetchResponseTopicPartition, fn func(*kgo.Record) error) (next int64, err error) {
	const prefix = 12 // base offset and length
	next = at
	for raw := answer.RecordBatches; next < s.end; {
		size := len(raw)
		if size >= prefix {
			size = prefix + int(int32(binary.BigEndian.Uint32(raw[8:])))
		}
		if size < prefix || size > len(raw) {
			break // the answer ends within a batch, or was all of it
		}
		one := *answer
		one.RecordBatches, raw = raw[:size], raw[size:]
		got, to := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
			Topic: f.topic, Partition: s.partition, Offset: next,
		}, &one, f.unzip, nil)
		if got.Err != nil {
			return next, &brokenError{got.Err}
		}
		for _, r := range got.Records {
			if r.Offset >= s.end {
				break
			}
			if err := fn(r); err != nil {
				return next, &callbackError{err}
			}
		}
		next = max(next, to)
	}
	if next == at {
		return at, &brokenError{errors.New("the answer holds no whole batch from there on")}
	}
	return next, nil
}

// restart returns where the log begins by now, if that is above at.
func (f *fetcher) restart(ctx context.Context, partition int32, at int64, cause error) (int64, error) {
	starts, err := f.adm.ListStartOffsets(ctx, f.topic)
	if err != nil {
		return at, err
	}
	if o, ok := starts.Lookup(f.topic, partition); ok && o.Err == nil && o.Offset > at {
		return o.Offset, nil
	}
	return at, cause
}

// fetch asks the partition's leader for what is from at on.
func (f *fetcher) fetch(ctx context.Context, partition int32, at int64) (*kmsg.FetchResponseTopicPartition, error) {
	leader, err := f.lead(ctx, partition)
	if err != nil {
		return nil, err
	}
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = partition, at, fetchBytes
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = f.topic, f.id
	topic.Partitions = append(topic.Partitions, part)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(patience.Milliseconds()), 1, fetchBytes
	req.Topics = append(req.Topics, topic)
	answer, err := f.cl.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.Partition == partition {
				return p, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return nil, errors.New("the answer says nothing of it") // the broker throttles
}

// lead returns a partition's leader.
func (f *fetcher) lead(ctx context.Context, partition int32) (int32, error) {
	if leader, ok := f.leader[partition]; ok {
		return leader, nil
	}
	all, err := f.adm.ListTopics(ctx, f.topic)
	if err != nil {
		return 0, err
	}
	topic := all[f.topic]
	if topic.Err != nil {
		return 0, topic.Err
	}
	if topic.ID != f.id {
		return 0, errAnew
	}
	p, ok := topic.Partitions[partition]
	switch {
	case !ok:
		return 0, kerr.UnknownTopicOrPartition
	case p.Err != nil:
		return 0, p.Err
	case p.Leader < 0:
		return 0, kerr.LeaderNotAvailable
	}
	f.leader[partition] = p.Leader
	return p.Leader, nil
}
