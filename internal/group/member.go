package group

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
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
	// MaxUnfinished is how many records of a partition may be read and not
	// finished before the partition is paused.
	MaxUnfinished int
	// Exact also pauses it when a commit could not say any more which of them
	// are finished, so that a crash repeats only what was at work: more, where
	// one poll brings more than a commit can name. Without it some of what was
	// finished is repeated then.
	Exact bool
	// Quarantine lets records be suspected that were at work when their
	// process died; see [Partition.Verdict]. Nothing of a partition may start
	// before [Partition.Ready] then.
	Quarantine bool
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
	// Moved, if not nil, is called when something may start that could not:
	// a partition is ready, or the member is known again. It must not block.
	Moved func()
}

// Member is one member of a consumer group. Make it with [New], end it with
// [Member.Close].
type Member struct {
	cfg    Config
	kafka  *kgo.Client
	alive  alive
	busy   atomic.Bool
	dirty  chan struct{} // holds a token while something may be committed
	urgent chan struct{} // and while that must not wait

	// committing is held during a commit and during a change of ownership, so
	// that no commit of a partition can be on its way once it is given up.
	committing chan struct{}

	mu      sync.Mutex
	parts   map[string]map[int32]*Partition
	ids     map[string][16]byte // of the topics as they are now
	closing bool                // what runs was waited for already
	joined  bool                // it was given an assignment, an empty one perhaps
	watch   watch
}

// New returns a member that has not joined yet; the client joins in the
// background from now on, and [Member.Close] must be called.
func New(cfg Config) (*Member, error) {
	m := &Member{
		cfg: cfg, dirty: make(chan struct{}, 1), urgent: make(chan struct{}, 1), committing: make(chan struct{}, 1),
		parts: map[string]map[int32]*Partition{}, ids: map[string][16]byte{},
	}
	maps.Copy(m.ids, cfg.IDs)
	m.alive.heard = cfg.Moved
	m.alive.began = time.Now()
	if cfg.Base == nil {
		m.cfg.Base = context.Background()
	}
	opts := append(kafka.Consuming(cfg.Group, cfg.Protocol),
		kgo.ConsumeTopics(cfg.Topics...),
		kgo.OnPartitionsAssigned(m.assigned),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.lost),
		kgo.OnOffsetsFetched(m.fetched),
		kgo.WithHooks(&m.alive),
	)
	var err error
	if m.kafka, err = kgo.NewClient(append(opts, cfg.Opts...)...); err != nil {
		return nil, fmt.Errorf("ax: %s: %w", cfg.Name, err)
	}
	if session, ok := m.kafka.OptValue(kgo.SessionTimeout).(time.Duration); ok && cfg.Protocol != ax.Consumer {
		m.alive.setSession(session)
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
func (m *Member) wake() { poke(m.dirty) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// moved tells the owner that something may start that could not.
func (m *Member) moved() {
	if m.cfg.Moved != nil {
		m.cfg.Moved()
	}
}

// Busy says whether the owner has no room for more and doesn't poll: what waits
// then stands still for no fault of the group.
func (m *Member) Busy(on bool) {
	if m.busy.Swap(on) == on || on {
		return
	}
	for _, p := range m.Partitions() {
		p.mu.Lock()
		p.behind = time.Time{}
		p.mu.Unlock()
	}
}

// Known reports whether the group must still know this member, so that what it
// has read is still its own. Where it reports false, Config.Moved is called
// once that has changed. now is what clock.Now returned a moment ago.
func (m *Member) Known(now time.Time) bool { return m.alive.fresh(now) }

func (m *Member) assigned(ctx context.Context, cl *kgo.Client, topics map[string][]int32) {
	id, _ := cl.GroupMetadata()
	m.identify(ctx, topics)
	if len(topics) > 0 && !sabotage.ForgetPause {
		// A pause of an earlier assignment. It ends before anybody can see the
		// partitions: one who pauses them then must not have it undone.
		cl.ResumeFetchPartitions(topics)
	}
	var fresh []*Partition
	m.mu.Lock()
	m.joined = true
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
			p := &Partition{
				Topic: topic, ID: n, member: m, id: id, ctx: ctx, cancel: cancel, topicID: m.ids[topic],
				base: -1, from: -1, read: time.Now(), life: life{on: m.cfg.Quarantine},
			}
			m.parts[topic][n] = p
			fresh = append(fresh, p)
		}
	}
	m.mu.Unlock()
	if len(fresh) == 0 {
		return
	}
	m.cfg.Log.Debug("partitions assigned", "role", m.cfg.Name, "group", m.cfg.Group, "partitions", topics)
	if m.cfg.Assigned != nil {
		m.cfg.Assigned(fresh)
	}
}

// identify learns the ids of topics that did not exist when the member was made.
func (m *Member) identify(ctx context.Context, topics map[string][]int32) {
	for topic := range topics {
		if m.TopicID(topic) != ([16]byte{}) {
			continue
		}
		within, cancel := context.WithTimeout(ctx, commitTimeout)
		ids, err := kafka.TopicIDs(within, m.kafka, m.cfg.Watch, topic)
		cancel()
		if err != nil {
			m.cfg.Log.Error("the id of a topic is not known: nothing of it can be committed", "role", m.cfg.Name, "topic", topic, "error", err)
			continue
		}
		m.mu.Lock()
		m.ids[topic] = ids[topic]
		m.mu.Unlock()
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
				if p == nil || part.Offset < 0 {
					continue
				}
				text := ""
				if part.Metadata != nil {
					text = *part.Metadata
				}
				if err := p.fetched(part.Offset, part.LeaderEpoch, text, time.Now()); err != nil {
					m.cfg.Log.Warn("commit metadata is ignored: finished tasks above the commit will run again", "role", m.cfg.Name,
						"group", m.cfg.Group, "topic", name, "partition", part.Partition, "error", err)
				}
				m.tellLife(p)
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
	if err := m.commitLast(within, ps); err != nil {
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

// tellLife logs what became of earlier owners, where they died.
func (m *Member) tellLife(p *Partition) {
	p.mu.Lock()
	l := p.life.l
	p.mu.Unlock()
	attrs := []any{"role", m.cfg.Name, "topic", p.Topic, "partition", p.ID, "times", l.TakeOvers, "offset", l.Low}
	switch {
	case l.Mark.Count > 0:
		m.cfg.Log.Error("a process died while a suspect ran", append(attrs, "suspect", l.Mark.Offset, "deaths", l.Mark.Count)...)
	case l.Until > 0:
		m.cfg.Log.Error("owners of a partition die without getting on: its tasks run one at a time", append(attrs, "until", l.Until)...)
	case l.TakeOvers > 0:
		m.cfg.Log.Info("a partition is taken over from an owner that died", attrs...)
	}
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
		// The client may have left a goroutine of its own behind that waits for
		// the last poll: a poll that it counted while it was being closed.
		m.kafka.AllowRebalance()
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
