// Package consumer is the worker: it pulls tasks from a domain's lanes and runs
// handlers.
//
//	mux := consumer.NewMux()
//	mux.HandleFunc("order.close", closeOrder)
//	mux.Handle("receipt.send", consumer.JSON(sendReceipt))
//	worker, err := consumer.New(domain, mux, consumer.WithSlots(64))
//	...
//	err = worker.Run(ctx) // blocks until ctx ends, then drains
//
// Handlers have the shape of net/http's: a [Handler] gets a context and a task
// and returns an error, a [Middleware] wraps a Handler, a [Mux] chooses by
// kind. What the error asks for is said in the root package: nil is done, any
// other is an attempt that failed, unless it comes from ax.Permanent,
// ax.RetryAfter, ax.Snooze or ax.Cancel.
//
// A task runs at least once. It runs again when a worker is killed between its
// end and the commit, or when its partition moves while it runs; a store
// (package idempotency) makes the repeats harmless.
//
// # How data flows
//
// Each lane has a Kafka client and a consumer group of its own, since a client
// that shares its fetches would let a backlog of one lane delay another. A
// poll's records are decoded and queued in memory, bounded in number and
// bytes; a lane whose buffer is full is not polled. What is not due yet is held
// in a heap aside (the gate), until the instant.
//
// A fixed number of slots, one goroutine each, take the next task from the
// scheduler: between lanes by weight, measured in time used; within a lane the
// task that waits longest. The slot runs the task through the pipeline: due?
// expired? handler known? breaker closed? claim, handler, settle.
//
// Settling writes what follows (a retry, a deferral, a dead record, follow-up
// tasks) and marks the source record as finished when that is acknowledged. The
// lowest unfinished offset of each partition is committed.
//
// # Where to start reading
//
// lifetime.go is the worker's life; intake.go, gate.go, schedule.go, pipeline.go
// and settle.go are the way of a task through it; part.go is what is held of one
// partition, suspect.go what happens to a task that may have killed its process.
package consumer
