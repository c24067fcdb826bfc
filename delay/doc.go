// Package delay is the mover: it reads the delay tiers and republishes what is
// due.
//
//	mover, err := delay.New(domain)
//	...
//	err = mover.Run(ctx) // blocks until ctx ends
//
// Any number of movers may run for a domain; they share the partitions. The
// command "ax mover" is this and nothing else.
//
// # How data flows
//
// Far tiers and near tier have a client, a group and a loop each, so that a
// burst in one can't stall the other. A poll's records are decoded and queued
// by partition: a far tier's in the order of the log, since all of its records
// wait the same time and the head is always the first to leave; the near
// tier's in a heap by due time. One timer stands on the earliest of all; when
// it fires, the whole run that may leave is routed again (package router) and
// published. A source record is finished, and its offset may be committed,
// only when its successor is acknowledged: a mover that dies in between
// publishes a second copy and loses nothing.
//
// What is on its way to a topic is bounded for each topic, in number and bytes.
// Where one can't be written, its tasks are held back in the queues of their
// partitions, and all others go on; what definitely failed is published again
// with growing waits, for as long as the mover owns its partition.
//
// A partition whose queue is full while its head may not leave is paused, so a
// backlog of any length and delay costs the memory of one short queue. A record
// that is no task goes to the dead topic with the reason, and blocks nobody.
package delay
