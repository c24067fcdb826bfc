package idempotency

import (
	"context"
	"errors"
	"time"
)

// Store remembers which tasks are done and who is running which. All methods
// are safe for concurrent use, end with their context, and are atomic against
// each other. A lease or ttl that is not above zero is an error. [ErrLost] and
// [ErrFull] mean that nothing was changed; after another error of a store on a
// server, or of a context that ended while it was being asked, the outcome is
// unknown, and the lease bounds the harm. Each implementation must pass package
// storetest.
type Store interface {
	// Claim asks for the right to run the task of that key for the length of
	// lease. See [Claim] for the answers.
	Claim(ctx context.Context, key string, lease time.Duration) (Claim, error)
	// Renew makes the claim with this token last for lease from now on. It
	// returns [ErrLost] when the claim has ended or is no longer this
	// token's.
	Renew(ctx context.Context, key string, token int64, lease time.Duration) error
	// Complete marks the key as done for ttl, and ends the claim. It returns
	// [ErrLost], and changes nothing, when the claim has ended or is no
	// longer this token's.
	Complete(ctx context.Context, key string, token int64, ttl time.Duration) error
	// Release ends the claim without marking the key as done, so that the
	// next attempt can claim it at once. It returns [ErrLost], and changes
	// nothing, when the claim has ended or is no longer this token's.
	Release(ctx context.Context, key string, token int64) error
}

// State is the answer to a claim.
type State int

const (
	// Granted: the caller may run the task until Until, longer if it renews.
	Granted State = iota + 1
	// Done: the task was completed; the caller must not run it.
	Done
	// Held: another run holds the key until Until.
	Held
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Granted:
		return "granted"
	case Done:
		return "done"
	case Held:
		return "held"
	default:
		return "unknown"
	}
}

// Claim is the answer of a store.
type Claim struct {
	State State
	// Token rises with each claim of one key that is granted, also after a
	// release, an expiry or the end of a done mark: a system that refuses a
	// lower token than it has seen is safe from a run that lost its lease.
	// Above zero when granted, else zero.
	Token int64
	// Until is when the lease ends, by the store's clock: at that instant it
	// has ended. Zero when done.
	Until time.Time
}

var (
	// ErrLost: the claim ended, or another one was granted since.
	ErrLost = errors.New("idempotency: the claim is lost")
	// ErrFull: the store holds as many keys as it may, all of them claimed or
	// done and unexpired. Nothing was claimed. The caller must not run the
	// task without a claim; it asks again later.
	ErrFull = errors.New("idempotency: the store is full")
)
