package storetest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/idempotency"
)

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
	c := b.grant(3)
	b.advance(1)
	again := b.claim(b.key, 50)
	require.Equal(b, idempotency.Held, again.State)
	require.Zero(b, again.Token)
	require.True(b, again.Until.Equal(c.Until), "held until %s, granted until %s", again.Until, c.Until)
}

func expiry(b *bench) {
	first := b.grant(2)
	b.advance(1)
	b.state(idempotency.Held)
	b.advance(1.2)
	second := b.grant(2)
	require.Greater(b, second.Token, first.Token)
	b.state(idempotency.Held)
}

func renew(b *bench) {
	c := b.grant(2)
	for range 3 {
		b.advance(1.2)
		require.NoError(b, b.store.Renew(b.ctx, b.key, c.Token, b.time(2)))
	}
	b.advance(1.2) // 4.8 leases after the claim, 1.2 after the last renewal
	b.state(idempotency.Held)
	b.advance(1)
	b.grant(1)
}

func shorten(b *bench) {
	c := b.grant(1000)
	require.NoError(b, b.store.Renew(b.ctx, b.key, c.Token, b.time(1)))
	b.state(idempotency.Held)
	b.advance(1.2)
	b.grant(1)
}

func ended(b *bench) {
	c := b.grant(1)
	b.advance(1.2)
	b.lost(b.store.Renew(b.ctx, b.key, c.Token, b.time(5)))
	b.lost(b.store.Complete(b.ctx, b.key, c.Token, b.time(5)))
	b.lost(b.store.Release(b.ctx, b.key, c.Token))
	b.grant(1)
}

func oldToken(b *bench) {
	old := b.grant(1)
	b.advance(1.2)
	now := b.grant(5)
	b.lost(b.store.Renew(b.ctx, b.key, old.Token, b.time(1000)))
	b.state(idempotency.Held)
	b.lost(b.store.Release(b.ctx, b.key, old.Token))
	b.state(idempotency.Held)
	b.lost(b.store.Complete(b.ctx, b.key, old.Token, b.time(1000)))
	b.state(idempotency.Held)
	require.True(b, b.claim(b.key, 1).Until.Equal(now.Until), "an old token changed the lease")
	// The one who holds it noticed nothing.
	require.NoError(b, b.store.Renew(b.ctx, b.key, now.Token, b.time(5)))
	require.NoError(b, b.store.Complete(b.ctx, b.key, now.Token, b.time(5)))
	b.state(idempotency.Done)
}

func foreignToken(b *bench) {
	for _, token := range []int64{0, -1, 1 << 62} {
		b.lost(b.store.Renew(b.ctx, b.key, token, b.time(5)))
		b.lost(b.store.Complete(b.ctx, b.key, token, b.time(5)))
		b.lost(b.store.Release(b.ctx, b.key, token))
	}
	c := b.grant(5)
	for _, token := range []int64{0, -1, c.Token - 1, c.Token + 1} {
		b.lost(b.store.Complete(b.ctx, b.key, token, b.time(5)))
		b.lost(b.store.Release(b.ctx, b.key, token))
	}
	b.state(idempotency.Held)
	require.NoError(b, b.store.Complete(b.ctx, b.key, c.Token, b.time(5)))
	for _, token := range []int64{0, c.Token} {
		b.lost(b.store.Release(b.ctx, b.key, token))
	}
	b.state(idempotency.Done)
}

func release(b *bench) {
	c := b.grant(1000)
	require.NoError(b, b.store.Release(b.ctx, b.key, c.Token))
	b.lost(b.store.Release(b.ctx, b.key, c.Token))
	again := b.grant(1000)
	require.Greater(b, again.Token, c.Token)
	b.lost(b.store.Complete(b.ctx, b.key, c.Token, b.time(1)))
	b.state(idempotency.Held)
}

func complete(b *bench) {
	c := b.grant(1)
	require.NoError(b, b.store.Complete(b.ctx, b.key, c.Token, b.time(3)))
	done := b.claim(b.key, 1)
	require.Equal(b, idempotency.Claim{State: idempotency.Done}, done)
	b.advance(1.5) // past the lease
	b.state(idempotency.Done)
	b.advance(1.7)
	again := b.grant(1)
	require.Greater(b, again.Token, c.Token)
}

func completed(b *bench) {
	c := b.grant(5)
	require.NoError(b, b.store.Complete(b.ctx, b.key, c.Token, b.time(5)))
	b.lost(b.store.Renew(b.ctx, b.key, c.Token, b.time(1)))
	b.lost(b.store.Release(b.ctx, b.key, c.Token))
	b.lost(b.store.Complete(b.ctx, b.key, c.Token, b.time(1)))
	b.state(idempotency.Done)
}

func redelivery(b *bench) {
	// The handler failed: the next attempt runs at once.
	failed := b.grant(1000)
	require.NoError(b, b.store.Release(b.ctx, b.key, failed.Token))
	b.grant(1)
	// The process died: the redelivery waits for the lease, then runs.
	b.state(idempotency.Held)
	b.advance(1.2)
	good := b.grant(5)
	require.NoError(b, b.store.Complete(b.ctx, b.key, good.Token, b.time(5)))
	b.state(idempotency.Done)
}

func independent(b *bench) {
	first, second := b.claim(b.key+"-a", 5), b.claim(b.key+"-b", 5)
	require.Equal(b, idempotency.Granted, first.State)
	require.Equal(b, idempotency.Granted, second.State)
	require.NoError(b, b.store.Complete(b.ctx, b.key+"-a", first.Token, b.time(5)))
	require.NoError(b, b.store.Release(b.ctx, b.key+"-b", second.Token))
	require.Equal(b, idempotency.Done, b.claim(b.key+"-a", 1).State)
	require.Equal(b, idempotency.Granted, b.claim(b.key+"-b", 1).State)
	require.Equal(b, idempotency.Granted, b.claim(b.key, 1).State)
}

func anyKey(b *bench) {
	keys := []string{"%", "_", "'; --", "a b", "{x}:y*", "é", "e\u0301", "日本", "A", "a", strings.Repeat("k", 500)}
	for _, k := range keys {
		require.Equal(b, idempotency.Granted, b.claim(b.key+k, 5).State, k)
	}
	for _, k := range keys {
		require.Equal(b, idempotency.Held, b.claim(b.key+k, 5).State, k)
	}
}

func cancelled(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	_, err := b.store.Claim(ctx, b.key, b.time(5))
	require.ErrorIs(b, err, context.Canceled)
	c := b.grant(5)
	require.ErrorIs(b, b.store.Renew(ctx, b.key, c.Token, b.time(1000)), context.Canceled)
	require.ErrorIs(b, b.store.Complete(ctx, b.key, c.Token, b.time(5)), context.Canceled)
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
	c := b.grant(5)
	for _, leases := range []float64{0, -1} {
		require.Error(b, b.store.Renew(b.ctx, b.key, c.Token, b.time(leases)))
		require.Error(b, b.store.Complete(b.ctx, b.key, c.Token, b.time(leases)))
	}
	b.state(idempotency.Held)
}

func tokens(b *bench) {
	last := b.grant(1).Token
	next := func(why string) int64 {
		token := b.grant(1).Token
		require.Greater(b, token, last, why)
		last = token
		return token
	}
	b.advance(1.2)
	token := next("after an expiry")
	require.NoError(b, b.store.Release(b.ctx, b.key, token))
	token = next("after a release")
	require.NoError(b, b.store.Renew(b.ctx, b.key, token, b.time(1)))
	b.advance(1.2)
	token = next("after a renewal and an expiry")
	require.NoError(b, b.store.Complete(b.ctx, b.key, token, b.time(1)))
	b.advance(1.2)
	next("after the end of a done mark")
}
