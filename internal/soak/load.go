package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/checker"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/producer"
)

// The load's kinds, with how many of a hundred tasks are of each.
var mix = []struct {
	kind string
	part int
}{
	{kindQuick, 50}, {kindSlow, 12}, {kindOnce, 8}, {kindFailing, 4}, {kindSnooze, 6}, {kindPermanent, 3}, {kindCancel, 3}, {kindKeyed, 14},
}

var plainLanes = []string{"critical", "high", "normal", "low"}

// producer submits tasks at its rate until ctx ends, and then waits for the
// answers.
func (r *role) producer(ctx context.Context, facts *checker.Writer, log *slog.Logger) error {
	c, err := producer.New(r.Domain, producer.WithLogger(log), producer.WithKafka(r.kafka()...))
	if err != nil {
		return err
	}
	dice := rand.New(rand.NewPCG(r.Seed, uint64(len(r.Proc))))
	const tick = 10 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	began, n := time.Now(), 0
	for ctx.Err() == nil {
		// After a pause, such as a freeze, only a second of it is made up for.
		target := int(time.Since(began).Seconds() * float64(r.Rate))
		if target-n > r.Rate {
			n = target - r.Rate
		}
		for ; n < target && ctx.Err() == nil; n++ {
			r.submit(ctx, c, facts, dice, n)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 40*time.Second)
	defer cancel()
	if err := c.Close(within); err != nil {
		return fmt.Errorf("close the producer: %w", err)
	}
	return nil
}

func (r *role) submit(ctx context.Context, c *producer.Client, facts *checker.Writer, dice *rand.Rand, n int) {
	t := r.task(dice, n)
	limit := r.Domain.Kind(t.Kind).Attempts
	facts.Write(checker.Fact{
		Type: checker.Offered, ID: t.ID, Kind: t.Kind, Lane: t.Lane, Key: t.Key, Due: nanos(t.Due), Limit: limit,
	})
	// A submit that is under way goes on when the process is told to stop.
	c.SubmitAsync(context.WithoutCancel(ctx), t, func(got ax.Receipt, err error) {
		if err != nil {
			// Refused or unknown: nothing was promised.
			if !errors.Is(err, ax.ErrUnknownOutcome) && !errors.Is(err, context.DeadlineExceeded) {
				slog.Warn("submit failed", "task", t.ID, "error", err)
			}
			return
		}
		facts.Write(checker.Fact{Type: checker.Submitted, ID: got.ID, Topic: got.Topic, Partition: got.Partition, Offset: got.Offset})
	})
}

// task returns the n-th task of this process.
func (r *role) task(dice *rand.Rand, n int) ax.Task {
	t := ax.Task{ID: fmt.Sprintf("%s-%d", r.Proc, n), Payload: []byte("x")}
	if r.Saturate {
		t.Kind, t.Lane = kindSlow, plainLanes[n%len(plainLanes)]
		return t
	}
	at := dice.IntN(100)
	for _, m := range mix {
		if at -= m.part; at < 0 {
			t.Kind = m.kind
			break
		}
	}
	if t.Kind == kindKeyed {
		t.Lane, t.Key = keyedLane, fmt.Sprintf("key-%d", dice.IntN(keys))
		if dice.IntN(10) == 0 {
			t.Payload = []byte("fail once")
		}
		return t
	}
	t.Lane = plainLanes[dice.IntN(len(plainLanes))]
	if dice.IntN(3) > 0 && r.MaxDelay > 0 {
		t.Due = clock.Now().Add(time.Duration(dice.Int64N(int64(r.MaxDelay))))
	}
	return t
}
