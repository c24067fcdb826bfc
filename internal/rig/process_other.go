//go:build unix && !linux

package main

import (
	"os/exec"
	"syscall"
	"time"
)

// dieWithParent can do nothing here: after kill -9 of the rig its children live
// for the moment that the guard needs.
func dieWithParent(*syscall.SysProcAttr) {}

// reapGroup waits for the leader and kills what remains of its group.
func reapGroup(cmd *exec.Cmd, g *guard) error {
	// Grandchildren may hold the pipes that Wait would read to their end.
	cmd.WaitDelay = time.Second
	err := cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	g.removeGroup(cmd.Process.Pid)
	return err
}
