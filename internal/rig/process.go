package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// killTimeout bounds the wait for a process that has been sent SIGKILL. Only
// one stuck in the kernel, on a dead network file system say, takes longer.
const killTimeout = 10 * time.Second

// process is a child that leads a process group of its own. The whole group is
// killed when the child ends, and, by the kernel and by the guard, when the rig
// dies.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child is reaped and its group killed
	err  error         // what cmd.Wait returned; valid once done is closed

	killed atomic.Bool // by us, or made to end by an order
}

// startProcess starts cmd. The goroutine behind it lasts until done is closed.
func startProcess(cmd *exec.Cmd, g *guard) (*process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		// The kernel takes the end of the thread that started the child for
		// the death of its parent. Go ends idle threads as it likes, so this
		// one is kept until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		g.addGroup(cmd.Process.Pid)
		started <- nil
		p.err = reapGroup(cmd, g)
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends sig to every process of the group.
func (p *process) signal(sig syscall.Signal) {
	if !p.exited() {
		// The only failure is that the group has ended meanwhile.
		_ = syscall.Kill(-p.pid(), sig)
	}
}

// waitFor reports whether the process ended within d.
func (p *process) waitFor(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
		return p.exited()
	}
}

// kill ends the group and returns when its leader is reaped.
func (p *process) kill() error {
	p.killed.Store(true)
	p.signal(syscall.SIGKILL)
	if !p.waitFor(killTimeout) {
		return fmt.Errorf("process %d (%s) is still there %s after SIGKILL", p.pid(), p.cmd.Path, killTimeout)
	}
	return nil
}

// runTool runs a command to its end, or until ctx is done, and returns what it
// wrote to its standard output and error. An error includes that text.
func runTool(ctx context.Context, cmd *exec.Cmd, g *guard) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := startProcess(cmd, g)
	if err != nil {
		return "", err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		err := errors.Join(context.Cause(ctx), p.kill())
		if !p.exited() {
			return "", err // out is still being written to
		}
		return "", fmt.Errorf("%w\n%s", err, out.String())
	}
	if p.err != nil {
		return "", fmt.Errorf("%w\n%s", p.err, out.String())
	}
	return out.String(), nil
}
