package router

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/text"
)

// Router knows the topics and groups of one domain. It is immutable and safe
// for concurrent use.
type Router struct {
	domain ax.Domain
	base   string // prefix and domain name
	lanes  map[string]string
	byName map[string]string // lane topic → lane
	tiers  []Tier
	least  string // topic of the lane of least weight
	dead   string
	near   string
}

// Tier is a far tier.
type Tier struct {
	Topic string
	Delay time.Duration // what it serves in one hop
	Wait  time.Duration // how long a record waits in it
}

// Name returns what the tier is called: its delay, such as 1h, as in its topic.
func (t Tier) Name() string { return text.Duration(t.Delay) }

// NearName is what the near tier is called.
const NearName = "near"

// New returns the router of d. It returns the faults of [ax.Domain.Validate].
func New(d ax.Domain) (*Router, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	d = d.WithDefaults()
	r := &Router{
		domain: d, base: d.Prefix + d.Name,
		lanes: make(map[string]string), byName: make(map[string]string),
	}
	weight := 0
	for _, l := range d.Lanes {
		topic := r.base + ".lane." + l.Name
		r.lanes[l.Name], r.byName[topic] = topic, l.Name
		if r.least == "" || l.Weight < weight {
			r.least, weight = topic, l.Weight
		}
	}
	for _, t := range d.Delay.Tiers {
		r.tiers = append(r.tiers, Tier{
			Topic: r.base + ".delay." + text.Duration(t),
			Delay: t, Wait: t - d.Delay.Window,
		})
	}
	r.near = r.base + ".delay.near"
	r.dead = r.base + ".dead"
	return r, nil
}

// Domain returns the domain with its defaults filled in.
func (r *Router) Domain() ax.Domain { return r.domain }

// Lane returns the topic of a lane. A lane that the domain doesn't name, in a
// record that an older domain wrote, is the lane of least weight.
func (r *Router) Lane(name string) string {
	if topic, ok := r.lanes[name]; ok {
		return topic
	}
	return r.least
}

// LaneOf returns the lane of a topic, and false if it is no lane's.
func (r *Router) LaneOf(topic string) (string, bool) {
	name, ok := r.byName[topic]
	return name, ok
}

// Tiers returns the far tiers, the shortest first. The caller must not change
// the slice.
func (r *Router) Tiers() []Tier { return r.tiers }

// Near returns the topic of the near tier.
func (r *Router) Near() string { return r.near }

// Dead returns the topic where tasks end that can't succeed.
func (r *Router) Dead() string { return r.dead }

// Topics returns all topics of the domain: lanes, tiers, near tier, dead.
func (r *Router) Topics() []string {
	var all []string
	for _, l := range r.domain.Lanes {
		all = append(all, r.lanes[l.Name])
	}
	for _, t := range r.tiers {
		all = append(all, t.Topic)
	}
	return append(all, r.near, r.dead)
}

// LaneGroup returns the consumer group of a lane's workers. The prefix is part
// of it, as of the topics, so that two stages on one cluster stay apart.
func (r *Router) LaneGroup(lane string) string { return r.base + ".worker." + lane }

// NearGroup returns the consumer group of the near tier's movers.
func (r *Router) NearGroup() string { return r.base + ".mover.near" }

// FarGroup returns the consumer group of the far tiers' movers.
func (r *Router) FarGroup() string { return r.base + ".mover.far" }

// Options returns the client options of whoever writes the domain's topics:
// where records go, and how large they may be.
func (r *Router) Options() []kgo.Opt {
	return []kgo.Opt{
		kgo.RecordPartitioner(partitioner{r}),
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 { return int32(r.maxMessage(topic)) }),
		// The client refuses batches that are larger than a request.
		kgo.BrokerMaxWriteBytes(int32(max(100<<20, r.maxMessage(r.dead)+1<<20))),
	}
}

// partitioner spreads records over partitions: a lane by key where there is
// one, and round robin where the lane has a limit, since a sticky choice would
// put hundreds of tasks behind one permit. In tiers the key has no meaning and
// would only make some partitions longer than others.
type partitioner struct{ r *Router }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	byKey := kgo.StickyKeyPartitioner(nil)
	name, ok := p.r.LaneOf(topic)
	if !ok {
		if topic == p.r.dead {
			return byKey.ForTopic(topic)
		}
		return kgo.StickyPartitioner().ForTopic(topic)
	}
	lane, _ := p.r.domain.Lane(name)
	if lane.Limit > 0 {
		return limited{byKey: byKey.ForTopic(topic), spread: kgo.RoundRobinPartitioner().ForTopic(topic), ordered: lane.Order == ax.OrderKey}
	}
	return byKey.ForTopic(topic)
}

type limited struct {
	byKey, spread kgo.TopicPartitioner
	ordered       bool
}

func (l limited) pick(r *kgo.Record) kgo.TopicPartitioner {
	if l.ordered && r.Key != nil {
		return l.byKey
	}
	return l.spread
}

func (l limited) RequiresConsistency(r *kgo.Record) bool { return l.pick(r).RequiresConsistency(r) }
func (l limited) Partition(r *kgo.Record, n int) int     { return l.pick(r).Partition(r, n) }
