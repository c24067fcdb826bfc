package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Endangered returns those differences of the cluster from the domain that
// lose tasks or make them late: a topic that is gone, one whose records are
// deleted by age or size before they must be, or are compacted, fewer copies in
// sync than the domain asks for, and tiers that don't stamp what is appended.
// It is part of what [Router.Plan] finds, for those who look often, and looks at
// leftover topics beside; Reason says what would happen. It changes nothing.
func (r *Router) Endangered(ctx context.Context, adm *kadm.Client, left ...Leftover) ([]Change, error) {
	specs := r.specs()
	topics := r.Topics()
	for _, l := range left {
		like := r.near // of the settings that are looked at, all tiers have the same
		if l.Lane != "" {
			like = r.least
		}
		specs[l.Topic] = specs[like]
		topics = append(topics, l.Topic)
	}
	all, err := describe(ctx, adm, topics)
	if err != nil {
		return nil, fmt.Errorf("ax: settings of the topics of domain %s: %w", r.domain.Name, err)
	}
	var found []Change
	for _, topic := range topics {
		rc, err := all.On(topic, nil)
		if err == nil {
			err = rc.Err
		}
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			found = append(found, Change{Action: Create, Topic: topic, To: "what the domain says", Reason: "the topic is gone, and what was in it"})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ax: settings of topic %s: %w", topic, err)
		}
		have := map[string]string{}
		for _, c := range rc.Configs {
			have[c.Key] = c.MaybeValue()
		}
		want := specs[topic].config
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if why := endangers(key, have[key], want[key]); why != "" {
				found = append(found, Change{Action: Set, Topic: topic, What: key, From: have[key], To: want[key], Reason: why})
			}
		}
	}
	return found, nil
}

// endangers returns what a setting that differs would do to tasks, or nothing
// where it does no harm.
func endangers(key, have, want string) string {
	if have == want {
		return ""
	}
	switch key {
	case "cleanup.policy":
		return "records go that are no repeats of each other, or stay that should go"
	case "retention.ms", "retention.bytes":
		if !less(have, want) {
			return ""
		}
		return "tasks that wait longer are deleted"
	case "min.insync.replicas":
		if !less(have, want) {
			return ""
		}
		return "an acknowledged task may be lost with a broker"
	case "message.timestamp.type":
		return "a forged leave time, or a fast clock, can hold up a tier"
	}
	return ""
}

// less compares two numbers of which -1 is more than any.
func less(have, want string) bool {
	h, err := strconv.ParseInt(have, 10, 64)
	if err != nil || h == -1 {
		return false
	}
	w, err := strconv.ParseInt(want, 10, 64)
	return err == nil && (w == -1 || h < w)
}
