package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/sabotage"
)

// Config describes a member.
type Config struct {
	Name   string // of the role, for logs and errors
	Group  string
	Topics []string
	// Protocol is that of the group: ax.Classic, also if empty, or
	// ax.Consumer.
	Protocol string
	IDs      map[string][16]byte // of the topics
	// Opts are the options of the client beside those of the group.
	Opts  []kgo.Opt
	Watch *kafka.Watch
	Log   *slog.Logger // not nil

	// CommitEvery is how long a finished record waits for its commit.
	CommitEvery time.Duration
	// MaxSpan is how many offsets of a partition may wait for the lowest
	// unfinished one before the partition is paused.
	MaxSpan int
	// Base is the parent of the partitions' contexts; nil is the background.
	Base context.Context
	// RevokeWait bounds how long a revocation waits for what runs.
	RevokeWait time.Duration

	// Assigned, if not nil, is called with new partitions before their first
	// record. Dropped is called with partitions from which nothing more may
	// be started; it forgets what it holds of them. Neither may block, and
	// neither is called while a poll's records are handed out.
	Assigned func([]*Partition)
	Dropped  func([]*Partition)
}

// Member is one member of a consumer group. Make it with [New], end it with
// [Member.Close].
type Member struct {
	cfg   Config
	kafka *kgo.Client
	dirty chan struct{} // holds a token while something may be committed

	// committing is held during a commit and during a change of ownership, so
	// that no commit of a partition can be on its way once it is given up.
	committing chan struct{}

	mu      sync.Mutex
	parts   map[string]map[int32]*Partition
	closing bool // what runs was waited for already
}

// New returns a member that has not joined yet; the client joins in the
// background from now on, and [Member.Close] must be called.
func New(cfg Config) (*Member, error) {
	m := &Member{
		cfg: cfg, dirty: make(chan struct{}, 1), committing: make(chan struct{}, 1),
		parts: map[string]map[int32]*Partition{},
	}
	if cfg.Base == nil {
		m.cfg.Base = context.Background()
	}
	opts := append(kafka.Consuming(cfg.Group, cfg.Protocol),
		kgo.ConsumeTopics(cfg.Topics...),
		kgo.OnPartitionsAssigned(m.assigned),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.lost),
		kgo.OnOffsetsFetched(m.fetched),
	)
	var err error
	if m.kafka, err = kgo.NewClient(append(opts, cfg.Opts...)...); err != nil {
		return nil, fmt.Errorf("ax: %s: %w", cfg.Name, err)
	}
	return m, nil
}

// Kafka returns the member's client.
func (m *Member) Kafka() *kgo.Client { return m.kafka }

// Partitions returns what the member owns now.
func (m *Member) Partitions() []*Partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*Partition
	for _, ps := range m.parts {
		for _, p := range ps {
			all = append(all, p)
		}
	}
	return all
}

func (m *Member) partition(topic string, id int32) *Partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.parts[topic][id]
}

// wake tells the committer that something was finished.
func (m *Member) wake() {
	select {
	case m.dirty <- struct{}{}:
	default:
	}
}

func (m *Member) assigned(_ context.Context, cl *kgo.Client, topics map[string][]int32) {
	id, _ := cl.GroupMetadata()
	var fresh []*Partition
	m.mu.Lock()
	// This is called at the start of each session, also with nothing new. What
	// is still ours now is ours under the id of this session.
	for _, ps := range m.parts {
		for _, p := range ps {
			p.id = id
		}
	}
	for topic, ids := range topics {
		if m.parts[topic] == nil {
			m.parts[topic] = map[int32]*Partition{}
		}
		for _, n := range ids {
			ctx, cancel := context.WithCancelCause(m.cfg.Base)
			p := &Partition{Topic: topic, ID: n, member: m, id: id, ctx: ctx, cancel: cancel, topicID: m.cfg.IDs[topic]}
			m.parts[topic][n] = p
			fresh = append(fresh, p)
		}
	}
	m.mu.Unlock()
	if len(fresh) == 0 {
		return
	}
	if !sabotage.ForgetPause {
		cl.ResumeFetchPartitions(topics) // a pause of an earlier assignment
	}
	m.cfg.Log.Debug("partitions assigned", "role", m.cfg.Name, "group", m.cfg.Group, "partitions", topics)
	if m.cfg.Assigned != nil {
		m.cfg.Assigned(fresh)
	}
}

// fetched reads what earlier owners had finished above their commits. It is
// called after assigned, before the first fetch.
func (m *Member) fetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	for _, g := range resp.Groups {
		if g.Group != m.cfg.Group {
			continue
		}
		for _, topic := range g.Topics {
			for _, part := range topic.Partitions {
				name := topic.Topic
				p := m.partition(name, part.Partition)
				if p == nil || part.Metadata == nil || part.Offset < 0 {
					continue
				}
				if err := p.fetched(part.Offset, *part.Metadata); err != nil {
					m.cfg.Log.Warn("commit metadata is ignored: finished tasks above the commit will run again", "role", m.cfg.Name,
						"group", m.cfg.Group, "topic", name, "partition", part.Partition, "error", err)
				}
			}
		}
	}
	return nil
}

// revoked gives partitions up that this member still owns.
func (m *Member) revoked(_ context.Context, cl *kgo.Client, topics map[string][]int32) {
	ps := m.take(topics)
	if len(ps) == 0 {
		return
	}
	id, _ := cl.GroupMetadata()
	m.mu.Lock()
	wait := m.cfg.RevokeWait
	if m.closing {
		wait = 0
	}
	evicted := !sabotage.SettleLost && slices.ContainsFunc(ps, func(p *Partition) bool { return p.id != id })
	m.mu.Unlock()
	if evicted {
		m.cfg.Log.Warn("partitions lost: the member was evicted", "role", m.cfg.Name, "group", m.cfg.Group, "partitions", topics)
		m.giveUp(ps)
		return
	}
	// The callback's own context ends with the client, which may be closing;
	// the bound here is ours.
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	idle := make([]<-chan struct{}, len(ps))
	for i, p := range ps {
		idle[i] = p.stop()
	}
	m.drop(ps)
	for i, c := range idle {
		select {
		case <-c:
			continue
		default:
		}
		select {
		case <-c:
		case <-ctx.Done():
			m.cfg.Log.Warn("a partition is given up with tasks running", "role", m.cfg.Name,
				"group", m.cfg.Group, "topic", ps[i].Topic, "partition", ps[i].ID, "waited", wait)
		}
	}
	within, done := context.WithTimeout(context.Background(), commitTimeout)
	defer done()
	if err := m.commit(within, ps); err != nil {
		m.cfg.Log.Error("commit before giving partitions up failed", "role", m.cfg.Name, "group", m.cfg.Group, "error", err)
	}
	m.giveUp(ps)
	m.cfg.Log.Debug("partitions revoked", "role", m.cfg.Name, "group", m.cfg.Group, "partitions", topics)
}

func (m *Member) lost(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	ps := m.take(topics)
	if len(ps) == 0 || sabotage.SettleLost {
		return
	}
	m.cfg.Log.Warn("partitions lost", "role", m.cfg.Name, "group", m.cfg.Group, "partitions", topics)
	m.giveUp(ps)
}

// take returns the partitions of topics that the member owns.
func (m *Member) take(topics map[string][]int32) []*Partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ps []*Partition
	for topic, ids := range topics {
		for _, id := range ids {
			if p := m.parts[topic][id]; p != nil {
				ps = append(ps, p)
			}
		}
	}
	return ps
}

func (m *Member) drop(ps []*Partition) {
	if m.cfg.Dropped != nil {
		m.cfg.Dropped(ps)
	}
}

// giveUp fences partitions, forgets them and clears their pauses.
func (m *Member) giveUp(ps []*Partition) {
	for _, p := range ps {
		p.fence()
	}
	m.drop(ps)
	m.mu.Lock()
	topics := map[string][]int32{}
	for _, p := range ps {
		if m.parts[p.Topic][p.ID] == p {
			delete(m.parts[p.Topic], p.ID)
		}
		topics[p.Topic] = append(topics[p.Topic], p.ID)
	}
	m.mu.Unlock()
	if !sabotage.ForgetPause {
		m.kafka.ResumeFetchPartitions(topics)
	}
}

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
		todo, tickets, backwards := p.add(f.Records)
		if backwards {
			m.cfg.Log.Error("offsets went back: the log was cut", "role", m.cfg.Name, "topic", f.Topic,
				"partition", f.Partition, "offset", f.Records[0].Offset)
		}
		if p.Span() >= m.cfg.MaxSpan {
			m.cfg.Log.Warn("a partition waits for its lowest unfinished record", "role", m.cfg.Name, "topic", p.Topic, "partition", p.ID)
			p.Pause(PauseWindow)
		}
		if len(todo) > 0 {
			take(Batch{Partition: p, Records: todo, Tickets: tickets})
		} else {
			m.wake() // all was finished already, which is news to commit
		}
	})
	return m.pollErrors(ctx, fs)
}

// pollErrors logs what went wrong in a poll, and waits a little where nothing
// but errors came, since some of them come thousands of times a second.
func (m *Member) pollErrors(ctx context.Context, fs kgo.Fetches) error {
	failed := false
	fs.EachError(func(topic string, id int32, err error) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return
		}
		failed = true
		if _, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
			m.cfg.Log.Error("the log lost records", "role", m.cfg.Name, "topic", topic, "partition", id, "error", err)
			return
		}
		m.cfg.Log.Error("fetch failed", "role", m.cfg.Name, "group", m.cfg.Group, "topic", topic, "partition", id, "error", m.cfg.Watch.Explain(err))
	})
	if !failed || fs.NumRecords() > 0 {
		return nil
	}
	m.kafka.AllowRebalance()
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
