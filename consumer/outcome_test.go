package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// one runs a single task of kind "job", with two attempts and a back-off of
// exactly 10 s, and returns its starts and what the dead topic holds.
func one(t *testing.T, c *fakekafka.Cluster, h func(context.Context, *ax.Task) error, task ax.Task, opts ...producer.SubmitOption) ([]start, []*kgo.Record) {
	t.Helper()
	b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {
		Attempts: 2, Timeout: 5 * time.Second, Backoff: ax.Backoff{Delays: []time.Duration{10 * time.Second}},
	}}})
	var got starts
	mux := consumer.NewMux()
	mux.HandleFunc("job", func(ctx context.Context, t *ax.Task) error {
		got.add(t)
		return h(ctx, t)
	})
	b.worker(mux)
	b.mover()
	task.Kind = "job"
	b.submit(task, opts...)
	time.Sleep(2 * time.Minute)
	return got.list(), c.Records(t, b.r.Dead())
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func TestWhatAHandlerReturnsDecidesWhatFollows(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, tt := range []struct {
		name     string
		handler  func(context.Context, *ax.Task) error
		attempts []int           // of the starts
		gaps     []time.Duration // between them
		dead     ax.Reason       // empty: nothing enters the dead topic
	}{
		{"nil is done", func(context.Context, *ax.Task) error { return nil }, []int{1}, nil, ""},
		{
			"an error waits for the back-off, exactly where it is a list", func(context.Context, *ax.Task) error { return boom },
			[]int{1, 2}, []time.Duration{10 * time.Second}, ax.ReasonFailed,
		},
		{
			"RetryAfter waits exactly as long as it says", func(context.Context, *ax.Task) error { return ax.RetryAfter(1234*time.Millisecond, boom) },
			[]int{1, 2}, []time.Duration{1234 * time.Millisecond}, ax.ReasonFailed,
		},
		{
			"Permanent is dead at once, also wrapped", func(context.Context, *ax.Task) error { return fmt.Errorf("x: %w", ax.Permanent(boom)) },
			[]int{1}, nil, ax.ReasonPermanent,
		},
		{"Cancel ends without a trace in the dead topic", func(context.Context, *ax.Task) error { return ax.Cancel("gone") }, []int{1}, nil, ""},
		{
			"Snooze spends no attempt", func(_ context.Context, t *ax.Task) error {
				if t.Deferrals < 3 {
					return ax.Snooze(7 * time.Second)
				}
				return nil
			},
			[]int{1, 1, 1, 1}, []time.Duration{7 * time.Second, 7 * time.Second, 7 * time.Second}, "",
		},
		{
			"a panic is an attempt", func(context.Context, *ax.Task) error { panic("ouch") },
			[]int{1, 2}, []time.Duration{10 * time.Second}, ax.ReasonPanic,
		},
		{
			"a timeout is an attempt", func(ctx context.Context, _ *ax.Task) error {
				<-ctx.Done()
				if context.Cause(ctx) != ax.ErrTimeout {
					return ax.Cancel("wrong cause")
				}
				return ctx.Err()
			},
			[]int{1, 2}, []time.Duration{15 * time.Second}, ax.ReasonTimeout,
		},
		{
			"a run that succeeds after its timeout is done", func(ctx context.Context, _ *ax.Task) error {
				<-ctx.Done()
				return nil
			},
			[]int{1}, nil, "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				list, dead := one(t, c, tt.handler, ax.Task{Payload: []byte("p"), Key: "k", Headers: []ax.Header{{Name: "mine", Value: []byte("v")}}})
				var attempts []int
				var gaps []time.Duration
				runs := map[string]bool{}
				for i, s := range list {
					attempts = append(attempts, s.Attempt)
					runs[s.Run] = true
					require.Equal(t, "p", string(s.Payload))
					require.Equal(t, "k", s.Key)
					require.Equal(t, list[0].ID, s.ID)
					require.Equal(t, list[0].Submitted, s.Submitted)
					require.Equal(t, "mine", s.Headers[0].Name)
					if i > 0 {
						gaps = append(gaps, s.at.Sub(list[i-1].at))
					}
				}
				require.Equal(t, tt.attempts, attempts)
				require.Equal(t, tt.gaps, gaps)
				require.Len(t, runs, len(list), "each run has an id of its own")
				if tt.dead == "" {
					require.Empty(t, dead)
					return
				}
				require.Len(t, dead, 1)
				require.Equal(t, string(tt.dead), header(dead[0], ax.HeaderDeadReason))
				require.Equal(t, fmt.Sprint(len(tt.attempts)), header(dead[0], ax.HeaderDeadAttempt))
				require.Equal(t, "k", header(dead[0], ax.HeaderDeadKey))
				require.Equal(t, "v", header(dead[0], "mine"))
			})
		})
	}
}

func TestAnExpiredTaskNeverStarts(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		b.submit(ax.Task{Kind: "job"}, producer.Expires(time.Now().Add(time.Minute)))
		b.submit(ax.Task{Kind: "job", ID: "fresh"})
		time.Sleep(time.Minute)
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", got.handler(nil))
		w := b.worker(mux)
		time.Sleep(10 * time.Second)
		require.NoError(t, w.stop())
		require.Len(t, got.list(), 1)
		require.Equal(t, "fresh", got.list()[0].ID)
		require.Empty(t, c.Records(t, b.r.Dead()))
		b.requireCommitted("normal", 2)
	})
}

// A deploy where one binary lacks the kind costs no attempt and loses nothing.
func TestATaskOfAnUnknownKindWaitsWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		var got starts
		old := consumer.NewMux()
		old.HandleFunc("other", got.handler(nil))
		w := b.worker(old)
		b.mover()
		b.submit(ax.Task{Kind: "job"}, producer.Attempts(1))
		time.Sleep(3 * time.Minute)
		copies := 0
		for _, topic := range b.r.Topics() {
			copies += len(c.Records(t, topic))
		}
		require.Less(t, copies, 30, "it must not circle at the speed of the broker")
		require.NoError(t, w.stop())
		mux := consumer.NewMux()
		mux.HandleFunc("job", got.handler(nil))
		b.worker(mux)
		time.Sleep(2 * time.Minute)
		require.Len(t, got.list(), 1)
		require.Equal(t, 1, got.list()[0].Attempt)
		require.Greater(t, got.list()[0].Deferrals, 2)
		require.Empty(t, c.Records(t, b.r.Dead()))
	})
}

func TestARecordThatIsNoTaskGoesToTheDeadTopicAndBlocksNobody(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{})
		cl := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		bad := []*kgo.Record{
			{Topic: b.r.Lane("normal"), Value: []byte("no headers")},
			{Topic: b.r.Lane("normal"), Value: []byte("twice"), Headers: []kgo.RecordHeader{{Key: ax.HeaderKind, Value: []byte("job")}, {Key: ax.HeaderKind, Value: []byte("job")}}},
			{Topic: b.r.Near(), Value: []byte("bad due"), Headers: []kgo.RecordHeader{{Key: ax.HeaderKind, Value: []byte("job")}, {Key: ax.HeaderDue, Value: []byte("soon")}}},
			{Topic: b.r.Lane("normal"), Value: []byte("never due"), Headers: []kgo.RecordHeader{{Key: ax.HeaderKind, Value: []byte("job")}, {Key: ax.HeaderDue, Value: []byte("9999-01-01T00:00:00Z")}}},
			{Topic: b.r.Tiers()[0].Topic, Value: []byte("no kind"), Key: []byte("key"), Headers: []kgo.RecordHeader{{Key: "x", Value: []byte("y")}}},
		}
		require.NoError(t, cl.ProduceSync(t.Context(), bad...).FirstErr())
		bare := &kgo.Record{Topic: b.r.Lane("low"), Value: []byte("bare"), Headers: []kgo.RecordHeader{{Key: ax.HeaderKind, Value: []byte("job")}}}
		require.NoError(t, cl.ProduceSync(t.Context(), bare).FirstErr())
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", got.handler(nil))
		b.worker(mux)
		b.mover()
		b.submit(ax.Task{Kind: "job"})
		time.Sleep(10 * time.Second)
		dead := c.Records(t, b.r.Dead())
		require.Len(t, dead, 5)
		values := map[string]bool{}
		for _, r := range dead {
			require.Equal(t, string(ax.ReasonMalformed), header(r, ax.HeaderDeadReason))
			require.NotEmpty(t, header(r, ax.HeaderDeadError))
			values[string(r.Value)] = true
		}
		require.Len(t, values, 5)
		list := got.list()
		require.Len(t, list, 2)
		for _, s := range list {
			if string(s.Payload) == "bare" {
				require.Equal(t, "low", s.Lane)
				require.NotEmpty(t, s.ID)
			}
		}
	})
}

// A foreign client writes a task far from due into a lane: it must neither
// start early nor circle.
func TestATaskFarFromDueInALaneGoesBackToTheTiersAndRunsWhenDue(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Second, 4 * time.Second, 6 * time.Second, 20 * time.Second, 7 * time.Minute, 3 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Domain{})
				var got starts
				mux := consumer.NewMux()
				mux.HandleFunc("job", got.handler(nil))
				b.worker(mux, consumer.WithKafka(patient()...))
				b.mover(delay.WithKafka(patient()...))
				time.Sleep(time.Second)
				due := time.Now().Add(ahead)
				r := &kgo.Record{Topic: b.r.Lane("high"), Headers: []kgo.RecordHeader{
					{Key: ax.HeaderKind, Value: []byte("job")}, {Key: ax.HeaderDue, Value: []byte(due.UTC().Format(time.RFC3339Nano))},
				}}
				require.NoError(t, c.Client(t).ProduceSync(t.Context(), r).FirstErr())
				time.Sleep(ahead + time.Minute)
				list := got.list()
				require.Len(t, list, 1)
				require.Equal(t, due.UTC(), list[0].at.UTC())
				copies := 0
				for _, topic := range b.r.Topics() {
					copies += len(c.Records(t, topic))
				}
				require.Less(t, copies, 30)
				if ahead > b.domain.Delay.Tiers[0] {
					require.Greater(t, copies, 1, "what is far ahead must not wait in memory")
				}
			})
		})
	}
}

func TestAnOpenBreakerLetsTasksWaitWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Kinds: map[string]ax.Kind{"job": {Attempts: 3, Backoff: ax.Backoff{Delays: []time.Duration{2 * time.Second}}}}})
		var healthy atomic.Bool
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, t *ax.Task) error {
			got.add(t)
			if healthy.Load() {
				return nil
			}
			return errors.New("down")
		})
		mux.HandleFunc("other", got.handler(nil))
		b.worker(mux, consumer.WithBreaker(5, 10*time.Second), consumer.WithSlots(1))
		b.mover()
		const n = 20
		for range n {
			b.submit(ax.Task{Kind: "job"})
		}
		time.Sleep(time.Minute)
		failed := len(got.list())
		// 5 to trip it, then one probe for each time it was half open.
		require.Less(t, failed, 15)
		b.submit(ax.Task{Kind: "other", ID: "other"})
		time.Sleep(time.Second)
		// A probe may have come in the same second.
		require.True(t, slices.ContainsFunc(got.list()[failed:], func(s start) bool { return s.ID == "other" }), "other kinds go on")
		healthy.Store(true)
		healed := time.Now()
		time.Sleep(2 * time.Minute)
		done := map[string]bool{}
		for _, s := range got.list()[failed:] {
			if s.Kind == "job" && s.at.After(healed) {
				done[s.ID] = true
			}
		}
		dead := c.Records(t, b.r.Dead())
		require.Equal(t, n, len(done)+len(dead))
		require.LessOrEqual(t, len(dead), 5)
	})
}
