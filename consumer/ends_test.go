package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fakekafka"
)

// end is where a task ended, and after which starts.
type end struct {
	attempts []int // of its starts
	dead     ax.Reason
}

// What a handler does at the first start, by the name of its kind. At any other it
// returns nil.
var doings = map[string]func(context.Context) error{
	"done":       func(context.Context) error { return nil },
	"fails":      func(context.Context) error { return errors.New("no") },
	"retryafter": func(context.Context) error { return ax.RetryAfter(10*time.Second, errors.New("no")) },
	"snoozes":    func(context.Context) error { return ax.Snooze(10 * time.Second) },
	"permanent":  func(context.Context) error { return ax.Permanent(errors.New("no")) },
	"cancels":    func(context.Context) error { return ax.Cancel("no") },
	"panics":     func(context.Context) error { panic("no") },
	"timesout":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	"deaf":       func(context.Context) error { time.Sleep(3 * time.Minute); return nil },
}

// Each outcome, under each circumstance, ends in exactly one place, after just
// so many starts of these attempts.
func TestEachOutcomeEndsInOnePlaceWhateverTheCircumstance(t *testing.T) {
	t.Parallel()
	same := func(attempts ...int) map[string]end {
		out := map[string]end{}
		for kind := range doings {
			out[kind] = end{attempts: attempts}
		}
		return out
	}
	with := func(base, change map[string]end) map[string]end {
		maps.Copy(base, change)
		return base
	}
	for name, tt := range map[string]struct {
		attempts int
		expires  time.Duration
		held     bool // the breaker, for the first minute
		want     map[string]end
	}{
		"attempts are left": {attempts: 2, want: with(same(1, 2), map[string]end{
			"done": {attempts: []int{1}}, "snoozes": {attempts: []int{1, 1}}, "cancels": {attempts: []int{1}},
			"permanent": {[]int{1}, ax.ReasonPermanent}, "deaf": {[]int{1}, ax.ReasonDeaf},
		})},
		"it is the last attempt": {attempts: 1, want: map[string]end{
			"done": {attempts: []int{1}}, "snoozes": {attempts: []int{1, 1}}, "cancels": {attempts: []int{1}},
			"permanent": {[]int{1}, ax.ReasonPermanent}, "deaf": {[]int{1}, ax.ReasonDeaf}, "fails": {[]int{1}, ax.ReasonFailed},
			"retryafter": {[]int{1}, ax.ReasonFailed}, "panics": {[]int{1}, ax.ReasonPanic}, "timesout": {[]int{1}, ax.ReasonTimeout},
		}},
		"it expires before the next start": {attempts: 2, expires: 5 * time.Second, want: with(same(1), map[string]end{
			"permanent": {[]int{1}, ax.ReasonPermanent}, "deaf": {[]int{1}, ax.ReasonDeaf},
		})},
		// What has waited for the breaker has a deferral, and does not snooze.
		"the breaker is open at first": {attempts: 2, held: true, want: with(same(1, 2), map[string]end{
			"done": {attempts: []int{1}}, "snoozes": {attempts: []int{1}}, "cancels": {attempts: []int{1}},
			"permanent": {[]int{1}, ax.ReasonPermanent}, "deaf": {[]int{1}, ax.ReasonDeaf},
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				d := ax.Domain{Kinds: map[string]ax.Kind{}}
				for kind := range doings {
					d.Kinds[kind] = ax.Kind{
						Attempts: tt.attempts, Expires: tt.expires, Timeout: 20 * time.Second, Backoff: ax.Backoff{Delays: []time.Duration{10 * time.Second}},
					}
				}
				b := newBench(t, c, d)
				var got starts
				w, err := consumer.New(b.domain, doingMux(&got), consumer.WithKafka(c.Opts()...), consumer.WithDeaf(5*time.Second, time.Minute))
				require.NoError(t, err)
				hold := func(h consumer.Hold) {
					require.NoError(t, w.Change(func(s *consumer.Settings) {
						for i := range s.Kinds {
							s.Kinds[i].Breaker = h
						}
					}))
				}
				if tt.held {
					hold(consumer.HoldOpen)
				}
				run(t, w.Run)
				b.mover()
				for kind := range doings {
					b.submit(ax.Task{Kind: kind, ID: kind})
				}
				if tt.held {
					time.Sleep(time.Minute)
					require.Empty(t, got.list())
					hold(consumer.Auto)
				}
				time.Sleep(6 * time.Minute)
				require.Equal(t, tt.want, ends(t, b, &got))
			})
		})
	}
}

func doingMux(got *starts) *consumer.Mux {
	mux := consumer.NewMux()
	for kind, do := range doings {
		mux.HandleFunc(kind, func(ctx context.Context, t *ax.Task) error {
			got.add(t)
			if t.Attempt > 1 || t.Deferrals > 0 && kind == "snoozes" {
				return nil
			}
			return do(ctx)
		})
	}
	return mux
}

// ends returns where each kind's task ended.
func ends(t *testing.T, b *bench, got *starts) map[string]end {
	out := map[string]end{}
	for _, s := range got.list() {
		e := out[s.ID]
		e.attempts = append(e.attempts, s.Attempt)
		out[s.ID] = e
	}
	for _, r := range b.c.Records(t, b.r.Dead()) {
		e := out[header(r, ax.HeaderID)]
		require.Empty(t, e.dead, "it is dead twice")
		e.dead = ax.Reason(header(r, ax.HeaderDeadReason))
		require.Equal(t, fmt.Sprint(e.attempts[len(e.attempts)-1]), header(r, ax.HeaderDeadAttempt))
		out[header(r, ax.HeaderID)] = e
	}
	return out
}

// A stop ends runs that would have ended in any other way: none of them has
// spent an attempt, and the next worker starts each once more. Only what has
// succeeded all the same is over.
func TestAStopGoesBeforeWhatTheHandlerWouldHaveReturned(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		d := ax.Domain{Kinds: map[string]ax.Kind{}}
		for kind := range doings {
			d.Kinds[kind] = ax.Kind{Attempts: 1, Timeout: time.Hour}
		}
		b := newBench(t, c, d)
		var first, second starts
		mux := consumer.NewMux()
		for kind, do := range doings {
			mux.HandleFunc(kind, func(ctx context.Context, t *ax.Task) error {
				first.add(t)
				<-ctx.Done()
				if kind == "deaf" {
					return nil
				}
				return do(ctx)
			})
		}
		w := b.worker(mux, consumer.WithGrace(2*time.Second))
		for kind := range doings {
			b.submit(ax.Task{Kind: kind, ID: kind})
		}
		time.Sleep(5 * time.Second)
		require.NoError(t, w.stop())
		require.Len(t, first.list(), len(doings))
		again := consumer.NewMux()
		for kind := range doings {
			again.HandleFunc(kind, func(_ context.Context, t *ax.Task) error { second.add(t); return nil })
		}
		b.worker(again)
		time.Sleep(time.Minute)
		want := map[string]int{}
		for kind := range doings {
			if kind != "done" && kind != "deaf" { // these have returned nil
				want[kind] = 1
			}
		}
		have := map[string]int{}
		for _, s := range second.list() {
			have[s.ID]++
			require.Equal(t, 1, s.Attempt)
		}
		require.Equal(t, want, have)
		require.Empty(t, c.Records(t, b.r.Dead()))
	})
}
