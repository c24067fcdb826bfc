package delay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/fakekafka"
)

// runs is a handler that notes when tasks start.
type runs struct {
	t      *testing.T
	starts chan *ax.Task
}

func (r runs) HandleTask(_ context.Context, task *ax.Task) error {
	if now := clock.Now(); now.Before(task.Due) {
		r.t.Errorf("task %s starts %s early", task.ID, task.Due.Sub(now))
	}
	r.starts <- task
	return nil
}

// worker runs tasks until the test ends.
func (b *bench) worker(opts ...kgo.Opt) runs {
	b.t.Helper()
	r := runs{b.t, make(chan *ax.Task, 10_000)}
	mux := consumer.NewMux()
	mux.Handle("job", r)
	w, err := consumer.New(b.domain, mux, consumer.WithKafka(append(b.c.Opts(), opts...)...), consumer.WithLogger(b.log))
	require.NoError(b.t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	b.t.Cleanup(func() { stop(); require.NoError(b.t, <-done) })
	return r
}

// More than a year, four days a hop. There is a mover for some seconds of these
// only, another one each time, and it comes at the last moment: neither the
// little that makes records late nor the tenth by which they leave early may add
// up. (The router's tests simulate four hundred hops.)
func TestAWaitOf400DaysTakesItsHopsOnPaperAndIsOnTime(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		const tier, times = 96 * time.Hour, 100
		b := silent(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, 30 * time.Second, time.Minute, time.Hour, tier}})
		var all []*ax.Task
		began := time.Now()
		want := map[string]int64{}
		for i, less := range []time.Duration{0, time.Millisecond, 20 * time.Second, 90 * time.Second} {
			wait := times*tier - less
			task := tasks(fmt.Sprint("t", i), 1, "low", always(began.Add(wait)))[0]
			b.put(b.r.Next(task, began, began), 0, task)
			for _, topic := range b.r.Hops(wait) {
				want[topic]++
			}
			all = append(all, task)
		}
		b.raw.Close() // its idle housekeeping would take most of the year
		longest := b.r.Tiers()[4]
		for i := 1; i < times; i++ {
			leave := began.Add(time.Duration(i) * longest.Wait)
			time.Sleep(time.Until(leave.Add(-time.Second + time.Duration(i%4)*300*time.Millisecond)))
			m := b.mover()
			time.Sleep(2 * time.Second)
			require.NoError(t, m.stop())
		}
		// Waits of whole tiers are short of as many windows, which are spent in
		// shorter tiers.
		time.Sleep(time.Until(began.Add(times*longest.Wait - time.Second)))
		b.listen()
		b.mover()
		time.Sleep(3 * time.Minute)
		for topic, n := range want {
			require.Equal(t, n, b.count(topic), topic)
		}
		b.requireOnTime(0, all...)
	})
}

// A deploy restarts all at once. What is due meanwhile doesn't wait for any
// turn of theirs.
func TestFiftyMoversThatRestartAtOnceMoveTheFirstDueTaskAtOnce(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second}, NearPartitions: 4})
		const n = 50
		ms := make([]*running, n)
		for i := range ms {
			ms[i] = b.mover()
		}
		time.Sleep(20 * time.Second)
		for _, m := range ms {
			m.cancel()
		}
		var all []*ax.Task
		for p := range int32(4) {
			some := tasks(fmt.Sprint("p", p), 20, "low", always(time.Now().Add(time.Second)))
			b.put(b.r.Near(), p, some...)
			all = append(all, some...)
		}
		for _, m := range ms {
			require.NoError(t, m.stop())
		}
		for i := range ms {
			ms[i] = b.mover()
		}
		time.Sleep(20 * time.Second)
		b.requireOnTime(5*time.Second, all...)
	})
}

// Every five minutes another mover comes and one goes, for two hours: a wait is
// not copied by that, and members don't drop out.
func TestAWaitOfHoursWithAnotherMoverEachFewMinutesIsMovedOnce(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Hour, 2 * time.Hour}, Partitions: 3, NearPartitions: 3})
		tier, began := b.r.Tiers()[2], time.Now()
		var all []*ax.Task
		for p := range int32(3) {
			some := leaving(began.Add(tier.Wait), tasks(fmt.Sprint("p", p), 100, "low", always(began.Add(2*time.Hour)))...)
			b.put(tier.Topic, p, some...)
			all = append(all, some...)
		}
		ms := []*running{b.mover(patient()), b.mover(patient())}
		for range 23 {
			time.Sleep(5 * time.Minute)
			ms = append(ms, b.mover(patient()))
			require.NoError(t, ms[0].stop())
			ms = ms[1:]
		}
		require.Empty(t, b.arrived())
		time.Sleep(10 * time.Minute)
		b.requireOnTime(2*time.Minute, all...) // waits of patient fetches
		require.EqualValues(t, len(all), b.count(b.r.Near()))
	})
}

// Five movers share a tier while members change all the time.
func TestDueTasksAreSharedAndEachIsMovedOnce(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second}, NearPartitions: 10})
		var ms []*running
		for range 5 {
			ms = append(ms, b.mover())
		}
		time.Sleep(5 * time.Second)
		var all []*ax.Task
		for i := range 40 {
			for p := range int32(10) {
				some := tasks(fmt.Sprint(i, "-", p), 10, "low", always(time.Now().Add(time.Second)))
				b.put(b.r.Near(), p, some...)
				all = append(all, some...)
			}
			if i%4 == 0 {
				require.NoError(t, ms[0].stop())
				ms = append(ms[1:], b.mover())
			}
			time.Sleep(500 * time.Millisecond)
		}
		moved := 0
		for _, m := range ms {
			if tier(t, m.m.Status(), "near").Moved > 0 {
				moved++
			}
		}
		require.Greater(t, moved, 2)
		time.Sleep(10 * time.Second)
		b.requireOnTime(3*time.Second, all...)
	})
}
