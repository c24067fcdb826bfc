package bench

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
)

// Each work, as small as can be, gives its figures, accounts for its tasks and
// leaves nothing behind.
func TestEveryWorkGivesItsFigures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  Config
		keys []string
	}{
		"drain": {Config{N: 2000, Pairs: 2}, []string{
			"submit_per_s", "raw_submit_per_s", "submit_ratio", "drain_per_s", "raw_drain_per_s", "drain_ratio",
			"cpu_us_per_task", "raw_cpu_us_per_task", "cpu_us_ratio", "submit_cpu_us_ratio", "raw_lost",
		}},
		"latency": {Config{Rate: 200, For: 300 * time.Millisecond, Pairs: 1}, []string{
			"sent", "wait_p50_ms", "wait_p99_ms", "wait_p999_ms", "raw_wait_p50_ms", "raw_wait_p99_ms", "wait_p99_ratio", "raw_lost",
		}},
		"delay": {Config{N: 200, Spread: 300 * time.Millisecond, Pairs: 1}, []string{
			"early", "late_p50_ms", "late_p99_ms", "late_p999_ms", "late_max_ms", "timer_late_p99_ms", "late_p99_ratio",
			"late_p99_over_ms", "late_p999_over_ms", "timer_alone_late_p99_ms",
		}},
		"priority": {Config{Rate: 100, For: 300 * time.Millisecond, Workers: 4, Pairs: 1}, []string{
			"critical_p99_ms", "raw_critical_p99_ms", "critical_p99_ratio", "critical_p99_over_ms", "low_per_s", "raw_low_per_s", "low_ratio", "raw_lost",
		}},
		"fair": {Config{For: 500 * time.Millisecond, Workers: 4}, []string{
			"share_error_points", "worst_wait_ms", "worst_wait_bound_ms", "share_percent_low",
		}},
		"far":   {Config{N: 300, Live: 100, For: 300 * time.Millisecond, Rest: 100 * time.Millisecond, Mover: child("mover")}, farKeys()},
		"idle":  {Config{For: 300 * time.Millisecond, Workers: 4}, []string{"cpu_percent", "lanes"}},
		"mixed": {Config{N: 100, Spread: 300 * time.Millisecond, Workers: 100}, []string{"early", "late_p99_ms", "timer_late_p99_ms"}},
		"burst": {Config{N: 500, Rate: 200, For: 2 * time.Second, Workers: 4, Pairs: 1}, []string{
			"critical_p99_ms", "calm_critical_p99_ms", "critical_p99_ratio", "critical_within_p99_ms", "burst_drain_s",
			"late_p50_ms", "late_p99_ms", "lane_most", "lane_bound", "early", "calm_lost", "submitted_before_due",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := fakekafka.Start(t)
			c.cfg.Work, c.cfg.Kafka = name, ax.Kafka{Brokers: cluster.Addrs()}
			r, err := Run(t.Context(), c.cfg)
			require.NoError(t, err)
			require.NoError(t, r.Err())
			for _, key := range c.keys {
				require.NotNil(t, r.Get(key), key)
			}
			require.EqualValues(t, 0, r.Get("doubled"))
			if name != "fair" {
				require.EqualValues(t, 0, r.Get("lost"))
			}
			require.Len(t, r.Get("runs"), max(c.cfg.Pairs, 1))
			requireNothingLeft(t, cluster)
		})
	}
}

func requireNothingLeft(t *testing.T, c *fakekafka.Cluster) {
	t.Helper()
	adm := c.Admin(t)
	topics, err := adm.ListTopics(t.Context())
	require.NoError(t, err)
	require.Empty(t, topics.Names())
	groups, err := adm.ListGroups(t.Context())
	require.NoError(t, err)
	require.Empty(t, groups.Groups())
}

// Who ends a run with Ctrl-C finds no topics of it later.
func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	cluster := fakekafka.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	writes := cluster.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1})
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for writes.Hits() < 3 && t.Context().Err() == nil {
			<-tick.C
		}
		cancel()
	})
	_, err := Run(ctx, Config{Work: "latency", Rate: 10, For: time.Hour, Kafka: ax.Kafka{Brokers: cluster.Addrs()}})
	require.ErrorIs(t, err, context.Canceled)
	requireNothingLeft(t, cluster)
}

// A role that ends by itself would otherwise leave the run waiting.
func TestARoleThatEndsByItselfEndsTheRun(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	ctx, fail := context.WithCancelCause(t.Context())
	g := &ground{Config: &Config{}, fail: fail}
	r := g.start(ctx, "worker", func(context.Context) error { return broken })
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), broken)
	require.ErrorContains(t, context.Cause(ctx), "the worker stopped by itself")
	require.ErrorIs(t, r.stop(), broken)

	ctx, fail = context.WithCancelCause(t.Context())
	g.fail = fail
	r = g.start(ctx, "worker", func(ctx context.Context) error { <-ctx.Done(); return nil })
	require.NoError(t, r.stop())
	require.NoError(t, ctx.Err(), "it was told to stop")
	fail(nil)
}
