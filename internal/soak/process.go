package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/axtasks/ax/internal/checker"
)

const (
	// stopWait bounds the end of a process that was told to stop: longer than
	// all the graces that a role has.
	stopWait = time.Minute
	// A role that ends by itself is started again after this, as whatever
	// runs it in production would do.
	restartWait = time.Second
)

// slot is the place of one process: worker-1 and so on. Its processes come and
// go.
type slot struct {
	s    *soak
	name string
	role role

	fault sync.Mutex // held by the fault that is at work on it

	mu     sync.Mutex
	life   int
	skew   time.Duration
	proc   *proc // nil while there is none
	wanted bool
}

// proc is one life of a process.
type proc struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid once done is closed
}

// start runs the slot's process, and keeps one running until it is stopped or
// killed by a fault.
func (s *slot) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = true
	return s.spawn()
}

// startIfAway starts the slot's process where there is none.
func (s *slot) startIfAway() error {
	if s.running() != nil {
		return nil
	}
	return s.start()
}

// spawn is called with the lock held.
func (s *slot) spawn() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	s.life++
	r := s.role
	r.Proc = fmt.Sprintf("%s.%d", s.name, s.life)
	r.Facts = filepath.Join(s.s.dir, "facts", r.Proc+".jsonl")
	r.Seed += uint64(s.life) << 32
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("start %s: %w", r.Proc, err)
	}
	out, err := os.Create(filepath.Join(s.s.dir, "logs", r.Proc+".log"))
	if err != nil {
		return fmt.Errorf("start %s: %w", r.Proc, err)
	}
	defer out.Close()
	cmd := exec.CommandContext(s.s.lives, self)
	cmd.Env = append(os.Environ(), roleVar+"="+string(text))
	if s.skew != 0 {
		cmd.Env = append(cmd.Env, "AX_CLOCK_SKEW="+s.skew.String())
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", r.Proc, err)
	}
	p := &proc{name: r.Proc, cmd: cmd, done: make(chan struct{})}
	s.proc = p
	s.s.group.Go(func() { s.watch(p) })
	return nil
}

// watch starts the process again that ends by itself.
func (s *slot) watch(p *proc) {
	p.err = p.cmd.Wait()
	close(p.done)
	s.mu.Lock()
	own := s.wanted && s.proc == p
	if s.proc == p {
		s.proc = nil
	}
	s.mu.Unlock()
	if !own || s.s.lives.Err() != nil {
		return
	}
	s.s.exits.Add(1)
	s.s.say("%s ended by itself: %v; see logs/%s.log", p.name, p.err, p.name)
	if wait(s.s.lives, restartWait) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted && s.proc == nil {
		if err := s.spawn(); err != nil {
			s.s.say("%v", err)
		}
	}
}

// take returns the running process, which from now on nobody starts again.
func (s *slot) take() *proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = false
	return s.proc
}

// setSkew sets by how much the clock of the slot's next processes is wrong.
func (s *slot) setSkew(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = d
}

func (s *slot) running() *proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// kill ends the slot's process, if there is one.
func (s *slot) kill() error {
	p := s.take()
	if p == nil {
		return nil
	}
	s.putDown(p)
	return nil
}

// stop asks the process to end and waits until it has. One that does not end
// in time is killed, which is told.
func (s *slot) stop(what string) error {
	p := s.take()
	if p == nil {
		return nil
	}
	at := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	late := time.NewTimer(stopWait)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
		s.s.unclean.Add(1)
		s.s.say("%s did not stop within %s and is killed", p.name, stopWait)
		s.putDown(p)
		return nil
	}
	s.s.facts.Write(checker.Fact{Type: checker.Fault, What: what, Proc: p.name, At: at.UnixNano(), Until: time.Now().UnixNano()})
	if p.err != nil {
		s.s.unclean.Add(1)
		s.s.say("%s stopped with an error: %v; see logs/%s.log", p.name, p.err, p.name)
	}
	return nil
}

// putDown ends a process with SIGKILL, waits until it is gone, and says so in a
// fact.
func (s *slot) putDown(p *proc) {
	at := time.Now()
	_ = p.cmd.Process.Kill() // it may have ended meanwhile
	<-p.done
	s.s.facts.Write(checker.Fact{Type: checker.Fault, What: checker.Kill, Proc: p.name, At: at.UnixNano(), Until: time.Now().UnixNano()})
}

// freeze stops the process in its tracks for d.
func (s *slot) freeze(ctx context.Context, d time.Duration) error {
	p := s.running()
	if p == nil {
		return nil
	}
	at := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		if errors.Is(err, os.ErrProcessDone) {
			return nil
		}
		return fmt.Errorf("freeze %s: %w", p.name, err)
	}
	_ = wait(ctx, d) // thawed early when the soak ends
	err := p.cmd.Process.Signal(syscall.SIGCONT)
	s.s.facts.Write(checker.Fact{Type: checker.Fault, What: checker.Freeze, Proc: p.name, At: at.UnixNano(), Until: time.Now().UnixNano()})
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("thaw %s: %w", p.name, err)
	}
	return nil
}
