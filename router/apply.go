package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/kafka"
)

// Provision makes the domain's topics, or brings them to what it says: a plan
// and its Apply in one call, for tests, examples and start-up code that is
// allowed to. It waits for at most a minute.
func Provision(ctx context.Context, d ax.Domain, opts ...kgo.Opt) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := New(d)
	if err != nil {
		return err
	}
	kopts, watch, err := kafka.Options(r.Domain(), "admin", nil)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(kopts, opts...)...)
	if err != nil {
		return fmt.Errorf("ax: provision domain %s: %w", d.Name, err)
	}
	defer cl.Close()
	if err := kafka.Ping(ctx, cl, watch, 10*time.Second); err != nil {
		return fmt.Errorf("ax: provision domain %s: %w", d.Name, err)
	}
	adm := kadm.NewClient(cl)
	plan, err := r.Plan(ctx, adm)
	if err != nil {
		return err
	}
	return plan.Apply(ctx, adm)
}

// Apply makes the changes of the plan but for the refused ones, waits until
// every partition has a leader, and returns a [*DriftError] if differences are
// left. It is idempotent: applied twice, by two processes at once, or after
// stopping half-way, it ends in the same state.
func (p *Plan) Apply(ctx context.Context, adm *kadm.Client) error {
	for _, c := range p.Changes {
		if err := p.apply(ctx, adm, c); err != nil {
			return fmt.Errorf("ax: apply domain %s: %s: %w", p.r.domain.Name, c, err)
		}
	}
	if err := p.r.waitLeaders(ctx, adm); err != nil {
		return fmt.Errorf("ax: apply domain %s: %w", p.r.domain.Name, err)
	}
	return p.r.settled(ctx, adm)
}

// settled checks the cluster until it matches the domain, or only what is
// refused is left. "Exists already" was taken as success while applying;
// whether what exists has the right shape shows only now. And each broker
// learns of a change by itself, so that the next one asked may not know yet.
func (r *Router) settled(ctx context.Context, adm *kadm.Client) error {
	// Not a limit of the checks themselves: a check that it cut short would
	// hide what is wrong behind "deadline exceeded".
	patience := time.NewTimer(15 * time.Second)
	defer patience.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := r.Check(ctx, adm)
		var drift *DriftError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &drift):
			if !slices.ContainsFunc(drift.Changes, func(c Change) bool { return c.Action != Refuse }) {
				return err
			}
		case !errors.Is(err, kerr.UnknownTopicOrPartition):
			return err
		}
		select {
		case <-tick.C:
		case <-patience.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

func (p *Plan) apply(ctx context.Context, adm *kadm.Client, c Change) error {
	spec := p.specs[c.Topic]
	switch c.Action {
	case Create:
		config := map[string]*string{}
		for k, v := range spec.config {
			config[k] = kadm.StringPtr(v)
		}
		resp, err := adm.CreateTopic(ctx, int32(spec.partitions), int16(p.r.domain.Replication), config, c.Topic)
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return nil
		}
		if err != nil && resp.ErrMessage != "" {
			return fmt.Errorf("%w: %s", err, resp.ErrMessage)
		}
		return err
	case Grow:
		rs, err := adm.UpdatePartitions(ctx, spec.partitions, c.Topic)
		if err != nil {
			return err
		}
		if err = rs.Error(); errors.Is(err, kerr.InvalidPartitions) {
			return nil // somebody else grew it; Check tells whether it is right
		}
		return err
	case Set:
		rs, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: c.What, Value: kadm.StringPtr(c.To)}}, c.Topic)
		if err != nil {
			return err
		}
		for _, r := range rs {
			if r.Err != nil {
				return fmt.Errorf("%w: %s", r.Err, r.ErrMessage)
			}
		}
	}
	return nil
}

// waitLeaders returns when each partition of the domain's topics has a leader,
// as each broker knows: a topic just created is unknown for a moment, to one
// broker longer than to another, and a producer that comes too soon would fail.
func (r *Router) waitLeaders(ctx context.Context, adm *kadm.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	brokers, err := adm.ListBrokers(ctx)
	if err != nil {
		return fmt.Errorf("list brokers: %w", err)
	}
	// Asked for this, the client doesn't answer from its memory. It asks one
	// broker after the other, and a seed after each round.
	ctx = kadm.WithAuthorizedOps(ctx)
	rounds := 2 * (len(brokers) + 1)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for good := 0; good < rounds; {
		missing, err := r.leaderless(ctx, adm)
		if err == nil && missing == "" {
			good++
			continue
		}
		good = 0
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for a leader of %s: %w", missing, errors.Join(context.Cause(ctx), err))
		}
	}
	return nil
}

// leaderless returns a topic, or partition of one, that has no leader yet.
func (r *Router) leaderless(ctx context.Context, adm *kadm.Client) (string, error) {
	topics := r.Topics()
	details, err := adm.ListTopics(ctx, topics...)
	if err != nil {
		return topics[0], err
	}
	for _, topic := range topics {
		d, ok := details[topic]
		if !ok || d.Err != nil || len(d.Partitions) == 0 {
			return topic, d.Err
		}
		for _, part := range d.Partitions {
			if part.Leader < 0 {
				return fmt.Sprintf("%s/%d", topic, part.Partition), part.Err
			}
		}
	}
	return "", nil
}
