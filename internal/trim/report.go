package trim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Report is what a round has deleted, and what kept it from more.
type Report struct {
	// Topics, by name, are those of which something was deleted or could not
	// be.
	Topics []Topic `json:"topics"`
}

// Topic is what became of one topic.
type Topic struct {
	Name    string  `json:"topic"`
	Deleted int64   `json:"deleted"` // offsets that the logs' starts moved by
	Blocked []Block `json:"blocked,omitempty"`
}

// Block is why partitions keep all that they hold.
type Block struct {
	Partitions []int32 `json:"partitions,omitempty"` // none: all of the topic
	Group      string  `json:"group,omitempty"`      // if it is about one
	Reason     string  `json:"reason"`
	waits      bool    // the group has not committed yet, which is no error
}

// Deleted returns the number of offsets that were deleted.
func (r Report) Deleted() (n int64) {
	for _, t := range r.Topics {
		n += t.Deleted
	}
	return n
}

// waits returns the topics that wait for a first commit of one of the groups.
func (r Report) waits(groups []string) (topics []string) {
	for _, t := range r.Topics {
		for _, b := range t.Blocked {
			if b.waits && slices.Contains(groups, b.Group) {
				topics = append(topics, fmt.Sprintf("%s for %s", t.Name, b.Group))
			}
		}
	}
	return topics
}

// String returns lines for people, none if there is nothing to say.
func (r Report) String() string {
	var s strings.Builder
	for _, t := range r.Topics {
		if t.Deleted > 0 {
			fmt.Fprintf(&s, "%s: %d records deleted\n", t.Name, t.Deleted)
		}
		for _, b := range t.Blocked {
			fmt.Fprintf(&s, "%s%s: kept: %s\n", t.Name, b.where(), b.text())
		}
	}
	return s.String()
}

// where returns the partitions behind the topic's name.
func (b Block) where() string {
	var ps []string
	for _, p := range b.Partitions {
		ps = append(ps, strconv.Itoa(int(p)))
	}
	if len(ps) == 0 {
		return ""
	}
	return "/" + strings.Join(ps, ",")
}

func (b Block) text() string {
	if b.Group != "" {
		return "group " + b.Group + ": " + b.Reason
	}
	return b.Reason
}

const allPartitions = -1

// book collects what becomes of the topics in a round.
type book struct {
	topics map[string]*Topic
	faults map[string]error // by text: one group blocks many partitions
}

func (b *book) topic(name string) *Topic {
	if b.topics == nil {
		b.topics, b.faults = map[string]*Topic{}, map[string]error{}
	}
	if b.topics[name] == nil {
		b.topics[name] = &Topic{Name: name}
	}
	return b.topics[name]
}

func (b *book) deleted(name string, n int64) { b.topic(name).Deleted += n }

func (b *book) block(name string, partition int32, o obstacle) {
	t := b.topic(name)
	block := Block{Group: o.group, Reason: "it has committed nothing", waits: o.err == nil}
	if o.err != nil {
		block.Reason = o.err.Error()
		if o.doing != "" {
			block.Reason = o.doing + ": " + block.Reason
		}
	}
	i := slices.IndexFunc(t.Blocked, func(have Block) bool {
		return have.Group == block.Group && have.Reason == block.Reason && len(have.Partitions) > 0
	})
	if i < 0 {
		i, t.Blocked = len(t.Blocked), append(t.Blocked, block)
	}
	if partition != allPartitions {
		t.Blocked[i].Partitions = append(t.Blocked[i].Partitions, partition)
		slices.Sort(t.Blocked[i].Partitions)
	}
	if o.err == nil {
		return
	}
	what := name
	switch {
	case o.asked:
		what = "commits of group " + o.group
	case o.group != "":
		what = name + ": group " + o.group
	case o.doing != "":
		what = name + ": " + o.doing
	}
	err := fmt.Errorf("%s: %w", what, o.err)
	b.faults[err.Error()] = err
}

func (b *book) report() Report {
	r := Report{Topics: []Topic{}}
	for _, name := range slices.Sorted(maps.Keys(b.topics)) {
		r.Topics = append(r.Topics, *b.topics[name])
	}
	return r
}

// err joins all faults, each once.
func (b *book) err(explain func(error) error) error {
	var all []error
	for _, text := range slices.Sorted(maps.Keys(b.faults)) {
		all = append(all, explain(b.faults[text]))
	}
	return errors.Join(all...)
}
