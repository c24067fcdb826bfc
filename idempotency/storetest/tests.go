package storetest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/idempotency"
)

// long is a lease, or a ttl, that does not end within a test, also where the
// machine is so busy that the test stands still for seconds.
const long = 100

func granted(b *bench) {
	c := b.grant(2)
	b.near(c.Until, 2)
}

func concurrent(b *bench) {
	const claimers = 64
	var got [claimers]idempotency.Claim
	var errs [claimers]error
	var wg sync.WaitGroup
	var ready sync.WaitGroup
	ready.Add(claimers)
	for i := range claimers {
		wg.Go(func() {
			ready.Done()
			ready.Wait()
			got[i], errs[i] = b.store.Claim(b.ctx, b.key, b.time(100))
		})
	}
	wg.Wait()
	var winner idempotency.Claim
	var grants int
	for i := range claimers {
		require.NoError(b, errs[i])
		if got[i].State == idempotency.Granted {
			grants++
			winner = got[i]
		} else {
			require.Equal(b, idempotency.Held, got[i].State)
		}
	}
	require.Equal(b, 1, grants)

	// And of as many who complete it, one succeeds.
	var completed atomic.Int32
	for range claimers {
		wg.Go(func() {
			if b.store.Complete(b.ctx, b.key, winner.Token, b.time(100)) == nil {
				completed.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(b, 1, completed.Load())
}

func held(b *bench) {
	c := b.grant(long)
	b.advance(1)
	again := b.claim(b.key, 2*long)
	require.Equal(b, idempotency.Held, again.State)
	require.Zero(b, again.Token)
	require.True(b, again.Until.Equal(c.Until), "held until %s, granted until %s", again.Until, c.Until)
}

func expiry(b *bench) {
	first := b.grant(1)
	b.advance(1.2)
	second := b.grant(long)
	require.Greater(b, second.Token, first.Token)
	b.state(idempotency.Held)
}

// instants is about the very instant, which only virtual time can hit.
func instants(b *bench) {
	if !b.opts.Bubble {
		b.Skip("needs a bubble")
	}
	c := b.grant(1)
	b.opts.Advance(b.time(1) - 1)
	b.state(idempotency.Held)
	require.NoError(b, b.store.Renew(b.ctx, b.key, c.Token, b.time(1)), "a nanosecond is left")
	b.advance(1)
	b.lost(b.store.Renew(b.ctx, b.key, c.Token, b.time(1)))
	b.lost(b.store.Complete(b.ctx, b.key, c.Token, b.time(1)))
	b.lost(b.store.Release(b.ctx, b.key, c.Token))
	c = b.grant(1)
	require.NoError(b, b.store.Complete(b.ctx, b.key, c.Token, b.time(1)))
	b.opts.Advance(b.time(1) - 1)
	b.state(idempotency.Done)
	b.opts.Advance(1)
	b.grant(1)
}

func renew(b *bench) {
	c := b.grant(1)
	require.NoError(b, b.store.Renew(b.ctx, b.key, c.Token, b.time(long)))
	b.near(b.claim(b.key, 1).Until, long)
	b.advance(1.2)
	b.state(idempotency.Held)
	// From now on, not on top of what was left.
	require.NoError(b, b.store.Renew(b.ctx, b.key, c.Token, b.time(1)))
	b.advance(1.2)
	b.grant(1)
}

func ended(b *bench) {
	c := b.grant(1)
	b.advance(1.2)
	b.lost(b.store.Renew(b.ctx, b.key, c.Token, b.time(long)))
	b.lost(b.store.Complete(b.ctx, b.key, c.Token, b.time(long)))
	b.lost(b.store.Release(b.ctx, b.key, c.Token))
	b.grant(1)
}

func oldToken(b *bench) {
	old := b.grant(1)
	b.advance(1.2)
	now := b.grant(long)
	b.lost(b.store.Renew(b.ctx, b.key, old.Token, b.time(1000)))
	b.state(idempotency.Held)
	b.lost(b.store.Release(b.ctx, b.key, old.Token))
	b.state(idempotency.Held)
	b.lost(b.store.Complete(b.ctx, b.key, old.Token, b.time(1000)))
	b.state(idempotency.Held)
	require.True(b, b.claim(b.key, 1).Until.Equal(now.Until), "an old token changed the lease")
	// The one who holds it noticed nothing.
	require.NoError(b, b.store.Renew(b.ctx, b.key, now.Token, b.time(long)))
	require.NoError(b, b.store.Complete(b.ctx, b.key, now.Token, b.time(long)))
	b.state(idempotency.Done)
}

func foreignToken(b *bench) {
	for _, token := range []int64{0, -1, 1 << 62} {
		b.lost(b.store.Renew(b.ctx, b.key, token, b.time(long)))
		b.lost(b.store.Complete(b.ctx, b.key, token, b.time(long)))
		b.lost(b.store.Release(b.ctx, b.key, token))
	}
	c := b.grant(long)
	for _, token := range []int64{0, -1, c.Token - 1, c.Token + 1} {
		b.lost(b.store.Complete(b.ctx, b.key, token, b.time(long)))
		b.lost(b.store.Release(b.ctx, b.key, token))
	}
	b.state(idempotency.Held)
	require.NoError(b, b.store.Complete(b.ctx, b.key, c.Token, b.time(long)))
	for _, token := range []int64{0, c.Token} {
		b.lost(b.store.Release(b.ctx, b.key, token))
	}
	b.state(idempotency.Done)
}

func release(b *bench) {
	c := b.grant(long)
	require.NoError(b, b.store.Release(b.ctx, b.key, c.Token))
	b.lost(b.store.Release(b.ctx, b.key, c.Token))
	again := b.grant(long)
	require.Greater(b, again.Token, c.Token)
	b.lost(b.store.Complete(b.ctx, b.key, c.Token, b.time(1)))
	b.state(idempotency.Held)
}

func complete(b *bench) {
	c := b.grant(1)
	require.NoError(b, b.store.Complete(b.ctx, b.key, c.Token, b.time(long)))
	require.Equal(b, idempotency.Claim{State: idempotency.Done}, b.claim(b.key, 1))
	other := b.claim(b.key+"-b", long)
	require.NoError(b, b.store.Complete(b.ctx, b.key+"-b", other.Token, b.time(1)))
	b.advance(1.2)
	b.state(idempotency.Done) // also past the lease
	again := b.claim(b.key+"-b", 1)
	require.Equal(b, idempotency.Granted, again.State)
	require.Greater(b, again.Token, other.Token)
}

func completed(b *bench) {
	c := b.grant(long)
	require.NoError(b, b.store.Complete(b.ctx, b.key, c.Token, b.time(long)))
	b.lost(b.store.Renew(b.ctx, b.key, c.Token, b.time(1)))
	b.lost(b.store.Release(b.ctx, b.key, c.Token))
	b.lost(b.store.Complete(b.ctx, b.key, c.Token, b.time(1)))
	b.state(idempotency.Done)
}

func redelivery(b *bench) {
	// The handler failed: the next attempt runs at once.
	failed := b.grant(long)
	require.NoError(b, b.store.Release(b.ctx, b.key, failed.Token))
	// Its process died: the redelivery waits for the lease, then runs.
	b.grant(2)
	b.state(idempotency.Held)
	b.advance(2.2)
	good := b.grant(long)
	require.NoError(b, b.store.Complete(b.ctx, b.key, good.Token, b.time(long)))
	b.state(idempotency.Done)
}

func independent(b *bench) {
	first, second := b.claim(b.key+"-a", long), b.claim(b.key+"-b", long)
	require.Equal(b, idempotency.Granted, first.State)
	require.Equal(b, idempotency.Granted, second.State)
	require.NoError(b, b.store.Complete(b.ctx, b.key+"-a", first.Token, b.time(long)))
	require.NoError(b, b.store.Release(b.ctx, b.key+"-b", second.Token))
	require.Equal(b, idempotency.Done, b.claim(b.key+"-a", 1).State)
	require.Equal(b, idempotency.Granted, b.claim(b.key+"-b", 1).State)
	require.Equal(b, idempotency.Granted, b.claim(b.key, 1).State)
}

func anyKey(b *bench) {
	keys := []string{"%", "_", "'; --", "a b", "{x}:y*", "é", "e\u0301", "日本", "A", "a", strings.Repeat("k", 500)}
	for _, k := range keys {
		require.Equal(b, idempotency.Granted, b.claim(b.key+k, long).State, k)
	}
	for _, k := range keys {
		require.Equal(b, idempotency.Held, b.claim(b.key+k, long).State, k)
	}
}

func cancelled(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	_, err := b.store.Claim(ctx, b.key, b.time(long))
	require.ErrorIs(b, err, context.Canceled)
	c := b.grant(long)
	require.ErrorIs(b, b.store.Renew(ctx, b.key, c.Token, b.time(1000)), context.Canceled)
	require.ErrorIs(b, b.store.Complete(ctx, b.key, c.Token, b.time(long)), context.Canceled)
	require.ErrorIs(b, b.store.Release(ctx, b.key, c.Token), context.Canceled)
	again := b.claim(b.key, 1)
	require.Equal(b, idempotency.Held, again.State)
	require.True(b, again.Until.Equal(c.Until), "a renewal with an ended context changed the lease")
}

func nothing(b *bench) {
	for _, leases := range []float64{0, -1} {
		_, err := b.store.Claim(b.ctx, b.key, b.time(leases))
		require.Error(b, err)
	}
	c := b.grant(long)
	for _, leases := range []float64{0, -1} {
		require.Error(b, b.store.Renew(b.ctx, b.key, c.Token, b.time(leases)))
		require.Error(b, b.store.Complete(b.ctx, b.key, c.Token, b.time(leases)))
	}
	b.state(idempotency.Held)
}

func tokens(b *bench) {
	last := b.grant(1).Token
	next := func(why string, leases float64) int64 {
		token := b.grant(leases).Token
		require.Greater(b, token, last, why)
		last = token
		return token
	}
	b.advance(1.2)
	token := next("after an expiry", long)
	require.NoError(b, b.store.Release(b.ctx, b.key, token))
	token = next("after a release", long)
	require.NoError(b, b.store.Renew(b.ctx, b.key, token, b.time(1)))
	b.advance(1.2)
	token = next("after a renewal and an expiry", long)
	require.NoError(b, b.store.Complete(b.ctx, b.key, token, b.time(1)))
	b.advance(1.2)
	next("after the end of a done mark", 1)
}
