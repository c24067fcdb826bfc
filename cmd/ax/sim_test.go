package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/internal/sim"
)

// write writes a file of any kind.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const threeLoads = `slots: 8
for: 20s
seed: 3
loads:
  - {kind: order.close, lane: critical, run: 1ms..9ms, rate: 500, delay: 7s, fail: 0.1}
  - {kind: order.list, run: exp 5ms, rate: 200, even: true}
  - {kind: order.export, lane: low, run: 20ms, flood: true}
`

func TestSimShowsTheSharesOfADomainWithoutALoad(t *testing.T) {
	t.Parallel()
	got := call(t, "sim", "--spec", file(t, orders), "--slots", "16", "--for", "15s")
	require.Equal(t, 0, got.code, got.err)
	require.Empty(t, got.err)
	require.Contains(t, got.out, "domain orders: 16 slots, 15s measured after 2s of warm-up, seed 1\n")
	require.Regexp(t, `(?m)^critical +8 +53\.3% +53\.3% +853 +flood `, got.out)
	require.Regexp(t, `(?m)^low +1 +6\.7% +6\.7% +107 +flood `, got.out)
	require.Contains(t, got.out, "\nslots in use 100.0%, 1600 tasks/s, 1600 writes/s, 1.00 writes per task, share error 0.00 points\n")
}

func TestSimTellsALoadAsOneObjectAndAsAChart(t *testing.T) {
	t.Parallel()
	svg := filepath.Join(t.TempDir(), "sim.svg")
	args := []string{"sim", "--spec", file(t, orders), "--load", write(t, "load.yaml", threeLoads), "--json"}
	got := call(t, append(args, "--svg", svg)...)
	require.Equal(t, 0, got.code, got.err)
	o := got.object(t)
	require.Equal(t, []string{
		"domain", "for_s", "lanes", "seed", "share_error_points", "slots", "starts_per_s", "tasks_per_s",
		"utilisation_percent", "warmup_s", "writes_per_s", "writes_per_task",
	}, slices.Sorted(maps.Keys(o)))
	require.Equal(t, 8.0, o["slots"])
	require.Equal(t, 20.0, o["for_s"])
	require.Equal(t, 3.0, o["seed"])
	critical := o["lanes"].([]any)[0].(map[string]any)
	require.Equal(t, []string{
		"aged_starts", "dead", "delayed_end", "done", "expired", "flooded", "full", "gap_starts", "head_above_bound",
		"head_wait_bound_ms", "head_wait_max_ms", "lane", "late_max_ms", "late_p50_ms", "late_p99_ms", "limited", "retries",
		"share_percent", "starts", "starts_per_s", "wait_max_ms", "wait_p50_ms", "wait_p99_ms", "waiting_end", "weight",
		"weight_percent", "writes_per_task",
	}, slices.Sorted(maps.Keys(critical)))
	require.Equal(t, "critical", critical["lane"])
	require.Positive(t, critical["retries"])
	require.Greater(t, critical["writes_per_task"], 3.0, "7s: the tiers 5s and near, and the lane")

	f, err := os.Open(svg)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for dec := xml.NewDecoder(f); !errors.Is(err, io.EOF); _, err = dec.Token() {
		require.NoError(t, err)
	}

	require.Equal(t, got.out, call(t, args...).out, "one seed gives one result")
	flags := call(t, append(args, "--seed", "4", "--slots", "9", "--for", "1s")...).object(t)
	require.Equal(t, 4.0, flags["seed"])
	require.Equal(t, 9.0, flags["slots"])
	require.Equal(t, 1.0, flags["for_s"])
}

func TestSimPlaysARecording(t *testing.T) {
	t.Parallel()
	path := write(t, "r.csv", "at,kind,lane,run,delay\n0s,a,low,1s,\n2s,b,,500ms,30m\n")
	got := call(t, "sim", "--spec", file(t, orders), "--record", path)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.out, " 30m2.5s measured after 0s of warm-up")
	require.Regexp(t, `(?m)^normal +1 .* 4\.00$`, got.out, "two tiers of 15m, near, and the lane")

	got = call(t, "sim", "--spec", file(t, orders), "--record", path, "--for", "1m")
	require.Contains(t, got.out, " 1m measured")
}

func TestSimRefusesABadLoadWithItsLine(t *testing.T) {
	t.Parallel()
	spec := file(t, orders)
	load := write(t, "load.yaml", "slots: 3\nloads:\n  - kind: a\n    rate: fast\n    run: 5ms\n")
	record := write(t, "r.csv", "at,kind,run\n1s,a,5ms\n0s,a,5ms\n")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--spec FILE or AX_SPEC", nil},
		{load + `:4: loads[0].rate: "fast": want a number`, []string{"--load", load}},
		{record + `:3: at: "0s": is before the row above`, []string{"--record", record}},
		{"want one of them", []string{"--load", load, "--record", record}},
		{"absent.yaml", []string{"--load", "absent.yaml"}},
		{"absent.csv", []string{"--record", "absent.csv"}},
		{"--slots 0: want 1 to 100000", []string{"--slots", "0"}},
		{"--for 0s: want at least 1ms", []string{"--for", "0"}},
		{"--seed -1: want 0 to", []string{"--seed", "-1"}},
		{`unexpected argument "now"`, []string{"now"}},
	} {
		args := []string{"sim"}
		if c.args != nil {
			args = append(args, "--spec", spec)
		}
		got := call(t, append(args, c.args...)...)
		require.Equal(t, 2, got.code, got.err)
		require.Contains(t, got.err, c.want)
		require.Empty(t, got.out)
	}
	got := call(t, "sim", "--spec", spec, "--load", load, "--json")
	require.Equal(t, 2, got.code)
	fault := got.object(t)["faults"].([]any)[0].(map[string]any)
	require.Equal(t, 4.0, fault["line"])
	require.Equal(t, "loads[0].rate", fault["path"])
}

func TestSimFailsWhereTheChartCanNotBeWritten(t *testing.T) {
	t.Parallel()
	got := call(t, "sim", "--spec", file(t, orders), "--for", "1s", "--svg", filepath.Join(t.TempDir(), "absent", "sim.svg"))
	require.Equal(t, 1, got.code)
	require.Contains(t, got.err, "write the chart")
}

func TestSimHasHelpWithAnExample(t *testing.T) {
	t.Parallel()
	got := call(t, "sim", "--help")
	require.Equal(t, 0, got.code)
	require.Contains(t, got.out, "Example:")
	require.Contains(t, got.out, "ax sim --spec")
}

// The page's output is what its commands print. Where the scheduler has changed,
// run them again.
func TestTheOutputInTheSimulationsPageIsReal(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors may round in another way, and then all that follows differs")
	}
	page, err := os.ReadFile("../../docs/sim.md")
	require.NoError(t, err)
	commands := regexp.MustCompile(`(?m)^\$ ax (.+)\n(?s:(.+?))^`+"```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, commands, 2)
	for _, c := range commands {
		args := strings.Fields(strings.ReplaceAll(c[1], "examples/", "../../examples/"))
		got := call(t, args...)
		require.Equal(t, 0, got.code, got.err)
		require.Equal(t, got.out, c[2], c[1])
	}
}

func TestAHeadAboveItsBoundFailsTheCommandAfterItsTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := printSim(newApp(nil, &out, &out), &sim.Result{Domain: "orders", Lanes: []sim.Lane{{Lane: "low", Head: 20, Bound: 10, HeadAbove: true}}})
	require.Equal(t, codeFailed, exitCode(err))
	require.ErrorContains(t, err, "lane low: its head waited for 20ms, and no limit held it; the bound is 10ms")
	require.Contains(t, out.String(), "above the bound\n")
}
