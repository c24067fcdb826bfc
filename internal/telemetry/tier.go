package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Tier is what a mover knows of its part of one tier.
type Tier struct {
	Topic string
	Depth int64         // records that have not left it
	Next  time.Duration // until the next one leaves, negative when overdue
	Any   bool          // Next is known
	Moved int64         // records that left it
	// Paused counts the partitions that are not read, by reason.
	Paused map[string]int
	Clock  time.Duration // of the broker, ahead of ours
	Timed  bool          // Clock was measured
}

// Mover is what a mover knows of itself.
type Mover struct {
	Tiers []Tier
	// Endangered counts the settings of topics that would lose tasks.
	Endangered int
}

// WatchMover lets each collection of metrics read what a mover does, until stop
// is called. read must not block.
func (t *Telemetry) WatchMover(read func() Mover) (stop func() error, err error) {
	m := t.meter
	integer := func(name, unit, desc string) (g metric.Int64ObservableGauge) {
		if err == nil {
			g, err = m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(desc))
		}
		return g
	}
	float := func(name, desc string) (g metric.Float64ObservableGauge) {
		if err == nil {
			g, err = m.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(desc))
		}
		return g
	}
	depth := integer("ax.tier.depth", "{record}", "Records of a tier that have not left it, of the partitions that this mover owns.")
	next := float("ax.tier.next", "Time until the next record leaves the tier; negative when it is overdue.")
	paused := integer("ax.tier.paused", "{partition}", "Partitions of a tier that are not read now, by reason.")
	clock := float("ax.tier.clock.ahead", "How far the clock of the tier's broker is ahead of the mover's.")
	endangered := integer("ax.topic.endangered", "{setting}", "Settings of topics that would lose tasks.")
	var moved metric.Int64ObservableCounter
	if err == nil {
		moved, err = m.Int64ObservableCounter("ax.tier.moved", metric.WithUnit("{record}"), metric.WithDescription("Records that left a tier."))
	}
	if err != nil {
		return nil, fmt.Errorf("ax: telemetry: %w", err)
	}
	watch, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := read()
		o.ObserveInt64(endangered, int64(now.Endangered))
		for _, tier := range now.Tiers {
			topic := semconv.MessagingDestinationName(tier.Topic)
			set := metric.WithAttributeSet(attribute.NewSet(topic))
			o.ObserveInt64(depth, tier.Depth, set)
			o.ObserveInt64(moved, tier.Moved, set)
			if tier.Any {
				o.ObserveFloat64(next, tier.Next.Seconds(), set)
			}
			if tier.Timed {
				o.ObserveFloat64(clock, tier.Clock.Seconds(), set)
			}
			for why, n := range tier.Paused {
				o.ObserveInt64(paused, int64(n), metric.WithAttributes(topic, attribute.String("ax.reason", why)))
			}
		}
		return nil
	}, depth, next, paused, clock, endangered, moved)
	if err != nil {
		return nil, fmt.Errorf("ax: telemetry: %w", err)
	}
	return watch.Unregister, nil
}
