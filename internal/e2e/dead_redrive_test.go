//go:build kafka

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/router"
)

// Fifty thousand deaths on a real Kafka, half of them with a tombstone: to list
// them takes no memory by their number, a filter finds twelve, and a redrive of
// these that is killed in the middle goes on where it was.
func TestRedriveOfTwelveAmongFiftyThousandDeathsSurvivesAKill(t *testing.T) {
	load(t)
	const deaths, tombs, few = 50_000, 25_000, 12
	bin := filepath.Join(t.TempDir(), "ax")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../../cmd/ax").CombinedOutput()
	require.NoError(t, err, "%s", out)
	empty, r := newDomain(t, nil), newDomain(t, nil)
	fill(t, r, deaths, tombs, few)
	command := func(r *router.Router, args ...string) *exec.Cmd {
		spec := filepath.Join(t.TempDir(), "domain.yaml")
		require.NoError(t, os.WriteFile(spec, []byte("domain: "+r.Domain().Name+"\n"), 0o600))
		return exec.CommandContext(t.Context(), bin, append(append([]string{"dead"}, args...), "--json", "--spec", spec, "--kafka", os.Getenv("AX_KAFKA"))...)
	}

	none, base, _ := peak(t, command(empty, "list"))
	require.EqualValues(t, 0, none["deaths"])
	all, most, took := peak(t, command(r, "list"))
	require.EqualValues(t, deaths-tombs, all["deaths"])
	t.Logf("list of %d deaths and %d tombstones: at most %.1f MB of memory, %.1f MB with an empty topic; %s",
		deaths, tombs, float64(most)/1e6, float64(base)/1e6, took.Round(time.Millisecond))
	require.LessOrEqual(t, most-base, int64(32<<20+16*tombs))

	byError, _, took := peak(t, command(r, "list", "--error", "ledger refused"))
	require.EqualValues(t, few, byError["deaths"])
	byPayload, _, _ := peak(t, command(r, "list", "--contains", `"account": 9007199254740993`))
	require.EqualValues(t, few, byPayload["deaths"])
	t.Logf("a filter finds %d in %s", few, took.Round(time.Millisecond))

	redrive := []string{"redrive", "--error", "ledger refused", "--yes", "--rate", "5"}
	first := command(r, redrive...)
	require.NoError(t, first.Start())
	eventually(t, time.Minute, func() (bool, string) { return len(payloads(t, r.Lane("high"))) >= 4, "nothing is driven" })
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())
	before := len(payloads(t, r.Lane("high")))
	require.Less(t, before, few, "it was killed too late")
	left, _, _ := peak(t, command(r, redrive...))
	require.NotContains(t, left, "error")
	require.EqualValues(t, 0, left["remaining"])
	after := payloads(t, r.Lane("high"))
	count := map[string]int{}
	for _, p := range after {
		count[p]++
	}
	require.Len(t, count, few)
	require.LessOrEqual(t, len(after), few+1, "at most one copy in all")
	none, _, _ = peak(t, command(r, "list", "--error", "ledger refused"))
	require.EqualValues(t, 0, none["deaths"])
	t.Logf("killed after %d of %d, then %v driven: %d copies", before, few, left["redriven"], len(after)-few)
}

// fill writes deaths into the dead topic, as workers do: few of them of one
// error and with one text in their payload, two of these of one task; none of
// the few has a tombstone.
func fill(t *testing.T, r *router.Router, deaths, tombs, few int) {
	t.Helper()
	cl := bare(t, append(r.Options(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	const together = 5_000
	buried := 0
	for from := 0; from < deaths; from += together {
		var rs []*kgo.Record
		for n := from; n < from+together; n++ {
			task := ax.Task{ID: fmt.Sprintf("task-%d", n), Kind: "job", Lane: "high", Attempt: 3, Payload: fmt.Appendf(nil, `{"n": %d}`, n)}
			d := ax.Death{Reason: ax.ReasonFailed, Error: "connection refused", At: time.Now(), Attempt: 3, TopicID: [16]byte{1}}
			chosen := n%(deaths/few) == 1 && n/(deaths/few) < few
			if chosen {
				task.Payload = fmt.Appendf(nil, `{"n": %d, "account": 9007199254740993}`, n)
				d.Error = "the ledger refused"
				if n > 1 && n < 2*(deaths/few) {
					task.ID = "task-1"
				}
			}
			rec := ax.Encode(&task)
			rec.Topic, rec.Offset = r.Lane("high"), int64(n)
			dr := ax.DeadRecord(rec, d)
			dr.Topic, dr.Partition = r.Dead(), int32(n%3)
			rs = append(rs, dr)
			if !chosen && buried < tombs && (n%2 == 0 || deaths-n <= tombs-buried) {
				buried++
				rs = append(rs, &kgo.Record{Topic: dr.Topic, Partition: dr.Partition, Key: dr.Key})
			}
		}
		require.NoError(t, cl.ProduceSync(t.Context(), rs...).FirstErr())
	}
	require.Equal(t, tombs, buried)
}

// peak runs a command and returns the last line that it prints, and the most
// memory that it had. The kernel's own figure for a child that has ended begins
// with what its parent had, so it is asked while the child lives; what comes in
// the last millisecond is missed.
func peak(t *testing.T, cmd *exec.Cmd) (last map[string]any, most int64, took time.Duration) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case err := <-ended:
			require.NoError(t, err, "%s", errs.String())
			running = false
		case <-tick.C:
			most = max(most, highWater(cmd.Process.Pid))
		}
	}
	took = time.Since(began)
	if most == 0 { // no Linux
		most = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss * 1024
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	return last, most, took
}

// highWater returns the most memory that a process has had so far, in bytes, or
// zero where the system doesn't tell.
func highWater(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kb, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "kB", 2)[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kb * 1024
}

// payloads returns those of all records that a topic holds now.
func payloads(t *testing.T, topic string) (all []string) {
	t.Helper()
	ends, err := admin(t).ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	cl := bare(t, kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for int64(len(all)) < left {
		fs := cl.PollFetches(ctx)
		require.NoError(t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) { all = append(all, string(r.Value)) })
	}
	return all
}
