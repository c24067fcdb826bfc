package idempotency

import (
	"container/heap"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/axtasks/ax/internal/clock"
)

// DefaultMaxKeys is how many keys a [Memory] holds unless told otherwise.
const DefaultMaxKeys = 100_000

// Memory is a [Store] for one process. It is bounded: past its limit Claim
// returns [ErrFull], since forgetting a key that is claimed or done would let
// a repeat through. What has expired is forgotten by later claims, each of
// which takes O(log n); there is no goroutine, and nothing to close.
//
// A restart forgets everything. Tokens rise over restarts too, as long as the
// clock does not go back: they begin at the microseconds since 1970.
type Memory struct {
	limit int

	mu      sync.Mutex
	token   int64
	entries map[string]*entry
	expiry  byExpiry
}

type entry struct {
	key   string
	token int64 // of the claim; zero when done
	until time.Time
	index int // in the heap
}

func (e *entry) done() bool { return e.token == 0 }

// MemoryOption changes a [Memory] at its creation.
type MemoryOption func(*Memory)

// WithMaxKeys bounds the number of keys to n, at least 1; the default is
// [DefaultMaxKeys]. A key costs about 150 bytes plus its own length.
func WithMaxKeys(n int) MemoryOption {
	return func(m *Memory) { m.limit = max(n, 1) }
}

// NewMemory returns an empty store.
func NewMemory(opts ...MemoryOption) *Memory {
	m := &Memory{
		limit:   DefaultMaxKeys,
		token:   clock.Now().UnixMicro(),
		entries: map[string]*entry{},
	}
	for _, opt := range opts {
		opt(m)
	}
	return m
}

var _ Store = (*Memory)(nil)

// Claim implements [Store].
func (m *Memory) Claim(ctx context.Context, key string, lease time.Duration) (Claim, error) {
	if err := check(ctx, "claim", key, "lease", lease); err != nil {
		return Claim{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := clock.Now()
	if e := m.entries[key]; e != nil {
		switch {
		case !now.Before(e.until):
			m.forget(e)
		case e.done():
			return Claim{State: Done}, nil
		default:
			return Claim{State: Held, Until: e.until}, nil
		}
	}
	// Two out for each one in, so that what has expired drains, at a cost
	// that no single claim feels.
	for range 2 {
		if len(m.expiry) > 0 && !now.Before(m.expiry[0].until) {
			m.forget(m.expiry[0])
		}
	}
	if len(m.entries) >= m.limit {
		return Claim{}, fmt.Errorf("%w: claim %q: %d keys are claimed or done", ErrFull, key, m.limit)
	}
	m.token++
	e := &entry{key: key, token: m.token, until: now.Add(lease)}
	m.entries[key] = e
	heap.Push(&m.expiry, e)
	return Claim{State: Granted, Token: e.token, Until: e.until}, nil
}

// Renew implements [Store].
func (m *Memory) Renew(ctx context.Context, key string, token int64, lease time.Duration) error {
	if err := check(ctx, "renew", key, "lease", lease); err != nil {
		return err
	}
	return m.change("renew", key, token, func(e *entry, now time.Time) {
		e.until = now.Add(lease)
		heap.Fix(&m.expiry, e.index)
	})
}

// Complete implements [Store].
func (m *Memory) Complete(ctx context.Context, key string, token int64, ttl time.Duration) error {
	if err := check(ctx, "complete", key, "ttl", ttl); err != nil {
		return err
	}
	return m.change("complete", key, token, func(e *entry, now time.Time) {
		e.token, e.until = 0, now.Add(ttl)
		heap.Fix(&m.expiry, e.index)
	})
}

// Release implements [Store].
func (m *Memory) Release(ctx context.Context, key string, token int64) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("idempotency: release %q: %w", key, err)
	}
	return m.change("release", key, token, func(e *entry, _ time.Time) { m.forget(e) })
}

// Len returns how many keys the store holds, those included that have expired
// and are not forgotten yet.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

// change calls do with the entry of the claim that has this token.
func (m *Memory) change(op, key string, token int64, do func(*entry, time.Time)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := clock.Now()
	e := m.entries[key]
	if e == nil || e.done() || e.token != token || !now.Before(e.until) {
		return fmt.Errorf("%w: %s %q with token %d", ErrLost, op, key, token)
	}
	do(e, now)
	return nil
}

func (m *Memory) forget(e *entry) {
	heap.Remove(&m.expiry, e.index)
	delete(m.entries, e.key)
}

func check(ctx context.Context, op, key, name string, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("idempotency: %s %q: %w", op, key, err)
	}
	if d <= 0 {
		return fmt.Errorf("idempotency: %s %q: %s %s, want more than 0", op, key, name, d)
	}
	return nil
}

// byExpiry is a heap, the entry that expires first on top.
type byExpiry []*entry

func (h byExpiry) Len() int           { return len(h) }
func (h byExpiry) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h byExpiry) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *byExpiry) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop implements [heap.Interface].
func (h *byExpiry) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil // or the array would keep the key
	*h = old[:len(old)-1]
	return e
}
