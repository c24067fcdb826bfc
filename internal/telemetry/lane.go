package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Lane is what a worker knows of its part of one lane.
type Lane struct {
	Name     string
	Weight   int
	Running  int     // slots that it holds
	Used     float64 // slot seconds that it was given
	Buffered int     // tasks that may start
	Held     int     // tasks that may not yet
	// Starts counts starts by the scheduler's rule.
	Starts map[string]uint64
}

// Worker is what a worker knows of itself.
type Worker struct {
	Slots int
	Lanes []Lane
}

// WatchWorker lets each collection of metrics read what a worker does, until
// stop is called. read must not block. What a lane is granted against its weight
// is the rate of ax.lane.slot.time beside that of the others.
func (t *Telemetry) WatchWorker(read func() Worker) (stop func() error, err error) {
	m := t.meter
	gauge := func(name, unit, desc string) (g metric.Int64ObservableGauge) {
		if err == nil {
			g, err = m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(desc))
		}
		return g
	}
	slots := gauge("ax.worker.slots", "{slot}", "Tasks that the worker runs at once at most.")
	weight := gauge("ax.lane.weight", "1", "The lane's share of slot time, relative to the other lanes.")
	running := gauge("ax.lane.running", "{slot}", "Slots that the lane holds.")
	buffered := gauge("ax.lane.buffered", "{task}", "Tasks of the lane in the worker's memory that may start.")
	held := gauge("ax.lane.held", "{task}", "Tasks of the lane in the worker's memory that are not due yet, or wait in place.")
	var used metric.Float64ObservableCounter
	var starts metric.Int64ObservableCounter
	if err == nil {
		used, err = m.Float64ObservableCounter("ax.lane.slot.time", metric.WithUnit("s"), metric.WithDescription("Slot time that the lane was given."))
	}
	if err == nil {
		starts, err = m.Int64ObservableCounter("ax.lane.starts", metric.WithUnit("{task}"), metric.WithDescription("Starts of the lane's tasks, by the rule that chose the lane."))
	}
	if err != nil {
		return nil, fmt.Errorf("ax: telemetry: %w", err)
	}
	watch, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := read()
		o.ObserveInt64(slots, int64(now.Slots))
		for _, l := range now.Lanes {
			lane := attribute.String("ax.task.lane", l.Name)
			set := metric.WithAttributeSet(attribute.NewSet(lane))
			o.ObserveInt64(weight, int64(l.Weight), set)
			o.ObserveInt64(running, int64(l.Running), set)
			o.ObserveInt64(buffered, int64(l.Buffered), set)
			o.ObserveInt64(held, int64(l.Held), set)
			o.ObserveFloat64(used, l.Used, set)
			for rule, n := range l.Starts {
				o.ObserveInt64(starts, int64(n), metric.WithAttributes(lane, attribute.String("ax.rule", rule)))
			}
		}
		return nil
	}, slots, weight, running, buffered, held, used, starts)
	if err != nil {
		return nil, fmt.Errorf("ax: telemetry: %w", err)
	}
	return watch.Unregister, nil
}
