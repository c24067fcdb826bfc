package producer_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// jam fills a buffer of two tasks behind silent brokers. The result becomes
// false when the brokers may answer again.
func jam(t *testing.T, c *fakekafka.Cluster, cl *producer.Client) (silent, answered *atomic.Bool) {
	t.Helper()
	require.NoError(t, cl.Ping(t.Context()))
	silent, answered = mute(c), new(atomic.Bool)
	for range 2 {
		cl.SubmitAsync(context.Background(), ax.Task{Kind: "k"}, func(_ ax.Receipt, err error) { answered.Store(err == nil) })
	}
	return silent, answered
}

func TestBlockWaitsForRoomUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, _ := open(t, c, orders(), producer.WithBuffer(2, 1<<20), producer.WithTimeout(time.Hour))
		silent, _ := jam(t, c, cl)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := cl.Submit(ctx, ax.Task{Kind: "k"})
		requireTaskError(t, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ax.ErrUnknownOutcome, "it was never handed over")
		require.Equal(t, 3*time.Second, time.Since(began))

		silent.Store(false)
		_, err = cl.Submit(t.Context(), ax.Task{Kind: "k"})
		require.NoError(t, err, "room comes when the brokers answer")
	}, fakekafka.Brokers(2))
}

// The buffer's bytes bound tasks together; one alone may be larger.
func TestTaskLargerThanTheBufferIsSentAlone(t *testing.T) {
	t.Parallel()
	for _, full := range []producer.Full{producer.Block(), producer.Busy()} {
		c := fakekafka.Start(t)
		cl, _ := open(t, c, orders(), producer.WithBuffer(10, 1000), producer.WithFull(full))
		for range 3 {
			_, err := cl.Submit(t.Context(), ax.Task{Kind: "k", Payload: make([]byte, 100_000)})
			require.NoError(t, err)
		}
	}
}

func TestBufferIsBoundedInBytesToo(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, _ := open(t, c, orders(), producer.WithBuffer(100, 3000), producer.WithFull(producer.Busy()))
		require.NoError(t, cl.Ping(t.Context()))
		mute(c)
		var busy atomic.Int32
		for range 5 {
			cl.SubmitAsync(t.Context(), ax.Task{Kind: "k", Payload: make([]byte, 1000)}, func(_ ax.Receipt, err error) {
				if errors.Is(err, ax.ErrBusy) {
					busy.Add(1)
				}
			})
		}
		require.EqualValues(t, 2, busy.Load(), "3 of 1000 bytes fit")
		closeSoon(t, cl)
	})
}

func TestBusyRefusesAtOnceAndTakesTasksAgainLater(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, r := open(t, c, orders(), producer.WithBuffer(2, 1<<20), producer.WithFull(producer.Busy()), producer.WithTimeout(time.Hour))
		silent, answered := jam(t, c, cl)
		began := time.Now()
		_, err := cl.Submit(t.Context(), ax.Task{Kind: "k", ID: "third"})
		require.Equal(t, "third", requireTaskError(t, err).ID)
		require.ErrorIs(t, err, ax.ErrBusy)
		require.Zero(t, time.Since(began))

		silent.Store(false)
		time.Sleep(time.Minute)
		require.True(t, answered.Load())
		_, err = cl.Submit(t.Context(), ax.Task{Kind: "k"})
		require.NoError(t, err)
		require.Equal(t, 3, total(t, c, r), "the refused one was not written")
	}, fakekafka.Brokers(2))
}

func TestDropReportsTheTask(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		var dropped []string
		report := func(task *ax.Task) { dropped = append(dropped, task.ID) }
		cl, _ := open(t, c, orders(), producer.WithBuffer(2, 1<<20), producer.WithFull(producer.Drop(report)))
		jam(t, c, cl)
		_, err := cl.Submit(t.Context(), ax.Task{Kind: "k", ID: "third"})
		require.ErrorIs(t, err, ax.ErrDropped)
		require.NotErrorIs(t, err, ax.ErrUnknownOutcome)
		require.Equal(t, []string{"third"}, dropped)
		closeSoon(t, cl)
	})
}

func TestDropWithoutAReportOnlyDrops(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, _ := open(t, c, orders(), producer.WithBuffer(2, 1<<20), producer.WithFull(producer.Drop(nil)))
		jam(t, c, cl)
		_, err := cl.Submit(t.Context(), ax.Task{Kind: "k"})
		require.ErrorIs(t, err, ax.ErrDropped)
		closeSoon(t, cl)
	})
}

// goroutine returns the id of the calling goroutine, for tests alone.
func goroutine() string {
	var b [64]byte
	id, _, _ := strings.Cut(string(b[:runtime.Stack(b[:], false)]), "[")
	return id
}

func TestCallRunsInTheCallersGoroutine(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		refuse := errors.New("not today")
		var where string
		var got *ax.Task
		call := producer.Call(func(_ context.Context, task *ax.Task) error {
			where, got = goroutine(), task
			if task.Key == "refused" {
				return refuse
			}
			return nil
		})
		cl, _ := open(t, c, orders(), producer.WithBuffer(2, 1<<20), producer.WithFull(call))
		jam(t, c, cl)
		receipt, err := cl.Submit(t.Context(), ax.Task{Kind: "order.close", ID: "third", Payload: []byte("x")})
		require.NoError(t, err)
		require.Equal(t, goroutine(), where)
		require.Equal(t, "third", receipt.ID)
		require.Empty(t, receipt.Topic)
		require.Equal(t, "high", got.Lane)
		require.Equal(t, "x", string(got.Payload))

		_, err = cl.Submit(t.Context(), ax.Task{Kind: "k", Key: "refused"})
		require.ErrorIs(t, err, refuse)
		requireTaskError(t, err)
		closeSoon(t, cl)
	})
}

// The buffer's count never leaks, whatever the answer is.
func TestEveryAnswerGivesItsRoomBack(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, _ := open(t, c, orders(), producer.WithBuffer(2, 10_000), producer.WithFull(producer.Busy()))
		for i := range 50 {
			silent := mute(c)
			silent.Store(i%5 == 0)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := cl.Submit(ctx, ax.Task{Kind: "k", Payload: make([]byte, 4000)})
			cancel()
			require.NotErrorIs(t, err, ax.ErrBusy)
			silent.Store(false)
			time.Sleep(time.Minute)
		}
	})
}
