package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rigBundle is a place in which a test runs rigs of its own. Every process that
// comes of them has the unique TMPDIR in its environment.
type rigBundle struct {
	self string // this test binary
	tmp  string
}

func setupRig(t *testing.T) *rigBundle {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real cluster")
	}
	cfg := config{nodes: 1, kafkaVersion: defaultKafkaVersion}
	if err := javaUsable(t.Context(), cfg); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("java provider: %v", err)
		}
		t.Skipf("java provider: %v", err)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	return &rigBundle{self: self, tmp: t.TempDir()}
}

// command returns a rig that ends with the test at the latest.
func (b *rigBundle) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, b.self, append([]string{"rig"}, args...)...)
	cmd.Env = append(endpoints{}.environ(os.Environ()), "TMPDIR="+b.tmp)
	cmd.Env = removeEnv(cmd.Env, addressEnv)
	return cmd
}

func removeEnv(env []string, name string) []string {
	var out []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, name+"=") {
			out = append(out, kv)
		}
	}
	return out
}

// run runs a rig to its end and returns its exit code and output.
func (b *rigBundle) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := b.command(t, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run() // what it says is in ProcessState
	require.NotNil(t, cmd.ProcessState, "rig did not start")
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// processes returns the command lines, by process id, of what the bundle's rigs
// have started and is still running.
func (b *rigBundle) processes(t *testing.T) map[int]string {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("needs /proc")
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	found := map[int]string{}
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !bytes.Contains(env, []byte("TMPDIR="+b.tmp+"\x00")) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) == 0 {
			continue // it has ended meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		require.NoError(t, err)
		found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
	}
	return found
}

// requireNothingRuns waits until none of the bundle's processes is left.
func (b *rigBundle) requireNothingRuns(t *testing.T) {
	t.Helper()
	if !eventually(t, func() bool { return len(b.processes(t)) == 0 }) {
		t.Fatalf("still running: %v", b.processes(t))
	}
}

// entries lists what is in the temporary directory of the rigs.
func (b *rigBundle) entries(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(b.tmp, "*"))
	require.NoError(t, err)
	return names
}

func (b *rigBundle) requireNoFiles(t *testing.T) {
	t.Helper()
	if !eventually(t, func() bool { return len(b.entries(t)) == 0 }) {
		t.Fatalf("files are left: %v", b.entries(t))
	}
}

// eventually polls ok for at most ten seconds.
func eventually(t *testing.T, ok func() bool) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
