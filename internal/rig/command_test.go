package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCommandExitCode(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{
		"exit 0":        0,
		"exit 42":       42,
		"kill -KILL $$": 137,
		"test $X = y":   0,
	} {
		code, err := runCommand([]string{"sh", "-c", script}, append(os.Environ(), "X=y"), nil, nil)
		require.NoError(t, err)
		require.Equal(t, want, code, script)
	}
	code, err := runCommand([]string{"no-such-program-here"}, nil, nil, nil)
	require.ErrorContains(t, err, "no-such-program-here")
	require.Equal(t, 127, code)
	code, err = runCommand([]string{t.TempDir()}, nil, nil, nil)
	require.Error(t, err)
	require.Equal(t, 126, code)
}

func TestCommandGetsSignals(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	sigs := make(chan os.Signal, 1)
	done := make(chan int, 1)
	go func() {
		// The command's child gets the signal too: the group does.
		code, _ := runCommand([]string{"sh", "-c", `trap 'exit 9' USR1; sleep 600 & touch "$0"; wait`, ready}, os.Environ(), sigs, nil)
		done <- code
	}()
	require.True(t, eventually(t, func() bool { _, err := os.Stat(ready); return err == nil }))
	sigs <- syscall.SIGUSR1
	require.Equal(t, 9, <-done)
}

// A test runner that leaves a server in the background must not leave it to the
// next run.
func TestCommandsChildrenDieWithIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	code, err := runCommand([]string{"sh", "-c", `sleep 600 & echo $! >"$0"`, file}, os.Environ(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, 0, code)
	requireGone(t, file)
}

func requireGone(t *testing.T, pidFile string) {
	t.Helper()
	b, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(t, err)
	gone := func() bool {
		// A zombie that nobody has reaped yet has an empty command line.
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return syscall.Kill(pid, 0) != nil || (err == nil && len(line) == 0)
	}
	require.True(t, eventually(t, gone), "process %d is still there", pid)
}

func TestToolIsKilledWhenCancelled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	var watcher sync.WaitGroup
	defer watcher.Wait()
	watcher.Go(func() {
		eventually(t, func() bool { b, _ := os.ReadFile(file); return len(b) > 0 })
		cancel()
	})
	_, err := runTool(ctx, exec.Command("sh", "-c", `echo said; sleep 600 & echo $! >"$0"; wait`, file), nil)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "said")
	requireGone(t, file)
}

func TestGuardFacts(t *testing.T) {
	t.Parallel()
	groups, dirs := readFacts(strings.NewReader("+10\n+11\ndir a b\n-10\n+1\n+0\n-1\njunk\n"))
	require.Equal(t, map[int]bool{11: true}, groups, "never the groups 0 and 1")
	require.Equal(t, map[string]bool{"a b": true}, dirs)
}

func TestGuardCleansUpWhenPipeCloses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "pid")
	require.NoError(t, os.MkdirAll(filepath.Join(data, "sub"), 0o755))
	g, err := startGuard()
	require.NoError(t, err)
	g.addDir(data)
	p, err := startProcess(exec.Command("sh", "-c", `sleep 600 & echo $! >"$0"; wait`, file), g)
	require.NoError(t, err)
	require.True(t, eventually(t, func() bool { b, _ := os.ReadFile(file); return len(b) > 0 }))
	g.close()
	require.True(t, p.waitFor(10*time.Second))
	requireGone(t, file)
	require.NoDirExists(t, data)
}

func TestSweepRemovesOnlyDirectoriesOfDeadRigs(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	live, err := newWorkdir(parent)
	require.NoError(t, err)
	mkdir := func(name string, age time.Duration, lock bool) string {
		path := filepath.Join(parent, name)
		require.NoError(t, os.MkdirAll(filepath.Join(path, "1", "data"), 0o755))
		if lock {
			require.NoError(t, os.WriteFile(filepath.Join(path, liveFile), nil, 0o600))
		}
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, at, at))
		return path
	}
	dead := mkdir(workdirPrefix+"dead", 0, true)
	half := mkdir(workdirPrefix+"half-removed", 0, false)
	abandoned := mkdir(unfinishedPrefix+"old", 2*unfinishedAge, false)
	young := mkdir(unfinishedPrefix+"young", 0, false)
	other := mkdir("other", 2*unfinishedAge, true)

	next, err := newWorkdir(parent)
	require.NoError(t, err)
	for _, gone := range []string{dead, half, abandoned} {
		require.NoDirExists(t, gone)
	}
	for _, kept := range []string{live.path, next.path, young, other} {
		require.DirExists(t, kept)
	}
	require.NoError(t, live.remove())
	require.NoDirExists(t, live.path)
	require.NoError(t, next.remove())
}
