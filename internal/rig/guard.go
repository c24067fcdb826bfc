package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// guardArg, as the only argument, makes this program the guard of another rig.
const guardArg = "internal-guard"

// guard is the rig's end of a pipe to a second process, which cleans up as soon
// as this end closes: at the end of the rig, whichever way it comes. A nil guard
// is one that does nothing.
//
// Each line written to the pipe is one fact: "+ID" a process group to kill,
// "-ID" one that has ended, "dir PATH" a directory to remove.
type guard struct {
	mu   sync.Mutex
	pipe *os.File
	cmd  *exec.Cmd
}

func startGuard() (*guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	defer r.Close()
	cmd := exec.Command(self, guardArg)
	cmd.Stdin = r
	// A group of its own, so that what ends the rig's group spares the guard;
	// and no output, so that nobody who reads the rig's to its end waits for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start guard: %w", err), w.Close())
	}
	return &guard{pipe: w, cmd: cmd}, nil
}

func (g *guard) addGroup(id int)    { g.tell("+" + strconv.Itoa(id)) }
func (g *guard) removeGroup(id int) { g.tell("-" + strconv.Itoa(id)) }
func (g *guard) addDir(path string) { g.tell("dir " + path) }

func (g *guard) tell(line string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// A guard that has been killed is no reason to stop: it is the second line
	// of defence, and Go turns the write into an error, not a signal.
	_, _ = g.pipe.WriteString(line + "\n")
}

// close lets the guard do what there is left to do and waits for its end.
func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.pipe.Close()
	t := time.AfterFunc(killTimeout, func() { _ = g.cmd.Process.Kill() })
	defer t.Stop()
	_ = g.cmd.Wait()
}

// guardMain is the guard process.
func guardMain(facts io.Reader) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	groups, dirs := readFacts(facts)
	for id := range groups {
		_ = syscall.Kill(-id, syscall.SIGKILL)
	}
	for dir := range dirs {
		removeBusy(dir)
	}
}

// readFacts returns what remains to be cleaned up when the pipe closes.
func readFacts(r io.Reader) (groups map[int]bool, dirs map[string]bool) {
	groups, dirs = map[int]bool{}, map[string]bool{}
	for s := bufio.NewScanner(r); s.Scan(); {
		line := s.Text()
		if dir, ok := strings.CutPrefix(line, "dir "); ok {
			dirs[dir] = true
			continue
		}
		// Only ids above 1: kill(-1) means every process there is.
		switch id, err := strconv.Atoi(line); {
		case err != nil:
		case id > 1:
			groups[id] = true
		case id < -1:
			delete(groups, -id)
		}
	}
	return groups, dirs
}

// removeBusy removes a directory in which processes that have just been killed
// may still be creating files.
func removeBusy(dir string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 250 { // 5 s
		if removeTree(dir) == nil {
			return
		}
		<-tick.C
	}
}
