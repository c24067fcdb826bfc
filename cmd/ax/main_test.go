package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/axtasks/ax/internal/fakekafka"
)

// childVar makes this program the command itself: what starts "ax" as another
// process starts the program that it is.
const childVar = "AXTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		main()
	}
	if err := os.Setenv(childVar, "1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// outcome is what a command line did.
type outcome struct {
	code     int
	out, err string
}

func call(t *testing.T, args ...string) outcome {
	t.Helper()
	return callWith(t, "", args...)
}

func callWith(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), append([]string{"ax"}, args...), strings.NewReader(stdin), &out, &errs)
	return outcome{code, out.String(), errs.String()}
}

// object returns the last line on stdout, which must be one JSON object.
func (o outcome) object(t *testing.T) map[string]any {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(o.out, "\n"), "\n")
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &v), "stdout %q, stderr %q", o.out, o.err)
	return v
}

// file writes a domain's file.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orders.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const orders = "domain: orders\ndurability: fast\n"

// provisioned returns the flags for a domain whose topics exist.
func provisioned(t *testing.T) (*fakekafka.Cluster, []string) {
	t.Helper()
	c := fakekafka.Start(t)
	flags := []string{"--spec", file(t, orders), "--kafka", c.Addrs()[0]}
	got := call(t, append([]string{"topics", "apply"}, flags...)...)
	require.Equal(t, 0, got.code, got.err)
	return c, flags
}

func TestBadUsageExitsWithTwoAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	spec := file(t, orders)
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown command", []string{"topic"}, `no command "topic", want one of demo, topics,`},
		{"unknown subcommand", []string{"topics", "destroy"}, `no command "destroy", want one of plan, apply, check`},
		{"unknown flag", []string{"topics", "plan", "--nope"}, `see "ax topics plan --help"`},
		{"unknown help topic", []string{"help", "nope"}, "nope"},
		{"no domain", []string{"topics", "plan"}, "--spec FILE or AX_SPEC"},
		{"no file", []string{"config", "check", "--spec", "absent.yaml"}, "absent.yaml"},
		{"no broker", []string{"topics", "plan", "--spec", spec}, "--kafka HOST:PORT, AX_KAFKA, or kafka.brokers in " + spec},
		{"no broker for a mover", []string{"mover", "--spec", spec}, "no broker for domain orders"},
		{"bad broker", []string{"config", "check", "--spec", spec, "--kafka", "a b"}, "kafka.brokers[0]"},
		{"surplus argument", []string{"topics", "check", "--spec", spec, "now"}, `unexpected argument "now"`},
		{"log level", []string{"mover", "--spec", spec, "--log-level", "loud"}, `--log-level "loud"`},
		{"log format", []string{"mover", "--spec", spec, "--log-format", "xml"}, `--log-format "xml"`},
		{"no kind", []string{"submit"}, "no kind"},
		{"two due times", []string{"submit", "k", "--after", "1s", "--at", "2030-01-02T15:04:05Z"}, "--after and --at"},
		{"bad instant", []string{"submit", "k", "--at", "noon"}, `--at "noon"`},
		{"bad duration", []string{"submit", "k", "--after", "soon"}, `"soon"`},
		{"bad expiry", []string{"submit", "k", "--expires", "never"}, `--expires "never"`},
		{"bad header", []string{"submit", "k", "--header", "x"}, `--header "x"`},
		{"two payloads", []string{"submit", "k", "p", "--file", "f", "--spec", spec, "--kafka", "h:1"}, "PAYLOAD and --file"},
		{"no payload file", []string{"submit", "k", "--file", "absent.json", "--spec", spec, "--kafka", "h:1"}, "absent.json"},
		{"demo rate", []string{"demo", "--rate", "0"}, "--rate 0"},
		{"demo slots", []string{"demo", "--slots", "-1"}, "--slots -1"},
		{"demo time", []string{"demo", "--for", "-1s"}, "--for -1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := call(t, c.args...)
			require.Equal(t, 2, got.code, got.err)
			require.Contains(t, got.err, c.want)
			require.Empty(t, got.out)

			got = call(t, append([]string{c.args[0], "--json"}, c.args[1:]...)...)
			require.Equal(t, 2, got.code)
			require.Contains(t, got.object(t)["error"], c.want)
			require.Empty(t, got.err)
		})
	}
}

func TestABrokerThatDoesNotAnswerIsAFailure(t *testing.T) {
	t.Parallel()
	got := call(t, "topics", "plan", "--spec", file(t, orders), "--kafka", "127.0.0.1:1", "--json")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.object(t)["error"], "no broker reachable: 127.0.0.1:1")
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"", "demo", "topics", "topics plan", "topics apply", "topics check", "submit", "mover", "tiers", "trim",
		"config", "config check", "config print", "version",
	} {
		got := call(t, append(strings.Fields(path), "--help")...)
		require.Equal(t, 0, got.code)
		require.Contains(t, got.out, "Example:", path)
		require.Contains(t, got.out, strings.TrimSpace("ax "+path), path)
	}
	require.Contains(t, call(t).out, "Exit codes:")
}

func TestVersionIsAFlagAndACommand(t *testing.T) {
	t.Parallel()
	command, flag := call(t, "version"), call(t, "--version")
	require.Equal(t, command, flag)
	require.Equal(t, 0, flag.code)
	require.Equal(t, version(), call(t, "--json", "version").object(t)["version"])
}

func TestCompletionListsTheCommands(t *testing.T) {
	t.Parallel()
	require.Contains(t, call(t, "completion", "bash").out, "complete")
	require.Contains(t, call(t, "topics", "--generate-shell-completion").out, "apply")
}

func TestConfigCheckListsAllFaultsWithTheirLines(t *testing.T) {
	t.Parallel()
	path := file(t, "domain: orders\nlanes:\n  - name: urgent\n    weight: heavy\nkindz: {}\n")
	got := call(t, "config", "check", "--spec", path)
	require.Equal(t, 2, got.code)
	require.Contains(t, got.err, path+":4: lanes[0].weight:")
	require.Contains(t, got.err, path+":5: kindz:")

	got = call(t, "config", "check", "--spec", path, "--json")
	require.Equal(t, 2, got.code)
	faults := got.object(t)["faults"].([]any)
	require.Len(t, faults, 2)
	require.EqualValues(t, 4, faults[0].(map[string]any)["line"])
	require.Equal(t, "lanes[0].weight", faults[0].(map[string]any)["path"])
}

func TestConfigCheckAcceptsAGoodFileWithoutABroker(t *testing.T) {
	t.Parallel()
	path := file(t, orders)
	got := call(t, "config", "check", "--spec", path)
	require.Equal(t, outcome{out: path + ": ok: domain orders, 4 lanes, 8 tiers, 0 kinds\n"}, got)
	require.Equal(t, map[string]any{"ok": true, "domain": "orders"}, call(t, "config", "check", "--spec", path, "--json").object(t))
}

func TestConfigPrintShowsTheEffectiveDomainWithoutSecrets(t *testing.T) {
	t.Parallel()
	path := file(t, orders+"kafka: {brokers: [k:9092], sasl: {mechanism: PLAIN, user: u, password: hunter2}}\n")
	for _, args := range [][]string{{}, {"--json"}} {
		got := call(t, append([]string{"config", "print", "--spec", path}, args...)...)
		require.Equal(t, 0, got.code, got.err)
		require.Contains(t, got.out, "max_payload")
		require.Contains(t, got.out, "*****")
		require.NotContains(t, got.out, "hunter2")
	}
	require.Equal(t, "orders", call(t, "config", "print", "--spec", path, "--json").object(t)["domain"])
}

func TestFlagsWinOverTheEnvironmentAndThatOverTheFile(t *testing.T) {
	path := file(t, orders+"kafka: {brokers: [file:1]}\n")
	brokers := func(args ...string) any {
		o := call(t, append([]string{"config", "print", "--json"}, args...)...)
		return o.object(t)["kafka"].(map[string]any)["brokers"]
	}
	require.Equal(t, []any{"file:1"}, brokers("--spec", path))
	t.Setenv("AX_KAFKA", "env:1, env:2")
	require.Equal(t, []any{"env:1", "env:2"}, brokers("--spec", path))
	require.Equal(t, []any{"flag:1", "flag:2"}, brokers("--spec", path, "--kafka", "flag:1, flag:2"))

	t.Setenv("AX_SPEC", path)
	require.Equal(t, []any{"env:1", "env:2"}, brokers())
	other := file(t, "domain: other\ndurability: fast\n")
	require.Equal(t, "other", call(t, "config", "print", "--json", "--spec", other).object(t)["domain"])
	t.Setenv("AX_KAFKA", "")
	require.Equal(t, []any{"file:1"}, brokers())
	t.Setenv("AX_SPEC", "")
	require.Equal(t, 2, call(t, "config", "print").code)
}

func TestASignalBeforeTheStartEndsACommand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, flags := provisioned(t)
	_ = c
	var out, errs bytes.Buffer
	require.Equal(t, 1, run(ctx, append([]string{"ax", "topics", "plan"}, flags...), nil, &out, &errs))
	require.Contains(t, errs.String(), "context canceled")
}
