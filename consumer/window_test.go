package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

func TestATaskOfFiveMinutesDoesNotHoldUpItsPartition(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 1, Partitions: 1}}})
		var got starts
		var ended atomic.Int64
		mux := consumer.NewMux()
		mux.HandleFunc("long", func(context.Context, *ax.Task) error {
			time.Sleep(5 * time.Minute)
			ended.Store(time.Now().UnixNano())
			return nil
		})
		mux.HandleFunc("quick", func(_ context.Context, t *ax.Task) error { got.add(t); return nil })
		b.submit(ax.Task{Kind: "long"}, producer.Timeout(time.Hour))
		w := b.worker(mux, consumer.WithKafka(patient()...))
		const n = 300 * 100 // a hundred a second
		for i := range 300 {
			tasks := make([]ax.Task, 100)
			for k := range tasks {
				tasks[k] = ax.Task{Kind: "quick", ID: fmt.Sprintf("q-%d", 100*i+k)}
			}
			for _, r := range b.client.SubmitMany(t.Context(), tasks) {
				require.NoError(t, r.Err)
			}
			time.Sleep(time.Second)
			require.Len(t, got.list(), 100*(i+1), "after %d s", i+1)
		}
		at := ended.Load()
		require.True(t, at == 0 || time.Since(time.Unix(0, at)) < time.Second)
		time.Sleep(5 * time.Second)
		require.NoError(t, w.stop())
		require.Equal(t, int64(n+1), committedAt(b, "main", 0))
	})
}

func committedAt(b *bench, lane string, partition int32) int64 {
	b.t.Helper()
	os, err := b.c.Admin(b.t).FetchOffsets(b.t.Context(), b.r.LaneGroup(lane))
	require.NoError(b.t, err)
	o, ok := os.Lookup(b.r.Lane(lane), partition)
	if !ok {
		return -1
	}
	return o.At
}

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// Ten thousand tasks of one partition that don't end: that partition is not
// read on, and the log says which task it waits for; the other flows; memory
// stays flat; and when they end, all goes on.
func TestTenThousandTasksThatAreStuckStopTheirPartitionAndNoOther(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 1, Partitions: 2}}})
		release := make(chan struct{})
		var mu sync.Mutex
		stuck, quick := 0, 0
		mux := consumer.NewMux()
		mux.HandleFunc("stuck", func(context.Context, *ax.Task) error {
			mu.Lock()
			stuck++
			mu.Unlock()
			<-release
			return nil
		})
		mux.HandleFunc("quick", func(context.Context, *ax.Task) error {
			mu.Lock()
			quick++
			mu.Unlock()
			return nil
		})
		count := func() (int, int) {
			mu.Lock()
			defer mu.Unlock()
			return stuck, quick
		}
		keys := twoPartitions(b, "main")
		at := b.submit(ax.Task{Kind: "quick", Key: keys[0]})
		send := func(kind, key string, n int) {
			for n > 0 {
				tasks := make([]ax.Task, min(n, 1000))
				for i := range tasks {
					tasks[i] = ax.Task{Kind: kind, Key: key, Payload: make([]byte, 500), Timeout: 24 * time.Hour}
				}
				for _, r := range b.client.SubmitMany(t.Context(), tasks) {
					require.NoError(t, r.Err)
				}
				n -= len(tasks)
			}
		}
		send("stuck", keys[0], 25_000)
		var log lines
		opts := append(smallFetches(), patient()...)
		w := b.worker(mux, consumer.WithSlots(20_000), consumer.WithKafka(opts...),
			consumer.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		time.Sleep(30 * time.Second)
		held, _ := count()
		require.GreaterOrEqual(t, held, 10_000)
		require.Less(t, held, 13_000, "its partition must not be read on")
		require.Contains(t, log.String(), fmt.Sprintf("partition=%d offset=%d ", at.Partition, at.Offset+1), "the log names the first unfinished record")

		_, before := count()
		var m1, m2 runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m1)
		send("quick", keys[1], 3000)
		send("stuck", keys[0], 20_000)
		time.Sleep(30 * time.Second)
		still, after := count()
		require.Equal(t, before+3000, after, "the other partition flows")
		require.Equal(t, held, still)
		runtime.GC()
		runtime.ReadMemStats(&m2)
		// The fake broker keeps what was sent; the worker must keep none of it.
		require.Less(t, int64(m2.HeapAlloc)-int64(m1.HeapAlloc), int64(50<<20))

		close(release)
		time.Sleep(time.Minute)
		all, _ := count()
		require.Equal(t, 45_000, all, "when they end, all goes on")
		require.NoError(t, w.stop())
		require.Equal(t, at.Offset+1+45_000, committedAt(b, "main", at.Partition))
	})
}
