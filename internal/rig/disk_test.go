package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// needRoot is for what mounts.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("only root may mount")
	}
	t.Skip("only root may mount")
}

// mounts lists what is mounted in the directory.
func mounts(t *testing.T, dir string) (points []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if point := strings.Fields(line)[1]; strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	return points
}

func TestADiskThatIsFilledTakesNothingMoreUntilItIsFreed(t *testing.T) {
	t.Parallel()
	needRoot(t)
	parent := t.TempDir()
	dir := filepath.Join(parent, "a data directory")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, mountDisk(dir))
	t.Cleanup(func() { unmountBelow(parent) })
	require.Len(t, mounts(t, parent), 1)
	write := func(name string) error { return os.WriteFile(filepath.Join(dir, name), make([]byte, 100_000), 0o600) }
	require.NoError(t, write("before"))
	require.NoError(t, fillDisk(dir))
	require.ErrorIs(t, write("full"), syscall.ENOSPC)
	require.NoError(t, freeDisk(dir))
	require.NoError(t, write("after"))
	require.NoError(t, removeTree(parent))
	require.Empty(t, mounts(t, parent))
}

// What is left where rig and guard were killed: the next rig ends the mount.
func TestTheNextRigUnmountsWhatADeadOneHasLeft(t *testing.T) {
	t.Parallel()
	needRoot(t)
	parent := t.TempDir()
	dead, err := newWorkdir(parent)
	require.NoError(t, err)
	data := filepath.Join(dead.path, "1", "data")
	require.NoError(t, os.MkdirAll(data, 0o755))
	require.NoError(t, mountDisk(data))
	t.Cleanup(func() { unmountBelow(parent) })
	held, err := os.Create(filepath.Join(data, "held"))
	require.NoError(t, err)
	defer held.Close()

	living, err := newWorkdir(parent)
	require.NoError(t, err)
	require.Len(t, mounts(t, parent), 1, "what a rig that lives has mounted stays")
	require.NoError(t, living.remove())
	require.NoError(t, dead.lock.Close())
	living, err = newWorkdir(parent)
	require.NoError(t, err)
	require.Empty(t, mounts(t, parent))
	require.NoDirExists(t, dead.path)
	require.NoError(t, living.remove())
}

// kill -9 of the rig: the guard ends the mount.
func TestAKilledRigLeavesNoMount(t *testing.T) {
	needRoot(t)
	b := setupRig(t)
	cmd := b.startBusy(t, "-own-disk", "1")
	require.Len(t, mounts(t, b.tmp), 1)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
	require.Empty(t, mounts(t, b.tmp))
}

// A start that fails, after the disk was mounted.
func TestARigThatFailsToStartLeavesNoMount(t *testing.T) {
	needRoot(t)
	b := setupRig(t)
	code, _, stderr := b.run(t, "-provider", "java", "-own-disk", "1", "-set", "num.io.threads=0", "--", "true")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "num.io.threads")
	b.requireNoFiles(t)
	require.Empty(t, mounts(t, b.tmp))
}

// The broker ends by itself, which was ordered and is no error of the cluster;
// and nodes that were killed all at once come back.
func TestABrokerWithAFullDiskEndsAndComesBackOnceThereIsRoom(t *testing.T) {
	needRoot(t)
	b := setupRig(t)
	code, stdout, stderr := b.run(t, "-nodes", "3", "-own-disk", "2", "--", b.self, "client", "disk", "plaintext", "outage", "plaintext")
	require.Equal(t, 0, code, "output: %s\nerrors: %s", stdout, stderr)
	require.Equal(t, "ok disk\nok plaintext\nok outage\nok plaintext\n", stdout)
	require.Empty(t, stderr)
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
	require.Empty(t, mounts(t, b.tmp))
}

// A command that ends while the disk is full, and the broker dead.
func TestARigEndsWellWhileADiskIsFull(t *testing.T) {
	needRoot(t)
	b := setupRig(t)
	code, stdout, stderr := b.run(t, "-nodes", "3", "-own-disk", "1", "--", b.self, "client", "full")
	require.Equal(t, 0, code, "output: %s\nerrors: %s", stdout, stderr)
	require.Empty(t, stderr)
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
	require.Empty(t, mounts(t, b.tmp))
}

// fillOneDisk is the client's role that fills the disk of node 2 under load, and
// heals it.
func fillOneDisk(ctx context.Context) error {
	if err := fillAndWait(ctx, 2); err != nil {
		return err
	}
	path := os.Getenv("AX_KAFKA_CONTROL")
	if err := order(ctx, path, "fill 1"); err == nil {
		return errors.New("a disk was filled that is not there")
	}
	if err := order(ctx, path, "unfill 2"); err != nil {
		return err
	}
	return order(ctx, path, "start 2")
}

// fillNode1 is the one that ends while the disk is full.
func fillNode1(ctx context.Context) error { return fillAndWait(ctx, 1) }

// fillAndWait writes to all nodes, one of whose disks is full, until that one
// has ended, and a while on.
func fillAndWait(ctx context.Context, id int) error {
	cl, err := kgo.NewClient(append(openOptions(), kgo.DefaultProduceTopic("disk"), kgo.MetadataMinAge(50*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 3, 3, nil, "disk"); err != nil {
		return err
	}
	write := func() error {
		return cl.ProduceSync(ctx, &kgo.Record{Value: make([]byte, 10_000)}).FirstErr()
	}
	if err := write(); err != nil {
		return err
	}
	if err := order(ctx, os.Getenv("AX_KAFKA_CONTROL"), fmt.Sprintf("fill %d", id)); err != nil {
		return err
	}
	address := seeds(os.Getenv("AX_KAFKA"))[id-1]
	for alone(ctx, address, "") == nil {
		if err := write(); err != nil {
			return err
		}
	}
	return write()
}

// killAll is the client's role that kills all nodes, and starts them again.
func killAll(ctx context.Context) error {
	path := os.Getenv("AX_KAFKA_CONTROL")
	for id := range 3 {
		if err := order(ctx, path, fmt.Sprintf("kill %d", id+1)); err != nil {
			return err
		}
	}
	started := make(chan error)
	for id := range 3 {
		go func() { started <- order(ctx, path, fmt.Sprintf("start %d", id+1)) }()
	}
	return errors.Join(<-started, <-started, <-started)
}
