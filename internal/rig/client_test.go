package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// clientMain is the command that the integration tests run under a rig: it
// knows its cluster from the environment only, like any user's test.
func clientMain(roles []string) error {
	all := map[string]func(context.Context) error{
		"plaintext": func(ctx context.Context) error { return roundTrip(ctx, openOptions()...) },
		"scram":     func(ctx context.Context) error { return secureRoundTrip(ctx, scramLogin) },
		"plain":     func(ctx context.Context) error { return secureRoundTrip(ctx, plainLogin) },
		"wrong":     wrongPasswords,
		"acl":       refusedByACL,
		"freeze":    freezeOneBroker,
		"orders":    obeyOrders,
		"disk":      fillOneDisk,
		"full":      fillNode1,
		"outage":    killAll,
	}
	for _, role := range roles {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := all[role](ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", role, err)
		}
		fmt.Println("ok", role)
	}
	return nil
}

func openOptions() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(seeds(os.Getenv("AX_KAFKA"))...)}
}

func secureOptions(login sasl.Mechanism) ([]kgo.Opt, error) {
	return secureClient(seeds(os.Getenv("AX_KAFKA_SECURE")), os.Getenv("AX_KAFKA_SECURE_CA"), login)
}

func secureRoundTrip(ctx context.Context, login func(user, password string) sasl.Mechanism) error {
	for _, prefix := range []string{"AX_KAFKA_SECURE_", "AX_KAFKA_SECURE_ADMIN_"} {
		opts, err := secureOptions(login(os.Getenv(prefix+"USER"), os.Getenv(prefix+"PASSWORD")))
		if err != nil {
			return err
		}
		if err := roundTrip(ctx, opts...); err != nil {
			return fmt.Errorf("%sUSER: %w", prefix, err)
		}
	}
	return nil
}

// roundTrip creates a topic, produces to it and reads the record back as a
// member of a group.
func roundTrip(ctx context.Context, opts ...kgo.Opt) error {
	topic := "t-" + rand.Text()
	cl, err := kgo.NewClient(append(opts,
		kgo.ConsumeTopics(topic), kgo.ConsumerGroup("g-"+topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, -1, nil, topic); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	for {
		fs := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		for _, r := range fs.Records() {
			if string(r.Value) == "v" {
				return nil
			}
		}
	}
}

func wrongPasswords(ctx context.Context) error {
	for _, login := range []sasl.Mechanism{
		scramLogin(os.Getenv("AX_KAFKA_SECURE_USER"), "wrong"),
		plainLogin(os.Getenv("AX_KAFKA_SECURE_USER"), "wrong"),
	} {
		opts, err := secureOptions(login)
		if err != nil {
			return err
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			return err
		}
		err = cl.Ping(ctx)
		cl.Close()
		if !errors.Is(err, kerr.SaslAuthenticationFailed) {
			return fmt.Errorf("%s: ping says %v", login.Name(), err)
		}
	}
	return nil
}

// refusedByACL expects that the ordinary user may do nothing, and the others
// everything.
func refusedByACL(ctx context.Context) error {
	opts, err := secureOptions(scramLogin(os.Getenv("AX_KAFKA_SECURE_USER"), os.Getenv("AX_KAFKA_SECURE_PASSWORD")))
	if err != nil {
		return err
	}
	if err := roundTrip(ctx, opts...); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return fmt.Errorf("the ordinary user got %v", err)
	}
	opts, err = secureOptions(scramLogin(os.Getenv("AX_KAFKA_SECURE_ADMIN_USER"), os.Getenv("AX_KAFKA_SECURE_ADMIN_PASSWORD")))
	if err != nil {
		return err
	}
	return errors.Join(roundTrip(ctx, opts...), roundTrip(ctx, openOptions()...))
}

// freezeOneBroker stops one broker by its process id and expects the other two
// to take records that all replicas in sync must have. The topic is there
// before: where the frozen broker is also the active controller, a request to
// create one fails after half a minute instead of being retried elsewhere.
func freezeOneBroker(ctx context.Context) error {
	pids := strings.Split(os.Getenv("AX_KAFKA_PIDS"), ",")
	if len(pids) != 3 {
		return fmt.Errorf("AX_KAFKA_PIDS names %d brokers: %v", len(pids), pids)
	}
	pid, err := strconv.Atoi(pids[2])
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(openOptions(), kgo.DefaultProduceTopic("freeze"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50*time.Millisecond),
		kgo.UnknownTopicRetries(-1), // a broker may not have heard of the new topic
		kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(2*time.Second))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 3, 3, nil, "freeze"); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	var records []*kgo.Record
	for p := range int32(3) { // each broker leads one, the frozen one as well
		records = append(records, &kgo.Record{Partition: p, Value: []byte("v")})
	}
	produced := cl.ProduceSync(ctx, records...).FirstErr()
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		return err
	}
	if produced != nil {
		return fmt.Errorf("produce with a frozen broker: %w", produced)
	}
	return nil
}
