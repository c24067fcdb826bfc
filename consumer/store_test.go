package consumer_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/idempotency"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// faultyStore fails or delays calls of a store, and keeps their order.
type faultyStore struct {
	idempotency.Store
	claimFails    atomic.Bool
	completeFails atomic.Int32 // this many times
	renewFails    atomic.Bool

	mu    sync.Mutex
	calls []string
}

var errStore = errors.New("store is down")

func (s *faultyStore) note(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

func (s *faultyStore) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

func (s *faultyStore) Claim(ctx context.Context, key string, lease time.Duration) (idempotency.Claim, error) {
	if s.claimFails.Load() {
		return idempotency.Claim{}, errStore
	}
	s.note("claim")
	return s.Store.Claim(ctx, key, lease)
}

func (s *faultyStore) Renew(ctx context.Context, key string, token int64, lease time.Duration) error {
	if s.renewFails.Load() {
		return errStore
	}
	s.note("renew")
	return s.Store.Renew(ctx, key, token, lease)
}

func (s *faultyStore) Complete(ctx context.Context, key string, token int64, ttl time.Duration) error {
	if s.completeFails.Add(-1) >= 0 {
		return errStore
	}
	s.note("complete")
	return s.Store.Complete(ctx, key, token, ttl)
}

func (s *faultyStore) Release(ctx context.Context, key string, token int64) error {
	s.note("release")
	return s.Store.Release(ctx, key, token)
}

func newFaulty() *faultyStore { return &faultyStore{Store: idempotency.NewMemory()} }

func TestWithAStoreACopyIsNotRunAgain(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		store := newFaulty()
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", got.handler(nil))
		b.worker(mux, consumer.WithStore(store))
		for range 5 {
			b.submit(ax.Task{Kind: "job", ID: "same"})
			time.Sleep(time.Second)
		}
		list := got.list()
		require.Len(t, list, 1)
		require.Positive(t, list[0].Token)
		b.requireCommitted("normal", 5)
	})
}

// Marked seen before it was handled, a task that failed would vanish at its
// next delivery.
func TestAFailedAttemptReleasesItsClaimAndTheNextOneHasAHigherToken(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {Backoff: ax.Backoff{Delays: []time.Duration{time.Second}}}}})
		store := newFaulty()
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, t *ax.Task) error {
			got.add(t)
			if t.Attempt < 3 {
				return errors.New("no")
			}
			return nil
		})
		b.worker(mux, consumer.WithStore(store))
		b.mover()
		b.submit(ax.Task{Kind: "job"})
		time.Sleep(time.Minute)
		list := got.list()
		require.Len(t, list, 3)
		require.Less(t, list[0].Token, list[1].Token)
		require.Less(t, list[1].Token, list[2].Token)
		require.Equal(t, []string{"claim", "release", "claim", "release", "claim", "complete"}, store.list())
	})
}

func TestATaskWhoseLeaseIsHeldWaitsForItWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		store := newFaulty()
		other, err := store.Claim(t.Context(), "x", 20*time.Second)
		require.NoError(t, err)
		require.Equal(t, idempotency.Granted, other.State)
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", got.handler(nil))
		b.worker(mux, consumer.WithStore(store))
		b.mover()
		sent := time.Now()
		b.submit(ax.Task{Kind: "job", ID: "x"}, producer.Attempts(1))
		time.Sleep(time.Minute)
		list := got.list()
		require.Len(t, list, 1)
		require.Equal(t, 1, list[0].Attempt)
		require.Greater(t, list[0].Token, other.Token)
		require.InDelta(t, 20, list[0].at.Sub(sent).Seconds(), 2)
	})
}

func TestWhileTheStoreFailsNothingStartsAndNothingIsLost(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		store := newFaulty()
		store.claimFails.Store(true)
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", got.handler(nil))
		b.worker(mux, consumer.WithStore(store))
		for range 10 {
			b.submit(ax.Task{Kind: "job"}, producer.Attempts(1))
		}
		time.Sleep(time.Minute)
		require.Empty(t, got.list())
		b.requireCommitted("normal", 0)
		store.claimFails.Store(false)
		time.Sleep(5 * time.Second)
		require.Len(t, got.list(), 10)
		b.requireCommitted("normal", 10)
	})
}

func TestATaskIsFinishedOnlyWhenTheStoreKnowsAndItsHandlerIsNotRunAgain(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		store := newFaulty()
		store.completeFails.Store(5)
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", got.handler(nil))
		b.worker(mux, consumer.WithStore(store))
		b.submit(ax.Task{Kind: "job"})
		time.Sleep(3 * time.Second)
		b.requireCommitted("normal", 0)
		time.Sleep(10 * time.Second)
		require.Len(t, got.list(), 1)
		b.requireCommitted("normal", 1)
	})
}

func TestALongRunKeepsItsLeaseAndOneThatLosesItIsCancelled(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		store := newFaulty()
		causes := make(chan error, 2)
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(ctx context.Context, _ *ax.Task) error {
			select {
			case <-ctx.Done():
				causes <- context.Cause(ctx)
				return ctx.Err()
			case <-time.After(50 * time.Second):
				causes <- nil
				return nil
			}
		})
		b.worker(mux, consumer.WithStore(store), consumer.WithLease(6*time.Second))
		b.mover()
		b.submit(ax.Task{Kind: "job", ID: "long"})
		time.Sleep(30 * time.Second)
		held, err := store.Store.Claim(t.Context(), "long", time.Second)
		require.NoError(t, err)
		require.Equal(t, idempotency.Held, held.State)
		require.NoError(t, <-causes)

		b.submit(ax.Task{Kind: "job", ID: "loser"})
		time.Sleep(10 * time.Second)
		store.renewFails.Store(true)
		began := time.Now()
		require.ErrorIs(t, <-causes, ax.ErrLeaseLost)
		require.Less(t, time.Since(began), 9*time.Second)
		store.renewFails.Store(false)
		require.NoError(t, <-causes, "it comes back and is done")
	})
}
