package producer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// closeSoon closes a client that has no hope of an answer.
func closeSoon(t *testing.T, cl *producer.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.Error(t, cl.Close(ctx))
}

func TestCloseSendsWhatIsBufferedAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	cl, r := open(t, c, orders())
	var answered atomic.Int32
	for range 500 {
		cl.SubmitAsync(t.Context(), ax.Task{Kind: "k"}, func(_ ax.Receipt, err error) {
			if err == nil {
				answered.Add(1)
			}
		})
	}
	require.NoError(t, cl.Close(t.Context()))
	require.NoError(t, cl.Close(t.Context()))
	require.EqualValues(t, 500, answered.Load())
	require.Equal(t, 500, total(t, c, r))

	_, err := cl.Submit(t.Context(), ax.Task{Kind: "k"})
	requireTaskError(t, err)
	require.ErrorIs(t, err, ax.ErrClosed)
	require.NotErrorIs(t, err, ax.ErrUnknownOutcome)
	require.ErrorIs(t, cl.Ping(t.Context()), ax.ErrClosed)
	require.ErrorIs(t, cl.SubmitMany(t.Context(), make([]ax.Task, 1))[0].Err, ax.ErrInvalid)
}

func TestCloseOfAnUnusedClientIsNoError(t *testing.T) {
	t.Parallel()
	cl, err := producer.New(ax.Domain{Name: "orders", Kafka: ax.Kafka{Brokers: []string{"127.0.0.1:1"}}})
	require.NoError(t, err)
	require.NoError(t, cl.Close(t.Context()))
}

func TestCloseWithASilentBrokerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, _ := open(t, c, orders())
		require.NoError(t, cl.Ping(t.Context()))
		mute(c)
		answer := make(chan error, 1)
		cl.SubmitAsync(t.Context(), ax.Task{Kind: "k"}, func(_ ax.Receipt, err error) { answer <- err })
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := cl.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 tasks unanswered")
		require.Less(t, time.Since(began), 5*time.Second)
		require.ErrorIs(t, <-answer, ax.ErrUnknownOutcome)
		require.Equal(t, err, cl.Close(t.Context()), "the same at each further call")
	})
}

func TestCloseWithADeadBrokerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, _ := open(t, c, orders())
		require.NoError(t, cl.Ping(t.Context()))
		c.Kfake().Close()
		cl.SubmitAsync(t.Context(), ax.Task{Kind: "k"}, func(ax.Receipt, error) {})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorIs(t, cl.Close(ctx), context.DeadlineExceeded)
		require.Less(t, time.Since(began), 5*time.Second)
	})
}

// Submits from many goroutines while the client is closed: each is answered
// once, each receipt is in the log, and what failed as closed is not.
func TestCloseAmongManySubmitsLosesNoReceipt(t *testing.T) {
	t.Parallel()
	for _, full := range []producer.Full{producer.Block(), producer.Busy()} {
		c := fakekafka.Start(t)
		cl, r := open(t, c, orders(), producer.WithFull(full), producer.WithBuffer(64, 1<<20))
		var mu sync.Mutex
		written, closed := map[string]bool{}, map[string]bool{}
		var wg sync.WaitGroup
		var begun atomic.Int32
		enough := make(chan struct{})
		for range 16 {
			wg.Go(func() {
				for {
					task := ax.Task{Kind: "k", ID: fmt.Sprint(begun.Add(1))}
					receipt, err := cl.Submit(t.Context(), task)
					mu.Lock()
					switch {
					case err == nil:
						written[receipt.ID] = true
					case errors.Is(err, ax.ErrUnknownOutcome), errors.Is(err, ax.ErrBusy):
					case errors.Is(err, ax.ErrClosed):
						closed[task.ID] = true
					default:
						t.Errorf("submit: %v", err)
					}
					if len(written) == 300 {
						close(enough)
						written["stop"] = true
					}
					mu.Unlock()
					if errors.Is(err, ax.ErrClosed) {
						return
					}
				}
			})
		}
		<-enough
		require.NoError(t, cl.Close(t.Context()))
		wg.Wait()
		delete(written, "stop")
		for _, rec := range c.Records(t, r.Lane("normal")) {
			id := decode(t, rec).ID
			delete(written, id)
			require.NotContains(t, closed, id)
		}
		require.Empty(t, written, "a receipt without a record")
		require.NotEmpty(t, closed)
	}
}
