package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// commandGrace is how long a command may take to end after the rig was told to
// terminate, before it is killed. An interrupt (Ctrl-C) sets no such limit: it
// is up to the command what it means.
const commandGrace = 30 * time.Second

// runCommand runs a command with the rig's own input and output, passes the
// signals that arrive on to it, and returns its exit code when nothing of its
// process group is left.
func runCommand(args, env []string, sigs <-chan os.Signal, g *guard) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	giveBack := lendTerminal(cmd)
	defer giveBack()
	p, err := startProcess(cmd, g)
	if err != nil {
		code := 126 // as shells have it: 127 is not found, 126 not executable
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			code = 127
		}
		return code, fmt.Errorf("run %s: %w", args[0], err)
	}

	var grace <-chan time.Time
	for {
		select {
		case <-p.done:
			return exitCode(p.cmd.ProcessState), nil
		case s := <-sigs:
			sig, ok := s.(syscall.Signal)
			if !ok {
				continue
			}
			p.signal(sig)
			if grace == nil && (sig == syscall.SIGTERM || sig == syscall.SIGHUP) {
				grace = time.After(commandGrace)
			}
		case <-grace:
			if err := p.kill(); err != nil {
				return 1, fmt.Errorf("run %s: %w", args[0], err)
			}
		}
	}
}

// exitCode returns the code with which a shell would report the same end.
func exitCode(st *os.ProcessState) int {
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return signalError{ws.Signal()}.exitCode()
	}
	return st.ExitCode()
}
