// Package producer submits tasks: this is what an upstream service imports.
//
//	client, err := producer.New(domain)
//	...
//	receipt, err := client.Submit(ctx, ax.Task{Kind: "order.close", Payload: body},
//		producer.After(30*time.Minute), producer.Key(order.ID))
//
// # Guarantees
//
// A receipt says that Kafka holds the task as durably as the domain asks. A
// task that can't be accepted is refused with a typed error before anything is
// sent. When the wait ends after a broker was given the task and before it
// answered, the error matches ax.ErrUnknownOutcome: submit again under the same
// ID, which a worker with a shared store makes harmless.
//
// # How data flows
//
// Submit completes the task from the domain and checks it, asks package router
// for the topic, encodes the record and hands it to the Kafka client, which
// batches what is submitted at the same time. Nothing runs in the background
// but that client, and it starts with the first submit's connection.
package producer
