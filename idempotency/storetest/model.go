package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axtasks/ax/idempotency"
)

// reference is the model: what a store must do, written as plainly as can be,
// for one key, in a time that counts in leases.
type reference struct {
	state idempotency.State // zero: free
	until int
	token int64 // of the claim
	last  int64 // the highest that was granted
}

// model runs random operations on a store and on the reference and requires
// the same answers. Time passes only where that is free: outside virtual
// time, the other tests cover it.
func model(t *testing.T, newStore func(t *testing.T) idempotency.Store, opts Options, virtual bool) {
	t.Helper()
	if opts.Bubble {
		rapid.Check(t, func(r *rapid.T) {
			rapid.SyncTest(r, func(r *rapid.T) { operate(r, newStore(t), opts, true) })
		})
		return
	}
	store := newStore(t)
	rapid.Check(t, func(r *rapid.T) { operate(r, store, opts, virtual) })
}

func operate(r *rapid.T, store idempotency.Store, opts Options, virtual bool) {
	ctx := context.Background()
	prefix := "storetest-" + rand.Text() + "-"
	refs := map[string]*reference{"a": {}, "b": {}}
	pick := func(r *rapid.T) (string, *reference) {
		key := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "key")
		return prefix + key, refs[key]
	}
	token := func(r *rapid.T, ref *reference) int64 {
		return rapid.SampledFrom([]int64{ref.token, ref.token, ref.last, ref.last - 1, 0}).Draw(r, "token")
	}
	now := 0
	// Half a lease is added to every lease, so that real answer times never
	// decide whether it has ended.
	span := func(r *rapid.T, name string) (int, time.Duration) {
		least := 1
		if !virtual {
			least = 1000
		}
		n := rapid.IntRange(least, least+4).Draw(r, name)
		return n, time.Duration(n)*opts.Lease + opts.Lease/2
	}
	lapse := func() {
		for _, ref := range refs {
			if ref.state != 0 && ref.until < now {
				ref.state, ref.token = 0, 0
			}
		}
	}
	settle := func(r *rapid.T, ref *reference, token int64, err error) bool {
		if ok := ref.state == idempotency.Held && token == ref.token; ok {
			if err != nil {
				r.Fatalf("the holder was refused: %v", err)
			}
			return true
		}
		if !errors.Is(err, idempotency.ErrLost) {
			r.Fatalf("got %v, want ErrLost", err)
		}
		return false
	}
	actions := map[string]func(*rapid.T){
		"claim": func(r *rapid.T) {
			key, ref := pick(r)
			n, lease := span(r, "lease")
			c, err := store.Claim(ctx, key, lease)
			if err != nil {
				r.Fatalf("claim: %v", err)
			}
			want := ref.state
			if want == 0 {
				want = idempotency.Granted
			}
			if c.State != want {
				r.Fatalf("claim is %v, want %v", c.State, want)
			}
			if want != idempotency.Granted {
				return
			}
			if c.Token <= ref.last {
				r.Fatalf("token %d after %d", c.Token, ref.last)
			}
			*ref = reference{state: idempotency.Held, until: now + n, token: c.Token, last: c.Token}
		},
		"renew": func(r *rapid.T) {
			key, ref := pick(r)
			token := token(r, ref)
			n, lease := span(r, "lease")
			if settle(r, ref, token, store.Renew(ctx, key, token, lease)) {
				ref.until = now + n
			}
		},
		"complete": func(r *rapid.T) {
			key, ref := pick(r)
			token := token(r, ref)
			n, ttl := span(r, "ttl")
			if settle(r, ref, token, store.Complete(ctx, key, token, ttl)) {
				ref.state, ref.until, ref.token = idempotency.Done, now+n, 0
			}
		},
		"release": func(r *rapid.T) {
			key, ref := pick(r)
			token := token(r, ref)
			if settle(r, ref, token, store.Release(ctx, key, token)) {
				ref.state, ref.token = 0, 0
			}
		},
	}
	if virtual {
		actions["advance"] = func(r *rapid.T) {
			n := rapid.IntRange(1, 4).Draw(r, "leases")
			opts.Advance(time.Duration(n) * opts.Lease)
			now += n
			lapse()
		}
	}
	r.Repeat(actions)
}
