package delay_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
)

// moving is a broker's clock that is set right, or wrong, amid a test.
type moving struct{ off atomic.Int64 }

// OnFetchRecordBuffered implements kgo.HookFetchRecordBuffered.
func (m *moving) OnFetchRecordBuffered(r *kgo.Record) {
	r.Timestamp = r.Timestamp.Add(time.Duration(m.off.Load()))
}

// large makes tasks of which one fetch brings a few.
func large(ts []*ax.Task) []*ax.Task {
	for i, t := range ts {
		t.Payload = make([]byte, 2000)
		for j := range t.Payload {
			t.Payload[j] = byte(i * j)
		}
	}
	return ts
}

// A mover that knows nothing of a broker's clock yet, or something wrong, takes
// all that waits for what should have left long ago. A task that goes round
// comes back as fast as it is written, so that the partition is never read to
// its end, which would tell the clock.
func TestABacklogGoesRoundByNoBrokersClock(t *testing.T) {
	t.Parallel()
	for name, clocks := range map[string]struct{ before, then time.Duration }{
		"behind, and not known":      {0, -90 * time.Second},
		"set right after it was off": {90 * time.Second, 0},
		"behind after it was right":  {0, -10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}})
				tier, clock := b.r.Tiers()[1], &moving{}
				clock.off.Store(int64(clocks.before))
				m := b.mover(delay.WithKafka(kgo.WithHooks(clock)))
				time.Sleep(2 * time.Second)
				var all []*ax.Task
				if name != "behind, and not known" {
					for i := range 5 {
						one := tasks(fmt.Sprint("first", i), 1, "low", always(time.Now().Add(time.Second)))
						b.put(b.r.Near(), 0, one...)
						all = append(all, one...)
						time.Sleep(time.Second)
					}
				}
				require.NoError(t, m.m.Pause("1m"))
				clock.off.Store(int64(clocks.then))
				began := time.Now()
				const n = 3000
				some := leaving(began.Add(tier.Wait), large(tasks("t", n, "low", always(began.Add(2*time.Minute))))...)
				b.put(tier.Topic, 0, some...)
				require.NoError(t, m.m.Resume("1m"))
				time.Sleep(10 * time.Minute)
				b.requireOnTime(time.Second, append(all, some...)...)
				writes := b.count(tier.Topic) + b.count(b.r.Tiers()[0].Topic)
				require.Less(t, writes, int64(12*n), "they go round")
			})
		})
	}
}

// A pause, an operator's or one of ours, makes records old. That is not the
// broker's clock: what claims nothing waits by that, and would be late by as
// much.
func TestWhatWaitedForAPauseTellsNoClock(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}})
		m := b.mover()
		time.Sleep(2 * time.Second)
		b.put(b.r.Near(), 0, tasks("first", 1, "low", always(time.Now().Add(time.Second)))...)
		time.Sleep(2 * time.Second)
		require.NoError(t, m.m.Pause("near"))
		time.Sleep(time.Second)
		b.put(b.r.Near(), 0, tasks("held", 1, "low", always(time.Now().Add(time.Second)))...)
		time.Sleep(8 * time.Minute)
		b.put(b.r.Tiers()[1].Topic, 0, tasks("back", 1, "high", always(time.Now().Add(time.Minute)))...)
		time.Sleep(30 * time.Second)
		require.NoError(t, m.m.Resume("near"))
		time.Sleep(10 * time.Minute)
		require.Empty(t, m.m.Status().Warnings)
		for _, a := range b.arrived() {
			if a.ID == "back-0" {
				require.LessOrEqual(t, a.at.Sub(a.Due), time.Duration(0))
			}
		}
		require.Len(t, b.arrived(), 3)
	})
}

// The owner of the far tiers has a clock that is a minute ahead, that of the
// near tier doesn't: what the one takes for near is not so for the other.
func TestMoversWhoseClocksDisagreeDontPassATaskToAndFro(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		const ahead = time.Minute
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}})
		m := b.mover()
		require.NoError(t, m.m.Pause("5s"))
		require.NoError(t, m.m.Pause("1m"))
		time.Sleep(2 * time.Second)
		stop := b.farMover(ahead)
		const n = 10
		began := time.Now()
		all := tasks("t", n, "low", always(began.Add(62*time.Second)))
		b.put(b.r.Near(), 0, all...)
		time.Sleep(90 * time.Second)
		stop()
		require.Less(t, b.count(b.r.Near()), int64(12*n))
		for _, a := range b.arrived() {
			require.False(t, a.at.Before(a.Due.Add(-ahead-b.lead-time.Second)))
		}
	})
}

// farMover does what the far tiers' reader of a mover does whose clock is ahead.
func (b *bench) farMover(ahead time.Duration) (stop func()) {
	tiers := map[string]int{}
	var topics []string
	for i, tier := range b.r.Tiers() {
		tiers[tier.Topic] = i
		topics = append(topics, tier.Topic)
	}
	cl := b.c.Client(b.t, kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	move := func(tier int, task *ax.Task, appended time.Time) {
		leave := b.r.LeaveAt(b.r.Tiers()[tier], task.Leave, appended.Add(ahead))
		time.AfterFunc(max(5*time.Millisecond, time.Until(leave.Add(-ahead))), func() {
			at := task.Leave
			if at.IsZero() {
				at = leave
			}
			topic := b.r.Next(task, at, time.Now().Add(ahead))
			out := ax.Encode(task)
			out.Topic = topic
			b.raw.Produce(context.Background(), out, nil)
		})
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				if task, err := ax.Decode(r, [16]byte{}); err == nil {
					move(tiers[r.Topic], task, r.Timestamp)
				}
			})
		}
	}()
	return func() { cancel(); <-done }
}
