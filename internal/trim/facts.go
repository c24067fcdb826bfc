package trim

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/axtasks/ax/internal/offset"
)

var (
	errUnknown = errors.New(`it does not exist, or it may not be described; provision it with "ax topics apply"`)
	errAnew    = errors.New("it was made anew meanwhile")
	errSilent  = errors.New("no answer")
	errForeign = errors.New("the metadata of its commit is not that of this topic: the commit may be of an older topic of the same name")
)

// topic is a lane or a tier that exists.
type topic struct {
	name       string
	id         [16]byte
	partitions map[int32]kadm.PartitionDetail
	own        string   // ax's group
	others     []string // that read it too
	leftover   bool     // the domain no longer names it
	unknown    bool     // the domain names it, and it was not found
}

func (t topic) readers() []string { return append([]string{t.own}, t.others...) }

// list asks for all topics: a question for some of them would fail as a whole
// for one that may not be described.
func (t *Trimmer) list(ctx context.Context) (kadm.TopicDetails, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	details, err := t.adm.ListTopics(ctx)
	if err != nil {
		return nil, t.watch.Explain(fmt.Errorf("list topics: %w", err))
	}
	return details, nil
}

// topics returns what may be trimmed: lanes, tiers, and those that the domain
// no longer names.
func (t *Trimmer) topics(ctx context.Context, details kadm.TopicDetails) ([]topic, error) {
	r := t.router
	others := r.Domain().Trim.Groups
	var all []topic
	for _, l := range r.Domain().Lanes {
		all = append(all, topic{name: r.Lane(l.Name), own: r.LaneGroup(l.Name), others: others})
	}
	for _, tier := range r.Tiers() {
		all = append(all, topic{name: tier.Topic, own: r.FarGroup()})
	}
	all = append(all, topic{name: r.Near(), own: r.NearGroup()})
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	left, err := r.Leftovers(ctx, t.adm)
	if err != nil {
		return nil, t.watch.Explain(err)
	}
	for _, l := range left {
		lost := topic{name: l.Topic, own: l.Group, leftover: true}
		if l.Lane != "" {
			lost.others = others
		}
		all = append(all, lost)
	}
	for i := range all {
		d, ok := details[all[i].name]
		all[i].unknown = !ok || d.Err != nil
		all[i].id, all[i].partitions = d.ID, d.Partitions
	}
	return all, nil
}

// answer is what a group has committed, or why that is not known.
type answer struct {
	at  kadm.OffsetResponses
	err error
}

// commits asks all groups at once, each by itself: one whose coordinator is away
// must not cost the others their answer.
func (t *Trimmer) commits(ctx context.Context, topics []topic) map[string]answer {
	answers := map[string]answer{}
	for _, topic := range topics {
		for _, g := range topic.readers() {
			answers[g] = answer{}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	mu.Lock()
	for g := range answers {
		wg.Go(func() {
			at, err := t.adm.FetchOffsets(ctx, g)
			if errors.Is(err, kerr.GroupIDNotFound) {
				at, err = nil, nil // nobody has read yet: everything is kept
			}
			mu.Lock()
			defer mu.Unlock()
			answers[g] = answer{at, err}
		})
	}
	mu.Unlock()
	wg.Wait()
	return answers
}

// offsets asks for the starts or the ends of the topics' logs. Beside an error
// it returns what is known all the same.
func (t *Trimmer) offsets(ctx context.Context, topics []topic, ask func(context.Context, ...string) (kadm.ListedOffsets, error)) (kadm.ListedOffsets, error) {
	var names []string
	for _, topic := range topics {
		if !topic.unknown {
			names = append(names, topic.name)
		}
	}
	if len(names) == 0 {
		return nil, nil // asked for none, it would tell of all
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return ask(ctx, names...)
}

// facts are what the brokers have told in a round.
type facts struct {
	commits          map[string]answer
	starts, ends     kadm.ListedOffsets
	startErr, endErr error // of those that are missing
}

func (f *facts) start(topic string, p int32) int64 {
	o, _ := f.starts.Lookup(topic, p)
	return o.Offset
}

// obstacle is why a partition is not trimmed.
type obstacle struct {
	group string // whose commit is missing or wrong, if it is about one
	doing string // what failed, if it is about no group
	err   error  // nil: the group has not committed yet
	asked bool   // the group could not be asked, for no topic
}

// listed returns an offset of a partition, or why it is not known.
func listed(all kadm.ListedOffsets, err error, topic string, p int32) (int64, error) {
	o, ok := all.Lookup(topic, p)
	if whole, bad := all.Lookup(topic, -1); bad && whole.Err != nil {
		o, ok = whole, true // all of the topic
	}
	switch {
	case ok && o.Err != nil:
		return 0, o.Err
	case ok:
		return o.Offset, nil
	case err != nil:
		return 0, err
	}
	return 0, errSilent
}

// bound returns below which offset all readers are done with a partition, or
// what keeps it from being trimmed.
func (f *facts) bound(t topic, p int32) (at int64, obstacles []obstacle) {
	start, err := listed(f.starts, f.startErr, t.name, p)
	if err != nil {
		return 0, []obstacle{{doing: "ask for the log's start", err: err}}
	}
	end, err := listed(f.ends, f.endErr, t.name, p)
	if err != nil {
		return 0, []obstacle{{doing: "ask for the log's end", err: err}}
	}
	if start >= end {
		return start, nil // there is nothing to delete
	}
	at = end
	for _, g := range t.readers() {
		answer := f.commits[g]
		if answer.err != nil {
			obstacles = append(obstacles, obstacle{group: g, err: answer.err, asked: true})
			continue
		}
		c, ok := answer.at.Lookup(t.name, p)
		if !ok || c.Err == nil && c.At < 0 {
			obstacles = append(obstacles, obstacle{group: g})
			continue
		}
		err := c.Err
		if err == nil && c.At > end {
			err = fmt.Errorf("its commit of %d is beyond the log's end, which is %d", c.At, end)
		}
		if err == nil && g == t.own {
			if _, bad := offset.Parse(c.Metadata, t.id, c.At); bad != nil {
				err = errForeign
			}
		}
		if err != nil {
			obstacles = append(obstacles, obstacle{group: g, err: err})
			continue
		}
		at = min(at, c.At)
	}
	return at, obstacles
}
