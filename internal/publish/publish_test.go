package publish_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/publish"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const topic = "t"

// writer is a publisher at work, with the tries that its broker sees.
type writer struct {
	*publish.Publisher
	t  *testing.T
	c  *fakekafka.Cluster
	cl *kgo.Client

	mu      sync.Mutex
	answers []answer
	tries   []time.Time // of writes to the topic
}

type answer struct {
	value string
	err   error
	at    time.Time
}

func write(t *testing.T, c *fakekafka.Cluster, configs map[string]string, opts ...kgo.Opt) *writer {
	t.Helper()
	require.NoError(t, c.Kfake().CreateTopic(topic, 2, configs))
	w := &writer{t: t, c: c}
	w.cl = c.Client(t, append([]kgo.Opt{kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression())}, opts...)...)
	w.Publisher = publish.New(w.cl, &kafka.Watch{}, slog.New(slog.DiscardHandler))
	c.Kfake().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		w.mu.Lock()
		w.tries = append(w.tries, time.Now())
		w.mu.Unlock()
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return w
}

func record(value string) *kgo.Record { return &kgo.Record{Topic: topic, Value: []byte(value)} }

func (w *writer) done(r *kgo.Record, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = append(w.answers, answer{string(r.Value), err, time.Now()})
}

func (w *writer) answered() []answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.answers)
}

func (w *writer) tried() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tries)
}

func refuse(c *fakekafka.Cluster, count int) *kfake.FaultHandle {
	return c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: count})
}

func TestAnAcknowledgedRecordIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, nil)
		r := record("a")
		r.Timestamp = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)
		w.Send(r, w.done)
		require.NoError(t, w.Flush(t.Context()))
		time.Sleep(time.Minute)
		require.Len(t, w.answered(), 1)
		require.NoError(t, w.answered()[0].err)
		require.Zero(t, w.Open())
		rs := c.Records(t, topic)
		require.Len(t, rs, 1)
		require.Less(t, rs[0].Timestamp.Year(), 2050, "a record's own time could make a broker refuse its batch")
	})
}

func TestADefiniteFailureIsTriedAgainWithGrowingWaits(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, nil)
		const failures = 12
		refuse(c, failures)
		began := time.Now()
		w.Send(record("a"), w.done)
		require.Equal(t, 1, w.Open())
		time.Sleep(time.Minute)
		tries := w.tried()
		require.Len(t, tries, failures+1)
		require.Equal(t, began, tries[0])
		want := 50 * time.Millisecond
		for i := range failures {
			wait := tries[i+1].Sub(tries[i])
			require.GreaterOrEqual(t, wait, want/2, "wait %d", i)
			require.Less(t, wait, want, "wait %d", i)
			want = min(2*want, 5*time.Second)
		}
		require.Len(t, w.answered(), 1)
		require.NoError(t, w.answered()[0].err)
		require.Len(t, c.Records(t, topic), 1)
		require.Zero(t, w.Open())
	})
}

// While a broker may hold the record, a second publish would be a copy.
func TestARecordWhoseOutcomeIsUnknownIsNotPublishedAgain(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, nil)
		// The broker writes the batch and says that time ran out.
		c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.RequestTimedOut, Count: 5})
		for i := range 20 {
			w.Send(record(fmt.Sprint(i)), w.done)
		}
		time.Sleep(time.Minute)
		require.Len(t, w.answered(), 20)
		require.Len(t, c.Records(t, topic), 20)
	})
}

func TestARecordThatCanNotBeWrittenIsAnsweredWithErrNever(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, map[string]string{"max.message.bytes": "3000"}, kgo.ProducerBatchMaxBytes(5000))
		values := map[string]string{
			"refused by the broker": strings.Repeat("b", 4000),
			"refused by the client": strings.Repeat("c", 6000),
		}
		for _, v := range values {
			w.Send(record(v), w.done)
		}
		require.NoError(t, w.Flush(t.Context()))
		list := w.answered()
		require.Len(t, list, 2)
		for _, a := range list {
			require.ErrorIs(t, a.err, publish.ErrNever)
			require.ErrorIs(t, a.err, kerr.MessageTooLarge)
		}
		require.Empty(t, c.Records(t, topic))
	})
}

// A broker refuses the whole batch for one record in it.
func TestOneRecordThatIsTooLargeDoesNotTakeItsNeighboursAlong(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, map[string]string{"max.message.bytes": "3000"})
		for i := range 100 {
			value := fmt.Sprint(i)
			if i%25 == 10 {
				value = strings.Repeat("b", 4000)
			}
			w.Send(record(value), w.done)
		}
		require.NoError(t, w.Flush(t.Context()))
		never := 0
		for _, a := range w.answered() {
			if a.err != nil {
				require.ErrorIs(t, a.err, publish.ErrNever)
				require.Len(t, a.value, 4000)
				never++
			}
		}
		require.Equal(t, 4, never)
		require.Len(t, c.Records(t, topic), 96)
	})
}

func TestAClosedClientAnswersNothing(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, nil)
		refuse(c, -1)
		w.Send(record("a"), w.done)
		time.Sleep(time.Second)
		w.cl.Close()
		w.Send(record("b"), w.done)
		time.Sleep(time.Minute)
		require.Empty(t, w.answered(), "its source would be finished")
		require.Zero(t, w.Open())
	})
}

func TestWhatIsNoLongerOwnedIsGivenUpAfterADefiniteFailureOnly(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, nil)
		var owned atomic.Bool
		owned.Store(true)
		fault := refuse(c, -1)
		w.SendWhile(owned.Load, record("a"), w.done)
		w.QueueWhile(owned.Load, record("b"), w.done)
		w.Send(record("c"), w.done)
		time.Sleep(10 * time.Second)
		require.Empty(t, w.answered())
		owned.Store(false)
		time.Sleep(10 * time.Second)
		require.Len(t, w.answered(), 2)
		for _, a := range w.answered() {
			require.ErrorIs(t, a.err, publish.ErrGivenUp)
		}
		fault.Remove()
		time.Sleep(10 * time.Second)
		rs := c.Records(t, topic)
		require.Len(t, rs, 1)
		require.Equal(t, "c", string(rs[0].Value))
		require.Zero(t, w.Open())
	})
}

// Where the client's buffer is full, the record waits its turn and nobody
// blocks.
func TestSendNeverBlocksAndAFullBufferLosesNothing(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, nil, kgo.MaxBufferedRecords(10))
		began := time.Now()
		for i := range 500 {
			w.Send(record(fmt.Sprint(i)), w.done)
		}
		require.Equal(t, began, time.Now())
		require.NoError(t, w.Flush(t.Context()))
		require.Len(t, w.answered(), 500)
		require.Len(t, c.Records(t, topic), 500)
	})
}

func TestQueueSendsFromWithinADoneFunction(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, nil)
		n := 0 // the client's promises run one at a time
		var again func(*kgo.Record, error)
		again = func(r *kgo.Record, err error) {
			w.done(r, err)
			if n++; n < 100 {
				w.Queue(record(fmt.Sprint(n)), again)
			}
		}
		began := time.Now()
		w.Send(record("first"), again)
		time.Sleep(time.Second)
		require.Len(t, w.answered(), 100)
		require.Len(t, c.Records(t, topic), 100)
		require.Equal(t, began, w.answered()[99].at, "no wait in between")
	})
}

func TestFlushWaitsForAnswersAndNotForEver(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, nil)
		require.NoError(t, w.Flush(t.Context()), "nothing is open")
		fault := refuse(c, -1)
		w.Send(record("a"), w.done)
		gone := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, w.Flush(ctx), gone)
		require.Equal(t, time.Second, time.Since(began))
		fault.Remove()
		require.NoError(t, w.Flush(t.Context()))
		require.Len(t, w.answered(), 1)
	})
}

// One failed write must not send its neighbours again.
func TestTenThousandRecordsWithRandomFailuresAreEachWrittenOnce(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, nil, kgo.MaxBufferedRecords(1000), kgo.ProducerBatchMaxBytes(2000))
		var calls atomic.Int64
		c.Kfake().Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1,
			When: func(kmsg.Request) bool { return calls.Add(1)*2654435761>>7%3 == 0 },
		})
		const n = 10_000
		for i := range n {
			w.Send(record(fmt.Sprint(i)), w.done)
			if i%500 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		require.NoError(t, w.Flush(t.Context()))
		require.Greater(t, calls.Load(), int64(20))
		require.Len(t, w.answered(), n)
		seen := map[string]bool{}
		for _, r := range c.Records(t, topic) {
			require.False(t, seen[string(r.Value)], "%s is there twice", r.Value)
			seen[string(r.Value)] = true
		}
		require.Len(t, seen, n)
	})
}

// A topic that comes later is no reason to give up.
func TestARecordWaitsForItsTopic(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		w := write(t, c, nil)
		r := record("a")
		r.Topic = "later"
		w.Send(r, w.done)
		time.Sleep(time.Minute)
		require.Empty(t, w.answered())
		_, err := kadm.NewClient(w.cl).CreateTopic(t.Context(), 1, 1, nil, "later")
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		require.Len(t, w.answered(), 1)
		require.Len(t, c.Records(t, "later"), 1)
	})
}
