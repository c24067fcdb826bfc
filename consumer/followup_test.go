package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/idempotency"
	"github.com/axtasks/ax/internal/fakekafka"
)

func TestFollowUpsAreSentOnlyIfTheirParentSucceeds(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		var got starts
		var leaked context.Context
		mux := consumer.NewMux()
		mux.HandleFunc("parent", func(ctx context.Context, task *ax.Task) error {
			got.add(task)
			leaked = ctx //nolint:fatcontext // what a handler must not do
			require.NoError(t, consumer.FollowUp(ctx, ax.Task{Kind: "child", Payload: []byte(fmt.Sprint(task.Attempt))}))
			if task.Attempt < 3 {
				return ax.RetryAfter(time.Second, errors.New("not yet"))
			}
			return nil
		})
		mux.HandleFunc("child", func(_ context.Context, task *ax.Task) error { got.add(task); return nil })
		b.mover()
		b.worker(mux)
		b.submit(ax.Task{ID: "p", Kind: "parent"})
		time.Sleep(20 * time.Second)
		var children []start
		for _, s := range got.list() {
			if s.Kind == "child" {
				children = append(children, s)
			}
		}
		require.Len(t, children, 1)
		require.Equal(t, "3", string(children[0].Payload))
		require.Len(t, children[0].ID, 32)
		require.ErrorIs(t, consumer.FollowUp(leaked, ax.Task{Kind: "child"}), consumer.ErrNoRun, "the run is over")
		require.ErrorIs(t, consumer.FollowUp(t.Context(), ax.Task{Kind: "child"}), consumer.ErrNoRun)
	})
}

func TestAFollowUpThatCannotBeAcceptedIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	d := ax.Domain{Name: "orders"}
	ctx, sent := consumer.FollowUpsOf(t.Context(), d, &ax.Task{ID: "p", Kind: "parent"})
	err := consumer.FollowUp(ctx, ax.Task{Kind: "child", Lane: "nowhere"})
	require.ErrorIs(t, err, ax.ErrUnknownLane)
	require.ErrorIs(t, err, ax.ErrInvalid)
	require.ErrorContains(t, err, "follow up")
	for range consumer.MaxFollowUps {
		require.NoError(t, consumer.FollowUp(ctx, ax.Task{Kind: "child"}))
	}
	require.ErrorIs(t, consumer.FollowUp(ctx, ax.Task{Kind: "child"}), consumer.ErrTooManyFollowUps)
	require.Len(t, sent(), consumer.MaxFollowUps)
}

// A repeat may list its rows in another order, and must make the same ids.
func TestARepeatOfTheParentMakesTheSameChildren(t *testing.T) {
	t.Parallel()
	ids := func(payloads ...string) map[string]int {
		ctx, sent := consumer.FollowUpsOf(t.Context(), ax.Domain{Name: "orders"}, &ax.Task{ID: "p", Kind: "parent"})
		for _, p := range payloads {
			require.NoError(t, consumer.FollowUp(ctx, ax.Task{Kind: "child", Payload: []byte(p)}))
		}
		all := map[string]int{}
		for _, s := range sent() {
			all[s.ID]++
		}
		return all
	}
	first := ids("a", "b", "a", "c")
	require.Len(t, first, 4, "two alike are two children")
	require.Equal(t, first, ids("c", "a", "a", "b"))
	ctx, sent := consumer.FollowUpsOf(t.Context(), ax.Domain{Name: "orders"}, &ax.Task{ID: "p", Kind: "parent"})
	require.NoError(t, consumer.FollowUp(ctx, ax.Task{Kind: "child", ID: "mine"}))
	require.Equal(t, "mine", sent()[0].ID)
}

// The parent is not finished before its children are acknowledged, and a child
// whose publish fails is published again without running the parent again.
func TestAParentWaitsForItsChildrenAndIsNotRunAgainForThem(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 2, Partitions: 1}, {Name: "side", Weight: 1, Partitions: 1}}})
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("parent", func(ctx context.Context, task *ax.Task) error {
			got.add(task)
			for i := range 3 {
				lane := []string{"main", "side", "side"}[i]
				if err := consumer.FollowUp(ctx, ax.Task{Kind: "child", Lane: lane, Payload: []byte{byte(i)}}); err != nil {
					return err
				}
			}
			return nil
		})
		mux.HandleFunc("child", func(_ context.Context, task *ax.Task) error { got.add(task); return nil })
		b.worker(mux, consumer.WithStore(idempotency.NewMemory()), consumer.WithSlots(1))
		time.Sleep(time.Second)
		fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: b.r.Lane("side"), Err: kerr.TopicAuthorizationFailed, Count: -1})
		b.submit(ax.Task{ID: "p", Kind: "parent", Lane: "main"})
		time.Sleep(20 * time.Second)
		require.Equal(t, int64(0), committedAt(b, "main", 0), "the parent waits for its children")
		require.Greater(t, fault.Hits(), 3)
		fault.Remove()
		time.Sleep(time.Minute)
		kinds := map[string]int{}
		for _, s := range got.list() {
			kinds[s.Kind]++
		}
		require.Equal(t, map[string]int{"parent": 1, "child": 3}, kinds)
		require.Equal(t, int64(2), committedAt(b, "main", 0))
	})
}

// A heartbeat that submits itself, in a fleet that is killed fifty times: it
// never branches, and with a store each beat is done once.
func TestAChainOfFollowUpsNeverBranchesWhateverDies(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 1, Partitions: 3}}})
		store := idempotency.NewMemory()
		var mu sync.Mutex
		ids, done := map[int]map[string]bool{}, map[string]int{}
		f := newFleet(b, 2, func(_ *fleet, p *fakekafka.Process, m *consumer.Mux) {
			m.HandleFunc("beat", func(ctx context.Context, task *ax.Task) error {
				n := int(task.Payload[0])<<8 | int(task.Payload[1])
				mu.Lock()
				if ids[n] == nil {
					ids[n] = map[string]bool{}
				}
				ids[n][task.ID] = true
				mu.Unlock()
				if err := sleep(ctx, p, 700*time.Millisecond); err != nil {
					return err
				}
				mu.Lock()
				done[task.ID]++
				mu.Unlock()
				n++
				return consumer.FollowUp(ctx, ax.Task{Kind: "beat", Payload: []byte{byte(n >> 8), byte(n)}})
			})
		}, consumer.WithStore(store), consumer.WithLease(5*time.Second))
		b.submit(ax.Task{ID: "first", Kind: "beat", Payload: []byte{0, 0}})
		for range 50 {
			time.Sleep(20 * time.Second)
			f.mu.Lock()
			f.procs[len(f.procs)-1].Kill()
			f.mu.Unlock()
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Greater(t, len(ids), 200)
		for n, set := range ids {
			require.Len(t, set, 1, "beat %d has more than one id: the chain branched", n)
		}
		twice := 0
		for _, n := range done {
			if n > 1 {
				twice++
			}
		}
		// The handler of a beat whose process died after it and before the
		// store heard of it runs again.
		require.LessOrEqual(t, twice, 50)
	})
}

// The follow-ups are acknowledged only when the worker is stopping already: the
// store must still hear of the run, or it is repeated.
func TestARunThatSucceededIsNotRepeatedThoughItsWorkerStops(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		store := idempotency.NewMemory()
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("parent", func(ctx context.Context, task *ax.Task) error {
			got.add(task)
			time.Sleep(3 * time.Second)
			return consumer.FollowUp(ctx, ax.Task{Kind: "child"})
		})
		mux.HandleFunc("child", func(context.Context, *ax.Task) error { return nil })
		b.mover()
		w := begin(t, newWorker(b, mux, consumer.WithStore(store)).Run)
		b.submit(ax.Task{Kind: "parent"})
		time.Sleep(time.Second)
		require.NoError(t, w.stop())
		run(t, newWorker(b, mux, consumer.WithStore(store)).Run)
		time.Sleep(5 * time.Minute)
		require.Len(t, got.list(), 1)
	})
}
