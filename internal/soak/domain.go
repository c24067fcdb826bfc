package main

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/axtasks/ax"
)

// The kinds, by what their handlers do.
const (
	kindQuick     = "quick"     // returns at once
	kindSlow      = "slow"      // takes 200 ms
	kindOnce      = "once"      // fails at its first attempt
	kindFailing   = "failing"   // fails at every attempt, of which it has three
	kindSnooze    = "snooze"    // snoozes once
	kindPermanent = "permanent" // fails for good
	kindCancel    = "cancel"    // is cancelled
	kindKeyed     = "keyed"     // in the ordered lane; one in ten fails at its first attempt
)

const (
	keyedLane = "keyed"
	// One for each worker that a crowd can have.
	crowdPartitions = 6
	slowFor         = 200 * time.Millisecond
	keyedFor        = 10 * time.Millisecond
	retryWait       = time.Second
	snoozeFor       = time.Second
	keys            = 40
	failAttempts    = 3
	otherAttempts   = 5
	commitEvery     = 200 * time.Millisecond
	roleGrace       = 10 * time.Second
)

// newDomain returns a domain of its own for one soak.
func newDomain(cfg config) ax.Domain {
	var b [4]byte
	_, _ = rand.Read(b[:])
	d := ax.Domain{
		Name:  "soak-" + hex.EncodeToString(b[:]),
		Kafka: ax.Kafka{Brokers: cfg.brokers, GroupProtocol: cfg.protocol},
		Lanes: []ax.Lane{
			{Name: "critical", Weight: 8, Partitions: 3, Reserve: 1},
			{Name: "high", Weight: 4, Partitions: 3},
			{Name: "normal", Weight: 2, Partitions: 3},
			{Name: "low", Weight: 1, Partitions: 3},
			{Name: keyedLane, Weight: 2, Partitions: 3, Order: ax.OrderKey},
		},
		Kinds: map[string]ax.Kind{
			kindFailing: {Attempts: failAttempts, Backoff: ax.Backoff{Delays: []time.Duration{500 * time.Millisecond}}},
			kindKeyed:   {Lane: keyedLane, Attempts: otherAttempts},
		},
		Delay: ax.Delay{
			Tiers: []time.Duration{2 * time.Second, 7 * time.Second}, Partitions: 3,
			Window: 500 * time.Millisecond, NearPartitions: 3, Rate: 2000,
		},
		Trim: ax.Trim{Every: 10 * time.Second},
	}
	if scenarios[cfg.scenario].crowd != nil {
		for i := range d.Lanes {
			d.Lanes[i].Partitions = crowdPartitions
		}
	}
	for _, k := range []string{kindQuick, kindSlow, kindOnce, kindSnooze, kindPermanent, kindCancel} {
		d.Kinds[k] = ax.Kind{Attempts: otherAttempts}
	}
	if s := scenarios[cfg.scenario]; s.nearBuffer > 0 {
		// So small that partitions of the near tier are paused all the time.
		d.Delay.Buffer, d.Delay.Rate = s.nearBuffer, s.nearBuffer
	}
	return d
}
