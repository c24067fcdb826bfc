// Package idempotency makes the repeats of a task harmless.
//
// Kafka delivers at least once: a task comes again after a crash, a rebalance
// or a commit that failed. A [Store] remembers which tasks are done and who is
// running which, so that the worker can skip the first and wait for the second.
//
// # How data flows
//
// The worker asks before each start and tells after it:
//
//	claim, err := store.Claim(ctx, key, lease)
//	switch claim.State {
//	case idempotency.Done: // commit the offset, run nothing
//	case idempotency.Held: // come back at claim.Until, no attempt is spent
//	case idempotency.Granted:
//		err = handler(ctx, task) // renewing the lease while it runs
//		if err == nil {
//			err = store.Complete(ctx, key, claim.Token, ttl)
//		} else {
//			err = store.Release(ctx, key, claim.Token) // the next attempt may claim
//		}
//	}
//
// # Claim, work, then mark
//
// The classic error is to mark a task as done before the work is done, as
// with "insert the id, skip the task if it was there". A process that dies
// between mark and work loses the task for good: each redelivery finds the
// mark. So a claim is not a mark. It is a lease that ends by itself when its
// holder dies, and only Complete, after the work, lets later deliveries be
// skipped.
//
// # Tokens
//
// A lease can end while its holder still runs: a long pause of the process, a
// clock that jumps, a network that was cut. Another run is then granted the
// claim, and for a while both believe that they hold it. The store refuses the
// older one to renew, complete or release ([ErrLost]). To keep it from writing
// elsewhere, hand the claim's token to the system that is written to: tokens
// rise, so "refuse a token lower than the last one seen" fences the old run
// off.
//
// # What is promised
//
// At any instant at most one unexpired claim of a key. That makes runs rare
// exceptions rather than exactly one: a run that finished its work and died
// before Complete is repeated. A handler that must not have even that effect
// twice marks the key in the transaction of its own database.
//
// # Stores
//
// [Memory] is for one process: tests, development, and workers whose tasks
// may be repeated when a partition moves to another process, which knows
// nothing of this one's keys. Deduplication over processes needs a store that
// they share. Each implementation must pass package storetest.
package idempotency
