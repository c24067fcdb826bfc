// Package storetest holds the conformance suite for implementations of
// [idempotency.Store]. A store of your own passes if this test does:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) idempotency.Store {
//			return newStore(t) // on a server; empty or not
//		}, storetest.Options{})
//	}
//
// A store in memory runs in virtual time instead, with Options{Bubble: true}.
//
// The suite uses keys of its own for each test, so stores that share one
// server don't disturb each other.
package storetest
