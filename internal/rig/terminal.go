package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// lendTerminal makes cmd, which is going to lead a process group of its own, the
// foreground group of the terminal that is the rig's standard input: other
// groups are stopped when they read from it. So "rig -- bash" gives a usable
// shell. It does nothing if standard input is no terminal, or not the rig's to
// lend. The function returned takes the terminal back.
func lendTerminal(cmd *exec.Cmd) (giveBack func()) {
	fd := int(os.Stdin.Fd())
	own := syscall.Getpgrp()
	if holder, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || holder != own {
		return func() {}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: fd}
	return func() {
		// By now the rig is in the background, where this very call would stop
		// it if the signal were not ignored. The end of the program is near.
		signal.Ignore(syscall.SIGTTOU)
		_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, own)
	}
}
