package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/kafka"
)

// Action is what a [Change] does.
type Action string

const (
	Create Action = "create" // a topic that is missing
	Grow   Action = "grow"   // partitions
	Set    Action = "set"    // a setting that differs from the domain
	Refuse Action = "refuse" // drift that Apply never mends; Reason says why
	Drain  Action = "drain"  // a leftover that workers and movers still empty; never part of a plan
)

// Change is one difference between the cluster and the domain.
type Change struct {
	Action Action `json:"action"`
	Topic  string `json:"topic"`
	What   string `json:"what,omitempty"` // "partitions", "replication" or a topic setting
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func (c Change) String() string {
	switch c.Action {
	case Drain:
		return fmt.Sprintf("drain  %s has %s records to go: %s", c.Topic, c.From, c.Reason)
	case Create:
		return fmt.Sprintf("create %s (%s)", c.Topic, c.To)
	case Refuse:
		return fmt.Sprintf("drift  %s %s %s, the domain says %s: %s", c.Topic, c.What, c.From, c.To, c.Reason)
	}
	return fmt.Sprintf("%-6s %s %s %s → %s", c.Action, c.Topic, c.What, c.From, c.To)
}

// Plan is what has to change for the cluster to match the domain.
type Plan struct {
	Changes []Change `json:"changes"`

	r     *Router
	specs map[string]topicSpec
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 }

// Refused returns the changes that Apply won't make.
func (p *Plan) Refused() []Change {
	var out []Change
	for _, c := range p.Changes {
		if c.Action == Refuse {
			out = append(out, c)
		}
	}
	return out
}

// DriftError says that the cluster does not match the domain.
type DriftError struct {
	Domain  string
	Changes []Change
}

func (e *DriftError) Error() string {
	n := "1 difference"
	if len(e.Changes) != 1 {
		n = fmt.Sprintf("%d differences", len(e.Changes))
	}
	s := fmt.Sprintf("ax: domain %s: %s from the cluster", e.Domain, n)
	for _, c := range e.Changes {
		s += "\n  " + c.String()
	}
	return s
}

// topicSpec is what a topic should be.
type topicSpec struct {
	partitions int
	config     map[string]string
	group      string // where it may only grow once this group has drained it
}

// maxMessage is the largest batch that the topic takes. The dead topic takes
// more than the others, so that what just fits them still fits it with the
// headers of its death.
func (r *Router) maxMessage(topic string) int {
	n := min(r.domain.MaxPayload+kafka.HeaderRoom, 1<<30)
	if topic == r.dead {
		n += 2 * kafka.HeaderRoom
	}
	return n
}

// specs returns what each topic of the domain should be.
func (r *Router) specs() map[string]topicSpec {
	d := r.domain
	isr := 1
	if d.Durability == ax.Safe {
		isr = min(2, d.Replication)
	}
	retention := "-1"
	if d.Retention.Tasks > 0 {
		retention = strconv.FormatInt(d.Retention.Tasks.Milliseconds(), 10)
	}
	base := func(topic string) map[string]string {
		return map[string]string{
			"cleanup.policy":      "delete",
			"retention.ms":        retention,
			"retention.bytes":     "-1",
			"min.insync.replicas": strconv.Itoa(isr),
			"max.message.bytes":   strconv.Itoa(r.maxMessage(topic)),
		}
	}
	out := map[string]topicSpec{}
	for _, l := range d.Lanes {
		topic := r.lanes[l.Name]
		s := topicSpec{partitions: l.Partitions, config: base(topic)}
		if l.Order == ax.OrderKey || l.Limit > 0 {
			s.group = r.LaneGroup(l.Name)
		}
		out[topic] = s
	}
	tier := func(topic string, partitions int) {
		s := topicSpec{partitions: partitions, config: base(topic)}
		// The mover bounds a claimed leave time by the time of the append.
		s.config["message.timestamp.type"] = "LogAppendTime"
		out[topic] = s
	}
	for _, t := range r.tiers {
		tier(t.Topic, d.Delay.Partitions)
	}
	tier(r.near, d.Delay.NearPartitions)
	dead := topicSpec{partitions: 3, config: base(r.dead)}
	dead.config["cleanup.policy"] = "compact"
	dead.config["retention.ms"] = "-1"
	// Without a bound a purge would delete nothing for long.
	dead.config["max.compaction.lag.ms"] = strconv.FormatInt((24 * time.Hour).Milliseconds(), 10)
	out[r.dead] = dead
	return out
}

// Plan compares the cluster with the domain. It changes nothing. An error that
// matches [ax.ErrInvalid] says that the domain asks for more brokers than there
// are.
func (r *Router) Plan(ctx context.Context, adm *kadm.Client) (*Plan, error) {
	brokers, err := adm.ListBrokers(ctx)
	if err != nil {
		return nil, fmt.Errorf("ax: plan of domain %s: list brokers: %w", r.domain.Name, err)
	}
	if n := len(brokers); r.domain.Replication > n {
		return nil, fmt.Errorf("ax: plan of domain %s: %w: %w", r.domain.Name, ax.ErrInvalid, &ax.FieldError{
			Path: "replication", Value: strconv.Itoa(r.domain.Replication),
			Reason: fmt.Sprintf("the cluster has %d brokers; lower replication, and say durability: fast if one copy must do", n),
		})
	}
	topics := r.Topics()
	details, err := adm.ListTopics(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("ax: plan of domain %s: list topics: %w", r.domain.Name, err)
	}
	p := &Plan{r: r, specs: r.specs()}
	var there []string
	for _, topic := range topics {
		d, ok := details[topic]
		if !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			s := p.specs[topic]
			p.add(Change{Action: Create, Topic: topic, To: fmt.Sprintf("%d partitions, replication %d", s.partitions, r.domain.Replication)})
			continue
		}
		if d.Err != nil {
			return nil, fmt.Errorf("ax: plan of domain %s: topic %s: %w", r.domain.Name, topic, d.Err)
		}
		there = append(there, topic)
		if err := p.compareShape(ctx, adm, topic, d); err != nil {
			return nil, err
		}
	}
	return p, p.compareConfigs(ctx, adm, there)
}

func (p *Plan) add(c Change) { p.Changes = append(p.Changes, c) }

func (p *Plan) compareShape(ctx context.Context, adm *kadm.Client, topic string, d kadm.TopicDetail) error {
	spec := p.specs[topic]
	c := Change{Topic: topic, What: "partitions", From: strconv.Itoa(len(d.Partitions)), To: strconv.Itoa(spec.partitions)}
	switch {
	case len(d.Partitions) > spec.partitions:
		c.Action, c.Reason = Refuse, "partitions can't shrink; raise the number in the domain"
		p.add(c)
	case len(d.Partitions) < spec.partitions:
		c.Action = Grow
		if spec.group != "" {
			left, err := backlog(ctx, adm, spec.group, topic)
			if err != nil {
				return fmt.Errorf("ax: plan of domain %s: lag of group %s on %s: %w", p.r.domain.Name, spec.group, topic, err)
			}
			if left > 0 {
				c.Action, c.Reason = Refuse, "the lane keeps order or a limit by partition and may only grow when it is drained"
			}
		}
		p.add(c)
	}
	want := p.r.domain.Replication
	for _, part := range d.Partitions.Sorted() {
		if have := len(part.Replicas); have != want {
			p.add(Change{
				Action: Refuse, Topic: topic, What: "replication", From: strconv.Itoa(have), To: strconv.Itoa(want),
				Reason: "reassign the partitions with Kafka's own tools, or change the domain",
			})
			break
		}
	}
	return nil
}

func (p *Plan) compareConfigs(ctx context.Context, adm *kadm.Client, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	all, err := describe(ctx, adm, topics)
	if err != nil {
		return fmt.Errorf("ax: plan of domain %s: describe topics: %w", p.r.domain.Name, err)
	}
	for _, topic := range topics {
		rc, err := all.On(topic, nil)
		if err == nil {
			err = rc.Err
		}
		if err != nil {
			return fmt.Errorf("ax: plan of domain %s: settings of topic %s: %w", p.r.domain.Name, topic, err)
		}
		have := map[string]string{}
		for _, c := range rc.Configs {
			have[c.Key] = c.MaybeValue()
		}
		spec := p.specs[topic]
		for _, key := range slices.Sorted(maps.Keys(spec.config)) {
			if have[key] != spec.config[key] {
				p.add(Change{Action: Set, Topic: topic, What: key, From: have[key], To: spec.config[key]})
			}
		}
	}
	return nil
}

// describe asks for the settings of topics that exist. A broker that has not
// heard of one yet is asked again for a few seconds.
func describe(ctx context.Context, adm *kadm.Client, topics []string) (kadm.ResourceConfigs, error) {
	for tries := 0; ; tries++ {
		all, err := adm.DescribeTopicConfigs(ctx, topics...)
		unknown := func(c kadm.ResourceConfig) bool { return errors.Is(c.Err, kerr.UnknownTopicOrPartition) }
		if err != nil || tries == 20 || !slices.ContainsFunc(all, unknown) {
			return all, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Check returns a [*DriftError] unless the cluster matches the domain. It
// changes nothing, so it suits clusters where an operator owns the topics.
func (r *Router) Check(ctx context.Context, adm *kadm.Client) error {
	p, err := r.Plan(ctx, adm)
	if err != nil {
		return err
	}
	if !p.Empty() {
		return &DriftError{Domain: r.domain.Name, Changes: p.Changes}
	}
	return nil
}
