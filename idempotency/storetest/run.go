package storetest

import (
	"context"
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/idempotency"
)

// Options adapt the suite to a store.
type Options struct {
	// Bubble runs each test in a synctest bubble, where hours pass at once.
	// It is for stores that do no I/O and read the time of package time.
	Bubble bool
	// Advance lets d pass for the store. Nil: time.Sleep, which in a bubble
	// costs nothing; outside of one, leases are short then. A store whose
	// server has a clock that can be set sets it here.
	Advance func(d time.Duration)
	// Lease is the unit of all leases. Zero: a minute with Bubble or Advance,
	// else a second. A claim must be usable for that
	// long after it is granted, whatever the store and the machine are busy
	// with.
	Lease time.Duration
}

// Run runs the suite against the stores that newStore returns, in parallel
// subtests.
func Run(t *testing.T, newStore func(t *testing.T) idempotency.Store, opts Options) {
	t.Helper()
	virtual := opts.Bubble || opts.Advance != nil
	if opts.Lease == 0 {
		opts.Lease = time.Second
		if virtual {
			opts.Lease = time.Minute
		}
	}
	if opts.Advance == nil {
		opts.Advance = time.Sleep
	}
	for _, test := range []struct {
		name string
		run  func(*bench)
	}{
		{"a claim is granted until its lease ends", granted},
		{"of 64 concurrent claims one is granted", concurrent},
		{"a claimed key is held for others until the lease ends", held},
		{"a lease that passes frees the key", expiry},
		{"a lease ends at its very instant", instants},
		{"renewing makes the claim last from now on", renew},
		{"a lease that ended can't be used", ended},
		{"an old token is lost and changes nothing", oldToken},
		{"a token that was never given is lost", foreignToken},
		{"a release frees the key at once", release},
		{"a completed key is done until its ttl ends", complete},
		{"a completed claim can't be used", completed},
		{"a failed attempt lets the redelivery run", redelivery},
		{"keys are independent", independent},
		{"keys may hold any text", anyKey},
		{"an ended context returns its error and changes nothing", cancelled},
		{"a lease or ttl of nothing is refused", nothing},
		{"tokens rise over every way that a claim ends", tokens},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			body := func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				test.run(&bench{TB: t, ctx: ctx, store: newStore(t), opts: opts, key: "storetest-" + rand.Text()})
			}
			if opts.Bubble {
				synctest.Test(t, body)
			} else {
				body(t)
			}
		})
	}
	t.Run("it behaves as a simple model does", func(t *testing.T) {
		t.Parallel()
		model(t, newStore, opts, virtual)
	})
}

// bench is what each test gets: a store, and a key that nobody else uses.
type bench struct {
	testing.TB
	ctx   context.Context
	store idempotency.Store
	opts  Options
	key   string
}

func (b *bench) claim(key string, leases float64) idempotency.Claim {
	b.Helper()
	c, err := b.store.Claim(b.ctx, key, b.time(leases))
	require.NoError(b, err)
	return c
}

// grant claims and requires that it is granted.
func (b *bench) grant(leases float64) idempotency.Claim {
	b.Helper()
	c := b.claim(b.key, leases)
	require.Equal(b, idempotency.Granted, c.State)
	require.Positive(b, c.Token)
	return c
}

// state requires that a claim of the key is not granted, and why.
func (b *bench) state(want idempotency.State) {
	b.Helper()
	c := b.claim(b.key, 1)
	require.Equal(b, want, c.State)
	require.Zero(b, c.Token, "a token without a claim")
}

func (b *bench) time(leases float64) time.Duration {
	return time.Duration(leases * float64(b.opts.Lease))
}

func (b *bench) advance(leases float64) { b.opts.Advance(b.time(leases)) }

// near requires that at is d from now. Outside a bubble the store's clock may
// be another machine's, and the answer took its time.
func (b *bench) near(at time.Time, leases float64) {
	b.Helper()
	if b.opts.Bubble {
		require.True(b, at.Equal(time.Now().Add(b.time(leases))), "until %s", at)
		return
	}
	require.False(b, at.IsZero(), "no end of the lease")
}

func (b *bench) lost(err error) {
	b.Helper()
	require.ErrorIs(b, err, idempotency.ErrLost)
}
