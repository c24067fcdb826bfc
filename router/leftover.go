package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/text"
)

// Leftover is a topic that was one of the domain's and that the domain no
// longer names: a lane or a far tier that was taken out of its file. Tasks may
// wait in it, so workers and movers go on reading it.
type Leftover struct {
	Topic      string
	ID         [16]byte
	Partitions int
	Group      string // that drains it, the same as when the domain named it
	Lane       string // the lane's name; empty for a tier
	Tier       Tier   // of a tier; the wait is its delay less today's window
}

// Leftovers lists the cluster's topics and returns those of them that are the
// domain's by their name and that it no longer names, by name. It asks once and
// changes nothing.
//
// A name that could be another domain's is never taken: "orders.lane.x.dead"
// may be the lane "x.dead" of domain orders, but also the dead topic of domain
// "orders.lane.x", whose tasks nobody else must run. So a lane whose name holds
// ".lane." or ".delay.", or ends with ".dead", is not found here once the
// domain has lost it.
func (r *Router) Leftovers(ctx context.Context, adm *kadm.Client) ([]Leftover, error) {
	details, err := adm.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("ax: leftover topics of domain %s: list topics: %w", r.domain.Name, err)
	}
	var all []Leftover
	for _, d := range details.Sorted() {
		if l, ok := r.leftover(d.Topic); ok && d.Err == nil {
			l.ID, l.Partitions = d.ID, len(d.Partitions)
			all = append(all, l)
		}
	}
	return all, nil
}

// leftover returns what the topic is by its name, and false if that is nothing
// or something that the domain names.
func (r *Router) leftover(topic string) (Leftover, bool) {
	l := Leftover{Topic: topic}
	if name, ok := strings.CutPrefix(topic, r.base+".lane."); ok {
		l.Lane, l.Group = name, r.LaneGroup(name)
		_, named := r.byName[topic]
		return l, !named && isName(name) && !foreign(name)
	}
	name, ok := strings.CutPrefix(topic, r.base+".delay.")
	if !ok {
		return l, false
	}
	delay, err := time.ParseDuration(name)
	if err != nil || delay <= 0 || text.Duration(delay) != name {
		return l, false // also the near tier
	}
	l.Group = r.FarGroup()
	l.Tier = Tier{Topic: topic, Delay: delay, Wait: max(0, delay-r.domain.Delay.Window)}
	for _, t := range r.tiers {
		if t.Topic == topic {
			return l, false
		}
	}
	return l, true
}

// isName reports whether a lane may have the name. The rule for a domain's is
// the same.
func isName(s string) bool { return ax.Domain{Name: s}.Validate() == nil }

// foreign reports whether "<domain>.lane.<name>" may be a topic of another
// domain, whose name begins with "<domain>.lane".
func foreign(name string) bool {
	s := "." + name
	return strings.Contains(s, ".lane.") || strings.Contains(s, ".delay.") || strings.HasSuffix(s, ".dead")
}

// Gone reports whether the topic was deleted, or deleted and made anew. Who
// reads it must stop then: a Kafka client asks for a topic that is gone as fast
// as the broker answers.
func (l Leftover) Gone(ctx context.Context, adm *kadm.Client) (bool, error) {
	details, err := adm.ListTopics(ctx, l.Topic)
	if err != nil {
		return false, fmt.Errorf("ax: list topic %s: %w", l.Topic, err)
	}
	d, ok := details[l.Topic]
	switch {
	case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		return true, nil
	case d.Err != nil:
		return false, fmt.Errorf("ax: topic %s: %w", l.Topic, d.Err)
	}
	return d.ID != l.ID, nil
}

// Backlog returns how many records of the topic its group has not committed
// past. Once that is none, and no process works by the old domain any more, the
// topic may be deleted.
func (l Leftover) Backlog(ctx context.Context, adm *kadm.Client) (int64, error) {
	n, err := backlog(ctx, adm, l.Group, l.Topic)
	if err != nil {
		return 0, fmt.Errorf("ax: backlog of group %s on topic %s: %w", l.Group, l.Topic, err)
	}
	return n, nil
}

// backlog returns how many records of the topic the group has not committed
// past.
func backlog(ctx context.Context, adm *kadm.Client, group, topic string) (n int64, err error) {
	// The commits are asked for first: what is committed and written meanwhile
	// then makes the backlog larger and not smaller.
	commits, err := adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return 0, err
	}
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return 0, err
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, err
	}
	for p, end := range ends[topic] {
		from := starts[topic][p].Offset
		if at, ok := commits.Lookup(topic, p); ok {
			if at.Err != nil {
				return 0, at.Err
			}
			from = max(from, at.At)
		}
		n += max(0, end.Offset-from)
	}
	return n, nil
}
