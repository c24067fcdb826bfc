package producer_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// The Kafka client itself would wait for a silent broker for longer than
// anybody's deadline: it must not send a record twice.
func TestSilentBrokerGivesUnknownOutcomeSoonAfterTheDeadline(t *testing.T) {
	t.Parallel()
	for name, brokers := range map[string]int{"fast": 1, "safe": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				cl, _ := open(t, c, orders(), producer.WithTimeout(7*time.Second))
				require.NoError(t, cl.Ping(t.Context()))
				mute(c)
				soon := func(began time.Time, limit time.Duration, errs ...error) {
					t.Helper()
					took := time.Since(began)
					require.GreaterOrEqual(t, took, limit)
					require.LessOrEqual(t, took, limit+300*time.Millisecond)
					for _, err := range errs {
						require.Len(t, requireTaskError(t, err).ID, 36, "the id to submit again under")
						require.ErrorIs(t, err, ax.ErrUnknownOutcome)
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				_, err := cl.Submit(ctx, ax.Task{Kind: "k"})
				soon(began, time.Second, err)

				began = time.Now()
				_, err = cl.Submit(t.Context(), ax.Task{Kind: "k"})
				soon(began, 7*time.Second, err)

				// All together, and not a moment more for each.
				ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				began = time.Now()
				results := cl.SubmitMany(ctx, []ax.Task{{Kind: "a"}, {Kind: "b"}, {Kind: "c"}, {Kind: "d"}, {Kind: "e"}})
				soon(began, 2*time.Second, results[0].Err, results[1].Err, results[2].Err, results[3].Err, results[4].Err)
			}, fakekafka.Brokers(brokers))
		})
	}
}

// Records whose outcome was unknown are answered at the close, long after the
// caller had its results.
func TestLateAnswersDoNotTouchWhatTheCallerHas(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, _ := open(t, c, orders())
		_, err := cl.Submit(t.Context(), ax.Task{Kind: "k"})
		require.NoError(t, err)
		mute(c)
		tasks := make([]ax.Task, 150)
		for i := range tasks {
			if tasks[i].Kind = "k"; i%10 == 3 {
				tasks[i].Lane = "nowhere"
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		results := cl.SubmitMany(ctx, tasks)
		before := slices.Clone(results)
		closeSoon(t, cl)
		time.Sleep(time.Second)
		require.Equal(t, before, results)
		for i, r := range results {
			require.Zero(t, r.Receipt)
			want := ax.ErrUnknownOutcome
			if i%10 == 3 {
				want = ax.ErrUnknownLane
			}
			require.ErrorIs(t, r.Err, want, i)
			require.Len(t, requireTaskError(t, r.Err).ID, 36)
		}
	}, fakekafka.Brokers(2))
}

// The broker wrote the record, and its answer was lost: the client asks again,
// and idempotence keeps it at one record.
func TestLostAnswerIsNoSecondRecord(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t, fakekafka.Brokers(2))
	cl, r := open(t, c, orders())
	c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: 2})
	_, err := cl.Submit(t.Context(), ax.Task{Kind: "k"})
	require.NoError(t, err)
	require.Equal(t, 1, total(t, c, r))
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestNoBrokerIsNamedWithinTheDeadline(t *testing.T) {
	t.Parallel()
	addr := closedPort(t)
	cl := client(t, ax.Domain{Name: "orders", Kafka: ax.Kafka{Brokers: []string{addr}}})
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = cl.Submit(ctx, ax.Task{Kind: "k"}) })
	}
	wg.Wait()
	for _, err := range append(errs, cl.Ping(ctx)) {
		require.ErrorIs(t, err, ax.ErrUnreachable)
		require.NotErrorIs(t, err, ax.ErrUnknownOutcome)
		require.ErrorContains(t, err, addr)
	}
	requireTaskError(t, errs[0])
	require.Less(t, time.Since(began), 6*time.Second)
}

// A network that swallows packets: no refusal, only silence. Those who wait
// while another submit asks learn the reason too.
func TestSwallowedDialsAreUnreachableAtTheDeadline(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, _ *fakekafka.Cluster) {
		d := ax.Domain{Name: "orders", Kafka: ax.Kafka{Brokers: []string{"kafka.example:9092"}}}
		cl := client(t, d, producer.WithKafka(kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})))
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			wg.Go(func() { _, errs[i] = cl.Submit(ctx, ax.Task{Kind: "k"}) })
		}
		wg.Wait()
		require.Equal(t, 2*time.Second, time.Since(began))
		for _, err := range errs {
			require.ErrorIs(t, err, ax.ErrUnreachable)
			require.ErrorContains(t, err, "kafka.example:9092")
		}
	})
}

// Once a broker has been reached, the cluster goes away. The client may find
// out that nothing was sent, or not; what it says names the broker.
func TestClusterThatGoesAwayGivesNoReceipt(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, _ := open(t, c, orders())
		_, err := cl.Submit(t.Context(), ax.Task{Kind: "k"})
		require.NoError(t, err)
		c.Kfake().Close()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = cl.Submit(ctx, ax.Task{Kind: "k"})
		requireTaskError(t, err)
		require.True(t, errors.Is(err, ax.ErrUnreachable) || errors.Is(err, ax.ErrUnknownOutcome), "%v", err)
		require.ErrorContains(t, err, "localhost:909")
		require.LessOrEqual(t, time.Since(began), 5300*time.Millisecond)
	}, fakekafka.Brokers(2))
}

func TestCancelledSubmitBeforeAnyBrokerIsCancelledAndNotUnknown(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	cl, r := open(t, c, orders())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := cl.Submit(ctx, ax.Task{Kind: "k"})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ax.ErrUnknownOutcome)
	require.Zero(t, total(t, c, r))
}

// The same on real sockets, where the client dials again and again: what it
// says at the deadline names the broker or admits that it can't know.
func TestClusterThatGoesAwayOnRealPortsEndsWithTheDeadline(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t, fakekafka.Brokers(2))
	cl, _ := open(t, c, orders())
	_, err := cl.Submit(t.Context(), ax.Task{Kind: "k"})
	require.NoError(t, err)
	c.Kfake().Close()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = cl.Submit(ctx, ax.Task{Kind: "k"})
	requireTaskError(t, err)
	require.ErrorContains(t, err, "127.0.0.1:")
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestSubmitJSONEncodesThePayloadAndRefusesWhatJSONCannotHold(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		cl, _ := open(t, c, orders())
		receipt, err := cl.SubmitJSON(t.Context(), "k", map[string]int{"order": 7}, producer.Lane("high"))
		require.NoError(t, err)
		recs := c.Records(t, receipt.Topic)
		require.Len(t, recs, 1)
		require.JSONEq(t, `{"order":7}`, string(recs[0].Value))
		_, err = cl.SubmitJSON(t.Context(), "k", make(chan int))
		require.ErrorIs(t, err, ax.ErrInvalid)
		require.ErrorContains(t, err, `submit "k": payload`)
	})
}
