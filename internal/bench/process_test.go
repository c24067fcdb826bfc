package bench

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/router"
	"github.com/axtasks/ax/spec"
)

// farKeys are the figures of the far work that this system can tell.
func farKeys() []string {
	keys := []string{"late_p99_ms", "early", "mover_before_leave", "live_partitions", "live_before_backlog"}
	if runtime.GOOS == "linux" {
		keys = append(keys, "rss_idle_mb", "rss_max_mb", "rss_growth_mb", "cpu_percent", "idle_cpu_percent")
	}
	return keys
}

// standing returns what a process needs to stand on.
func standing(t *testing.T, as string) (*ground, context.Context) {
	t.Helper()
	ctx, fail := context.WithCancelCause(t.Context())
	t.Cleanup(func() { fail(nil) })
	r, err := router.New(ax.Domain{Name: "bench", Kafka: ax.Kafka{
		Brokers: []string{"127.0.0.1:1"}, SASL: ax.SASL{Mechanism: "PLAIN", User: "u", Password: "hunter2"},
	}})
	require.NoError(t, err)
	return &ground{Config: &Config{Mover: child(as)}, fail: fail, router: r}, ctx
}

func TestAProcessThatEndsByItselfEndsTheRunAndTellsItsLastWords(t *testing.T) {
	t.Parallel()
	g, ctx := standing(t, "broken")
	p, err := g.process(ctx)
	require.NoError(t, err)
	<-ctx.Done()
	require.ErrorContains(t, context.Cause(ctx), "the mover's process ended by itself: exit status 3: no such thing")
	require.Equal(t, context.Cause(ctx), p.ready(ctx))
	require.ErrorContains(t, p.end(), "exit status 3: no such thing")
}

func TestAProcessIsWaitedForUntilTheRunEnds(t *testing.T) {
	t.Parallel()
	g, ctx := standing(t, "deaf")
	p, err := g.process(ctx)
	require.NoError(t, err)
	within, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.ready(within), context.DeadlineExceeded)
	require.NoError(t, p.end())
	require.NoError(t, p.end(), "a second time")
	require.NoError(t, ctx.Err(), "it was told to stop")
}

func TestWithoutAMoverToStartTheFarWorkFails(t *testing.T) {
	t.Parallel()
	g, ctx := standing(t, "")
	g.Mover = nil
	_, err := g.process(ctx)
	require.ErrorContains(t, err, "no command is known")
}

func TestTheFileForAProcessHoldsTheDomainAndNoSecret(t *testing.T) {
	g, _ := standing(t, "")
	path, err := g.specFile()
	require.NoError(t, err)
	defer os.RemoveAll(filepath.Dir(path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(text), "sasl")
	for _, name := range []string{"AX_KAFKA", "AX_SASL_MECHANISM", "AX_SASL_USER", "AX_SASL_PASSWORD"} {
		t.Setenv(name, "")
	}
	d, err := spec.Load(path)
	require.NoError(t, err)
	want := g.router.Domain()
	want.Kafka = d.Kafka
	require.Equal(t, want, d.WithDefaults())
	require.Equal(t, []string{"127.0.0.1:1"}, d.Kafka.Brokers)
}

func TestProcessorTimeIsReadBehindTheNameOfTheProgram(t *testing.T) {
	t.Parallel()
	got, ok := cpuTimeIn([]byte("7 (a) b) 1 2) S 1 7 7 0 -1 4194560 1 0 0 0 12 30 99 99 20 0 5 0 123 456"))
	require.True(t, ok)
	require.Equal(t, 420*time.Millisecond, got)
	for _, bad := range []string{"", "7 (ax) S 1 2", "7 (ax) S 1 7 7 0 -1 4194560 1 0 0 0 x 30 99", "7 (ax) S 1 7 7 0 -1 4194560 1 0 0 0 12 y 99"} {
		_, ok := cpuTimeIn([]byte(bad))
		require.False(t, ok, bad)
	}
}

// Not parallel: what other tests give back would be missed in what this takes.
func TestMemoryAndProcessorTimeAreMeasured(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	if runtime.GOOS != "linux" {
		t.Skip("this system does not tell")
	}
	_, ok := residentBytes(self)
	require.True(t, ok)
	m := watchMemory("self")
	block := make([]byte, 64<<20)
	for i := range block {
		block[i] = byte(i)
	}
	for _, cpu := range []func() (time.Duration, bool){cpuTime, func() (time.Duration, bool) { return cpuTimeOf(self) }} {
		before, ok := cpu()
		require.True(t, ok)
		require.Eventually(t, func() bool { now, _ := cpu(); return now > before }, 10*time.Second, time.Millisecond)
	}
	require.NoError(t, run(t.Context(), 300*time.Millisecond))
	before, most, ok := m.stop()
	require.True(t, ok)
	require.Greater(t, most-before, len(block)/2)
	_, again, _ := m.stop()
	require.Equal(t, most, again)
	runtime.KeepAlive(block)
}

func TestMemoryThatStaysIsSteady(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	if _, known, err := steady(ctx, "self", time.Hour); known || err != nil {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	_, known, err := steady(t.Context(), "none", time.Hour)
	require.NoError(t, err)
	require.False(t, known)
}
