package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These tests start real clusters, one at a time: each takes most of two cores
// while it starts.

func TestRigRunsCommandAgainstOneNode(t *testing.T) {
	b := setupRig(t)
	code, stdout, stderr := b.run(t, "-provider", "java", "--", "sh", "-c",
		`cat "$AX_KAFKA_SECURE_CA" >/dev/null && "$0" client plaintext scram plain wrong && exit 7`, b.self)
	require.Equal(t, 7, code, "output: %s\nerrors: %s", stdout, stderr)
	require.Equal(t, "ok plaintext\nok scram\nok plain\nok wrong\n", stdout)
	require.Empty(t, stderr)
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
}

func TestRigWithACLRefusesOrdinaryUser(t *testing.T) {
	b := setupRig(t)
	code, stdout, stderr := b.run(t, "-acl", "-provider", "java", "--", b.self, "client", "acl")
	require.Equal(t, 0, code, "output: %s\nerrors: %s", stdout, stderr)
	require.Equal(t, "ok acl\n", stdout)
}

func TestRigHandsOverPidsOfThreeNodes(t *testing.T) {
	b := setupRig(t)
	code, stdout, stderr := b.run(t, "-nodes", "3", "--", b.self, "client", "plaintext", "scram", "freeze")
	require.Equal(t, 0, code, "output: %s\nerrors: %s", stdout, stderr)
	require.Equal(t, "ok plaintext\nok scram\nok freeze\n", stdout)
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
}

func TestRigPrintsAddressAndStopsAtSignal(t *testing.T) {
	b := setupRig(t)
	cmd := b.command(t, "-provider", "java")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	exports, err := os.Create(filepath.Join(t.TempDir(), "exports"))
	require.NoError(t, err)
	defer exports.Close()
	cmd.Stderr = exports
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	address, err := lines.ReadString('\n')
	require.NoError(t, err)
	address = strings.TrimSpace(address)

	// Another rig, told the address, uses that very cluster and leaves it alone.
	second := b.command(t, "--", "sh", "-c", `echo "$AX_KAFKA $AX_KAFKA_SECURE_USER"`)
	second.Env = append(second.Env, "AX_KAFKA="+address, "AX_KAFKA_SECURE_USER=kept")
	reply, err := second.Output()
	require.NoError(t, err)
	require.Equal(t, address+" kept\n", string(reply))

	// What it says on standard error, a shell can evaluate.
	script := fmt.Sprintf(`. %q && AX_KAFKA=%s exec %q client plaintext scram`, exports.Name(), address, b.self)
	reply, err = exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput()
	require.NoError(t, err, "%s", reply)

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Empty(t, rest, "standard output has one line only")
	require.NoError(t, cmd.Wait())
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
}

// A killed rig can clean up nothing itself. The guard does, and it also gets at
// what the kernel's parent-death signal does not reach: the command's children.
func TestKilledRigLeavesNothing(t *testing.T) {
	b := setupRig(t)
	cmd := b.startBusy(t)
	require.GreaterOrEqual(t, len(b.processes(t)), 5, "rig, guard, java, sh and its child")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
}

// With the guard dead as well it is up to the kernel to end the direct children,
// and to the next rig to remove the files.
func TestKilledRigAndGuardLeaveNoJava(t *testing.T) {
	b := setupRig(t)
	cmd := b.startBusy(t)
	for pid, line := range b.processes(t) {
		if strings.HasSuffix(strings.TrimSpace(line), guardArg) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	onlyOrphan := func() bool {
		for _, line := range b.processes(t) {
			if !strings.HasPrefix(line, "sleep ") {
				return false
			}
		}
		return true
	}
	if !eventually(t, onlyOrphan) {
		t.Fatalf("still running: %v", b.processes(t))
	}
	for pid := range b.processes(t) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}

	require.Len(t, b.entries(t), 1)
	w, err := newWorkdir(b.tmp)
	require.NoError(t, err)
	require.Equal(t, []string{w.path}, b.entries(t))
	require.NoError(t, w.remove())
}

// startBusy returns a rig whose command has a child and would run for minutes.
func (b *rigBundle) startBusy(t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	cmd := b.command(t, append(flags, "-provider", "java", "--", "sh", "-c", "sleep 600 & echo started; wait")...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "started\n", line)
	return cmd
}

func TestInterruptedStartLeavesNothing(t *testing.T) {
	b := setupRig(t)
	cmd := b.command(t, "-nodes", "3", "--", "echo", "must not run")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	brokers := func() bool {
		for _, line := range b.processes(t) {
			if strings.Contains(line, "kafka.Kafka") {
				return true
			}
		}
		return false
	}
	require.True(t, eventually(t, brokers), "no broker was started")
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	said, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Empty(t, said)
	require.Error(t, cmd.Wait())
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
}

// A broker that cannot start must be reported with its own words, at once and
// not when the time for starting is over. A port that somebody has taken is
// worth another attempt; here it is the same port each time.
func TestRigReportsBrokerThatCannotStart(t *testing.T) {
	b := setupRig(t)
	l, err := net.Listen("tcp4", local(0))
	require.NoError(t, err)
	defer l.Close()
	taken := l.Addr().String()
	ports, err := reservePorts(2)
	require.NoError(t, err)
	ports.release()
	secure, controller := local(ports.ports[0]), local(ports.ports[1])
	code, _, stderr := b.run(t, "-provider", "java",
		"-set", "listeners=PLAINTEXT://"+taken+",SECURE://"+secure+",CONTROLLER://"+controller,
		"-set", "advertised.listeners=PLAINTEXT://"+taken+",SECURE://"+secure,
		"-set", "controller.quorum.voters=1@"+controller, "--", "true")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "node 1: "+errPortTaken.Error())
	require.Contains(t, stderr, "failed to bind to "+taken)
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
}

func TestRigReportsSettingThatKafkaRefuses(t *testing.T) {
	b := setupRig(t)
	code, _, stderr := b.run(t, "-provider", "java", "-set", "num.io.threads=0", "--", "true")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "num.io.threads")
	b.requireNoFiles(t)
}

// Looking for an engine takes no context, so one that accepts connections and
// says nothing would hold up every test run for minutes.
func TestRigGivesUpOnSilentDockerEngine(t *testing.T) {
	b := setupRig(t)
	l, err := net.Listen("tcp4", local(0))
	require.NoError(t, err)
	defer l.Close()
	cmd := b.command(t, "-provider", "docker", "--", "true")
	cmd.Env = append(cmd.Env, "DOCKER_HOST=tcp://"+l.Addr().String())
	start := time.Now()
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "no answer from a Docker engine")
	require.Less(t, time.Since(start), dockerProbeTimeout+5*time.Second)
}

// A test may end, or be ended, while a broker is frozen.
func TestRigStopsFrozenBrokers(t *testing.T) {
	b := setupRig(t)
	code, _, stderr := b.run(t, "-provider", "java", "--", "sh", "-c", `kill -STOP "$AX_KAFKA_PIDS"`)
	require.Equal(t, 0, code, "errors: %s", stderr)
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
}

func TestRigFailsWhenAddressIsDead(t *testing.T) {
	b := setupRig(t)
	ports, err := reservePorts(1)
	require.NoError(t, err)
	ports.release()
	cmd := b.command(t, "--", "true")
	cmd.Env = append(cmd.Env, "AX_KAFKA="+local(ports.ports[0]))
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Contains(t, string(out), "ping AX_KAFKA=")
}
