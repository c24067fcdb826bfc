package main

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the child when the thread that starts it
// ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// reapGroup waits until the leader has ended, kills what remains of its group
// and reaps the leader. In this order, because the group's id is the leader's
// process id: as long as the leader is a zombie nobody else can be given it.
func reapGroup(cmd *exec.Cmd, g *guard) error {
	pid := cmd.Process.Pid
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	g.removeGroup(pid)
	return cmd.Wait()
}
