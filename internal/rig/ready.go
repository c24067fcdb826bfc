package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	readyTopic = "rig-ready"
	readyPoll  = 30 * time.Millisecond
	// One request of a check; a broker that is starting may accept a
	// connection and not answer.
	readyRequestTimeout = 2 * time.Second
)

// readiness is a cluster whose use is being waited for.
type readiness struct {
	addrs []string // one of each broker
	alive func() error
	// secure, if not nil, adds a login at each SECURE listener to the checks.
	secure []kgo.Opt
}

// waitReady returns once the cluster can be used: each broker, asked by itself,
// knows all of them, a topic with a copy on each has taken a record from all its
// replicas, and a user can log in. An open port promises none of this.
func waitReady(ctx context.Context, timeout time.Duration, r readiness) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("the cluster was not usable within %s", timeout))
	defer cancel()
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(r.addrs...),
		kgo.DefaultProduceTopic(readyTopic),
		// Else a leader that is not elected yet costs 5 s.
		kgo.MetadataMinAge(50*time.Millisecond),
	)
	if err != nil {
		return fmt.Errorf("client of the new cluster: %w", err)
	}
	defer cl.Close()
	for i, b := range cl.SeedBrokers() { // in the order of addrs
		if err := r.poll(ctx, func(ctx context.Context) error { return r.knowsAll(ctx, b) }); err != nil {
			return fmt.Errorf("wait for broker %s: %w", r.addrs[i], err)
		}
	}
	if err := r.takesRecord(ctx, cl); err != nil {
		return err
	}
	if r.secure == nil {
		return nil
	}
	return r.takesLogin(ctx)
}

// knowsAll asks one broker which brokers are alive: KRaft lists only those that
// take part. kadm.BrokerMetadata would not do. A request for no topics at all
// is answered from the client's cache, so its first answer would come for ever.
func (r readiness) knowsAll(ctx context.Context, b *kgo.Broker) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would mean all
	resp, err := req.RequestWith(ctx, b)
	if err != nil {
		return err
	}
	if got, want := len(resp.Brokers), len(r.addrs); got != want {
		return fmt.Errorf("it knows %d of %d brokers", got, want)
	}
	return nil
}

// takesRecord creates a topic, produces to it and deletes it.
func (r readiness) takesRecord(ctx context.Context, cl *kgo.Client) error {
	adm := kadm.NewClient(cl)
	err := r.poll(ctx, func(ctx context.Context) error {
		_, err := adm.CreateTopic(ctx, 1, int16(len(r.addrs)), nil, readyTopic)
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return nil // by an earlier attempt whose answer came too late
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("create topic %s: %w", readyTopic, err)
	}
	// kgo retries this by itself for as long as ctx allows. A broker that dies
	// meanwhile is noticed by the poll around it.
	produced := make(chan error, 1)
	cl.Produce(ctx, kgo.StringRecord("ready"), func(_ *kgo.Record, err error) { produced <- err })
	err = r.poll(ctx, func(ctx context.Context) error {
		select {
		case err := <-produced:
			produced <- err
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err == nil {
		err = <-produced
	}
	if err != nil {
		return fmt.Errorf("produce to topic %s: %w", readyTopic, err)
	}
	if _, err := adm.DeleteTopic(ctx, readyTopic); err != nil {
		return fmt.Errorf("delete topic %s: %w", readyTopic, err)
	}
	return nil
}

// takesLogin logs in at each SECURE listener.
func (r readiness) takesLogin(ctx context.Context) error {
	cl, err := kgo.NewClient(r.secure...)
	if err != nil {
		return fmt.Errorf("client of the SECURE listeners: %w", err)
	}
	defer cl.Close()
	for _, b := range cl.SeedBrokers() {
		if err := r.poll(ctx, func(ctx context.Context) error { return r.knowsAll(ctx, b) }); err != nil {
			return fmt.Errorf("log in at a SECURE listener: %w", err)
		}
	}
	return nil
}

// poll repeats check until it succeeds. It gives up when ctx is done or the
// cluster is not alive any more.
func (r readiness) poll(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, readyRequestTimeout)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if dead := r.alive(); dead != nil {
			return dead
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), err)
		}
	}
}
