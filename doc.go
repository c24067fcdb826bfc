// Package ax runs background tasks on Apache Kafka: some at once, some at an
// exact later time, the urgent before the ordinary, and none starved or lost.
//
// # Words
//
// A [Domain] is one business area with its own topics, consumer groups and
// worker binary. A [Task] is one unit of work of a kind, such as
// "order.close". A [Lane] is a priority topic with a weight. A tier is a delay
// topic in which every record waits the same time. A mover reads the tiers and
// republishes what is due; a worker pulls from the lanes and runs handlers.
//
// # Who calls what
//
// An upstream service submits with package producer:
//
//	client, err := producer.New(domain)
//	receipt, err := client.Submit(ctx, ax.Task{Kind: "order.close", Payload: body},
//		producer.After(30*time.Minute))
//
// A domain team ships a worker with package consumer:
//
//	mux := consumer.NewMux()
//	mux.HandleFunc("order.close", func(ctx context.Context, t *ax.Task) error {
//		return orders.CloseUnpaid(ctx, string(t.Payload))
//	})
//	worker, err := consumer.New(domain, mux)
//	err = worker.Run(ctx) // blocks until ctx ends, then drains
//
// A mover, package delay or the command "ax mover", runs beside it. Topics are
// provisioned from the same domain by package router or "ax topics apply".
// Package spec reads a domain from a YAML file.
//
// # What a handler returns
//
// nil is done. An error is an attempt that failed: the task comes back after
// its kind's back-off until its attempts are spent, then it ends in the dead
// topic. [RetryAfter], [Permanent], [Snooze] and [Cancel] make errors that ask
// for something else.
//
// # How data flows through this package
//
// It holds what the others share and talks to nobody: [Task] with its record
// format ([Encode], [Decode]), [Domain] with its one [Domain.Validate], and
// the errors that callers branch on.
package ax
