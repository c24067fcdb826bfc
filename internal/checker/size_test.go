package checker_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/internal/checker"
)

// The memory of the judge does not grow with the facts. AX_CHECKER_TASKS asks
// for more tasks than the 30,000 that every run of the tests has time for.
func TestFilesLargerThanTheMemoryAreJudged(t *testing.T) {
	tasks := 30_000
	if n, err := strconv.Atoi(os.Getenv("AX_CHECKER_TASKS")); err == nil {
		tasks = n
	}
	path := filepath.Join(t.TempDir(), "facts.jsonl")
	size := writeMany(t, path, tasks)
	bucket := size / 64
	dir := t.TempDir()

	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
			select {
			case <-tick.C:
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	began := time.Now()
	r, err := checker.Judge([]string{path}, checker.Options{Dir: dir, Bucket: bucket, Ordered: []string{"keyed"}})
	took := time.Since(began)
	close(stop)
	most := <-peak - before.HeapAlloc
	require.NoError(t, err)
	t.Logf("%d facts, %d MB in %s: %d MB of memory at most, bucket %d kB", r.Facts, size>>20, took.Round(time.Millisecond), most>>20, bucket>>10)
	require.Equal(t, int64(tasks), r.Tasks)
	require.Equal(t, []checker.Name{checker.Lost}, r.Failed())
	require.Equal(t, int64(1), r.Promise(checker.Lost).Violations)
	require.Equal(t, int64(tasks), r.Promise(checker.Lost).Checked)
	require.Positive(t, r.Promise(checker.Order).Checked)
	// The buffers of the files, a bucket and what it becomes, and garbage:
	// much less than the facts where there are many.
	require.Less(t, most, uint64(40<<20)+40*uint64(bucket))
}

// writeMany writes the facts of tasks, of which one is lost.
func writeMany(t *testing.T, path string, tasks int) int64 {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	b := bufio.NewWriter(f)
	out := json.NewEncoder(b)
	for i := range tasks {
		id, ms := fmt.Sprintf("producer-1.1-%d", i), int64(i)
		lane, key := "high", ""
		if i%4 == 0 {
			lane, key = "keyed", fmt.Sprintf("key-%d", i%1000)
		}
		topic, p := "soak.lane."+lane, int32(i%1000%3) // a key stays in its partition
		facts := []checker.Fact{
			{Type: checker.Offered, At: at(ms), Proc: "p", ID: id, Lane: lane, Key: key, Limit: 3},
			{Type: checker.Submitted, At: at(ms), Proc: "p", ID: id, Topic: topic, Partition: p, Offset: ms},
			{Type: checker.Started, At: at(ms + 1), Own: at(ms + 1), Proc: "w", ID: id, Run: id, Lane: lane, Key: key, Attempt: 1, Topic: topic, Partition: p, Offset: ms},
			{Type: checker.Settled, At: at(ms + 2), Own: at(ms + 2), Proc: "w", ID: id, Run: id, Outcome: checker.Done},
			{Type: checker.Committed, At: at(ms + 5), Proc: "-", Group: "g", Topic: topic, Partition: p, Offset: ms + 1},
		}
		if i == tasks/2+1 { // which has no key, or all behind it were out of order
			facts = facts[:2]
		}
		for _, fact := range facts {
			require.NoError(t, out.Encode(fact))
		}
	}
	require.NoError(t, b.Flush())
	st, err := f.Stat()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return st.Size()
}
