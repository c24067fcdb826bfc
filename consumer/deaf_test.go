package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/idempotency"
	"github.com/axtasks/ax/internal/fakekafka"
)

// A handler that ignores its context keeps its task to itself: nobody else
// starts it, whatever moves, until it is given up. Its slot alone is lent.
func TestADeafHandlersSlotIsLentAndItsTaskIsNobodyElses(t *testing.T) {
	t.Parallel()
	for _, returns := range []time.Duration{2 * time.Minute, 20 * time.Minute} {
		for _, store := range []bool{false, true} {
			t.Run(fmt.Sprintf("returns after %s, store %t", returns, store), func(t *testing.T) {
				t.Parallel()
				fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) { deafFor(t, c, returns, store) })
			})
		}
	}
}

func deafFor(t *testing.T, c *fakekafka.Cluster, returns time.Duration, store bool) {
	b := newBench(t, c, ax.Domain{
		Lanes: []ax.Lane{{Name: "only", Weight: 1, Partitions: 1}},
		Kinds: map[string]ax.Kind{"deaf": {Timeout: time.Minute, Concurrency: 1}},
	})
	g := newGauge()
	mux := consumer.NewMux()
	mux.HandleFunc("deaf", func(context.Context, *ax.Task) error { g.during("deaf", returns); return nil })
	mux.HandleFunc("job", func(context.Context, *ax.Task) error { g.during("job", time.Second); return nil })
	opts := []consumer.Option{consumer.WithSlots(4), consumer.WithLogger(nil), consumer.WithKafka(patient()...), consumer.WithDeaf(10*time.Second, 10*time.Minute)}
	if store {
		opts = append(opts, consumer.WithStore(idempotency.NewMemory()))
	}
	w := b.start(mux, opts...)
	b.submit(ax.Task{Kind: "deaf"})
	b.submit(ax.Task{Kind: "deaf"})
	time.Sleep(5 * time.Second)
	b.flood("job", 1000)
	time.Sleep(10 * time.Second)
	require.Equal(t, 3, g.reading("job"))
	require.Zero(t, w.Status().Deaf)
	time.Sleep(time.Minute)
	require.Equal(t, 4, g.reading("job"), "its slot is lent")
	require.Equal(t, 5, consumer.SlotsOf(w))
	require.Equal(t, 1, w.Status().Deaf)
	require.NoError(t, w.Healthy(), "one is no reason to be restarted")
	require.Equal(t, 1, g.count("deaf"), "the limit of its kind stays taken")
	time.Sleep(40 * time.Second)
	require.Equal(t, 1, g.count("deaf"))

	time.Sleep(9*time.Minute + 30*time.Second) // the limit has passed
	dead := c.Records(t, b.r.Dead())
	if returns > 10*time.Minute {
		require.Len(t, dead, 1, "it is given up")
		require.Equal(t, string(ax.ReasonDeaf), header(dead[0], ax.HeaderDeadReason))
		require.Equal(t, 1, g.count("deaf"), "the limit stays taken, also then")
	} else {
		require.Empty(t, dead, "it has returned nil: it is done")
		require.Equal(t, 2, g.count("deaf"))
	}
	time.Sleep(40 * time.Minute)
	require.Equal(t, 2, g.count("deaf"), "the second ran once, the first never again")
	if returns > 10*time.Minute {
		require.Len(t, c.Records(t, b.r.Dead()), 2)
	}
	require.Equal(t, 4, consumer.SlotsOf(w), "what was lent has ended")
	require.Equal(t, 1000, g.count("job"))
	require.Zero(t, w.Status().Busy)
	require.NoError(t, w.Healthy())
}

// Where it says so, a task comes back once its deaf run is given up, and
// what that run returns later changes nothing.
func TestADeafRunThatIsGivenUpMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	for _, store := range []bool{false, true} {
		t.Run(fmt.Sprintf("store %t", store), func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) { triedAgain(t, c, store) })
		})
	}
}

func triedAgain(t *testing.T, c *fakekafka.Cluster, store bool) {
	b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {
		Timeout: time.Minute, Attempts: 2, OnDeaf: ax.Retry, Backoff: ax.Backoff{Delays: []time.Duration{time.Second}},
	}}})
	var got starts
	mux := consumer.NewMux()
	mux.HandleFunc("job", func(_ context.Context, t *ax.Task) error {
		got.add(t)
		if t.Attempt == 1 {
			time.Sleep(30 * time.Minute)
			return errors.New("a third attempt?")
		}
		return ax.Permanent(context.Canceled)
	})
	opts := []consumer.Option{consumer.WithLogger(nil), consumer.WithKafka(patient()...), consumer.WithDeaf(10*time.Second, 5*time.Minute)}
	if store {
		opts = append(opts, consumer.WithStore(idempotency.NewMemory()))
	}
	b.start(mux, opts...)
	b.mover()
	b.submit(ax.Task{Kind: "job"})
	time.Sleep(time.Hour)
	require.Len(t, got.list(), 2)
	require.Equal(t, 2, got.list()[1].Attempt)
	require.InDelta(t, 6*60, got.list()[1].at.Sub(got.list()[0].at).Seconds(), 3)
	require.Len(t, c.Records(t, b.r.Dead()), 1, "the second attempt's end is the task's")
}

// The run that tries whether a breaker may close must not hold it for ever.
func TestADeafProbeThatIsGivenUpLetsAnotherTry(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {
			Timeout: time.Minute, Attempts: 2, Backoff: ax.Backoff{Delays: []time.Duration{time.Second}},
		}}})
		g := newGauge()
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(context.Context, *ax.Task) error {
			switch g.count("job") {
			case 0, 1:
				g.during("job", 0)
				return errors.New("away")
			case 2:
				g.during("job", 15*time.Minute)
			}
			g.during("job", 0)
			return nil
		})
		b.start(mux, consumer.WithLogger(nil), consumer.WithKafka(patient()...), consumer.WithDeaf(10*time.Second, 5*time.Minute), consumer.WithBreaker(2, 10*time.Second), consumer.WithSlots(1))
		b.mover()
		b.flood("job", 10)
		time.Sleep(12 * time.Minute)
		require.Greater(t, g.count("job"), 8, "the others run")
		time.Sleep(10 * time.Minute)
	})
}

// More than a quarter of the slots are not lent; the worker says that it is
// unwell then, and is well when they have returned.
func TestAWorkerFullOfDeafHandlersIsUnwell(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "only", Weight: 1}}, Kinds: map[string]ax.Kind{"deaf": {Timeout: time.Second}}})
		var mu sync.Mutex
		runs := 0
		mux := consumer.NewMux()
		mux.HandleFunc("deaf", func(context.Context, *ax.Task) error {
			mu.Lock()
			runs++
			mu.Unlock()
			time.Sleep(5 * time.Minute)
			return nil
		})
		b.flood("deaf", 20)
		w := b.start(mux, consumer.WithSlots(8), consumer.WithLogger(nil), consumer.WithKafka(patient()...), consumer.WithDeaf(5*time.Second, time.Hour))
		time.Sleep(time.Minute)
		require.Equal(t, 10, w.Status().Deaf, "eight, and two on the slots that are lent")
		require.ErrorIs(t, w.Healthy(), ax.ErrStalled)
		require.ErrorContains(t, w.Healthy(), "10 handlers go on although their contexts have ended; the slots of 2 are lent")
		time.Sleep(20 * time.Minute)
		require.NoError(t, w.Healthy())
		mu.Lock()
		require.Equal(t, 20, runs)
		mu.Unlock()
		require.Equal(t, 8, consumer.SlotsOf(w))
	})
}
