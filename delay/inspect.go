package delay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/offset"
	"github.com/axtasks/ax/router"
)

// TierState is what the cluster holds of one tier, whichever mover owns it.
type TierState struct {
	Tier  string `json:"tier"` // its delay, such as "1h", or "near"
	Topic string `json:"topic"`
	// Depth is how many records have not left the tier, by the last commits.
	Depth int64 `json:"depth"`
	// Next is when the next one leaves, by this process's clock: in the past for
	// one that is overdue. Zero: none waits, or none could be read in time.
	Next time.Time `json:"next,omitzero"`
	// Rate is how many left a second while [Inspect] watched.
	Rate float64 `json:"rate"`
	// Members is how many movers share the tier.
	Members int `json:"members"`
}

const (
	// So many records of the near tier are read for the one that is due next.
	nearSample = 10_000
	readFor    = 5 * time.Second
)

// Inspect asks the cluster for the state of the domain's tiers, the shortest
// first and the near tier last, and watches for a while how many records leave
// them. It needs no mover, changes nothing and joins no group. It blocks for
// that while and as long as the brokers take, some seconds at most. A domain
// whose topics don't exist is an error.
func Inspect(ctx context.Context, d ax.Domain, watch time.Duration, opts ...kgo.Opt) ([]TierState, error) {
	r, err := router.New(d)
	if err != nil {
		return nil, fmt.Errorf("ax: tiers: %w", err)
	}
	i := &inspector{r: r, domain: r.Domain()}
	base, why, err := kafka.Options(i.domain, "tiers", nil)
	if err != nil {
		return nil, err
	}
	i.opts = append(base, opts...)
	cl, err := kgo.NewClient(i.opts...)
	if err != nil {
		return nil, fmt.Errorf("ax: tiers of domain %s: %w", d.Name, err)
	}
	defer cl.Close()
	if err := kafka.Ping(ctx, cl, why, 10*time.Second); err != nil {
		return nil, fmt.Errorf("ax: tiers of domain %s: %w", d.Name, err)
	}
	i.adm = kadm.NewClient(cl)
	states, err := i.look(ctx, watch)
	if err != nil {
		return nil, fmt.Errorf("ax: tiers of domain %s: %w", d.Name, why.Explain(err))
	}
	return states, nil
}

type inspector struct {
	r      *router.Router
	domain ax.Domain
	opts   []kgo.Opt
	adm    *kadm.Client
	topics []string // leftover tiers among them
}

// mark is how far the movers are in one partition.
type mark struct {
	from, end int64 // the first record that has not left, and the log's end
	finished  offset.Finished
}

func (m mark) depth() int64 { return max(0, m.end-m.from-m.finished.Len()) }
func (m mark) gone() int64  { return m.from + m.finished.Len() }

func (i *inspector) look(ctx context.Context, watch time.Duration) ([]TierState, error) {
	var states []TierState
	tiers := map[string]router.Tier{}
	for _, t := range i.r.Tiers() {
		tiers[t.Topic] = t
	}
	left, err := i.r.Leftovers(ctx, i.adm)
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		if l.Lane == "" {
			tiers[l.Topic] = l.Tier
		}
	}
	for topic, t := range tiers {
		i.topics = append(i.topics, topic)
		states = append(states, TierState{Tier: t.Name(), Topic: topic})
	}
	slices.SortFunc(states, func(a, b TierState) int { return cmp.Compare(tiers[a.Topic].Delay, tiers[b.Topic].Delay) })
	i.topics = append(i.topics, i.r.Near())
	states = append(states, TierState{Tier: router.NearName, Topic: i.r.Near()})
	began := time.Now()
	first, err := i.marks(ctx)
	if err != nil {
		return nil, err
	}
	next, err := i.next(ctx, first, tiers)
	if err != nil {
		return nil, err
	}
	rest := time.NewTimer(time.Until(began.Add(watch)))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	took := time.Since(began)
	last, err := i.marks(ctx)
	if err != nil {
		return nil, err
	}
	members, err := i.members(ctx)
	if err != nil {
		return nil, err
	}
	for n := range states {
		s := &states[n]
		for p, m := range last[s.Topic] {
			s.Depth += m.depth()
			if before, ok := first[s.Topic][p]; ok {
				s.Rate += max(0, float64(m.gone()-before.gone())) / took.Seconds()
			}
		}
		s.Next, s.Members = next[s.Topic], members[i.group(s.Topic)]
	}
	return states, nil
}

func (i *inspector) group(topic string) string {
	if topic == i.r.Near() {
		return i.r.NearGroup()
	}
	return i.r.FarGroup()
}

// marks asks how far the movers are.
func (i *inspector) marks(ctx context.Context) (map[string]map[int32]mark, error) {
	topics := i.topics
	details, err := i.adm.ListTopics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	starts, err := i.adm.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, err
	}
	commits := kadm.OffsetResponses{}
	for _, group := range []string{i.r.NearGroup(), i.r.FarGroup()} {
		got, err := i.adm.FetchOffsets(ctx, group)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return nil, fmt.Errorf("commits of group %s: %w", group, err)
		}
		for topic, ps := range got {
			if i.group(topic) == group {
				commits[topic] = ps
			}
		}
	}
	// Asked for last: what is written meanwhile makes a depth larger.
	ends, err := i.adm.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	all := map[string]map[int32]mark{}
	for _, topic := range topics {
		all[topic] = map[int32]mark{}
		for p, end := range ends[topic] {
			m := mark{from: starts[topic][p].Offset, end: end.Offset}
			if at, ok := commits.Lookup(topic, p); ok && at.Err == nil {
				m.from = max(m.from, at.At)
				if meta, err := offset.Parse(at.Metadata, details[topic].ID, at.At); err == nil {
					m.finished = meta.Finished
				}
			}
			all[topic][p] = m
		}
	}
	return all, nil
}

// next reads what leaves first: the head of each partition of a far tier, and
// what the near tier holds, up to a bound.
func (i *inspector) next(ctx context.Context, marks map[string]map[int32]mark, tiers map[string]router.Tier) (map[string]time.Time, error) {
	from := map[string]map[int32]kgo.Offset{}
	left := map[string]map[int32]int64{} // the offset up to which each is read
	share := int64(nearSample / max(1, len(marks[i.r.Near()])))
	for topic, ps := range marks {
		for p, m := range ps {
			if m.depth() == 0 {
				continue
			}
			if from[topic] == nil {
				from[topic], left[topic] = map[int32]kgo.Offset{}, map[int32]int64{}
			}
			from[topic][p] = kgo.NewOffset().At(m.from)
			if left[topic][p] = m.end; topic == i.r.Near() {
				left[topic][p] = min(m.end, m.from+share)
			}
		}
	}
	found := map[string]time.Time{}
	if len(from) == 0 {
		return found, nil
	}
	cl, err := kgo.NewClient(append(slices.Clone(i.opts), kgo.ConsumePartitions(from), kgo.FetchMaxWait(200*time.Millisecond), kgo.FetchMaxPartitionBytes(64<<10), kgo.KeepControlRecords())...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	within, cancel := context.WithTimeout(ctx, readFor)
	defer cancel()
	for len(left) > 0 && within.Err() == nil {
		fs := cl.PollFetches(within)
		if err := fs.Err(); err != nil && within.Err() == nil {
			return nil, fmt.Errorf("read the tiers: %w", err)
		}
		fs.EachRecord(func(rec *kgo.Record) {
			end, ok := left[rec.Topic][rec.Partition]
			if !ok {
				return
			}
			m := marks[rec.Topic][rec.Partition]
			waits := !rec.Attrs.IsControl() && !m.finished.Has(rec.Offset, rec.LeaderEpoch)
			if rec.Offset < end && waits {
				if at := i.leaves(rec, tiers); found[rec.Topic].IsZero() || at.Before(found[rec.Topic]) {
					found[rec.Topic] = at
				}
			}
			// Of a far tier the head alone counts.
			if rec.Offset >= end-1 || waits && rec.Topic != i.r.Near() {
				if delete(left[rec.Topic], rec.Partition); len(left[rec.Topic]) == 0 {
					delete(left, rec.Topic)
				}
			}
		})
	}
	return found, ctx.Err()
}

// leaves returns when a record leaves its tier; one that is no task does at
// once.
func (i *inspector) leaves(rec *kgo.Record, tiers map[string]router.Tier) time.Time {
	t, err := ax.Decode(rec, [16]byte{})
	if err != nil {
		return clock.Now()
	}
	if tier, ok := tiers[rec.Topic]; ok {
		return i.r.LeaveAt(tier, t.Leave, rec.Timestamp)
	}
	if d := &i.domain.Delay; t.Due.Sub(clock.Now()) <= d.Tiers[0]+d.Window {
		return t.Due.Add(-max(d.Lead, 0))
	}
	return clock.Now() // it is not near, and goes back
}

// members returns how many movers are in each group.
func (i *inspector) members(ctx context.Context) (map[string]int, error) {
	counts := map[string]int{}
	groups := []string{i.r.NearGroup(), i.r.FarGroup()}
	if i.domain.Kafka.GroupProtocol == ax.Consumer {
		got, err := i.adm.DescribeConsumerGroups(ctx, groups...)
		if err != nil {
			return nil, err
		}
		for name, g := range got {
			counts[name] = len(g.Members)
		}
		return counts, nil
	}
	got, err := i.adm.DescribeGroups(ctx, groups...)
	if err != nil {
		return nil, err
	}
	for name, g := range got {
		counts[name] = len(g.Members)
	}
	return counts, nil
}
