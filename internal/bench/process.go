package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/spec"
)

// process is a mover in a process of its own: what it takes is then its own as
// well, and nothing of the bench's is among it.
type process struct {
	cmd    *exec.Cmd
	stop   context.CancelFunc
	health chan string // the address where it answers
	over   chan struct{}
	err    error

	mu   sync.Mutex
	said []string // its last words
}

// process starts a mover of the domain. Where it ends by itself, the pair
// fails. end must be called.
func (g *ground) process(ctx context.Context) (_ *process, err error) {
	if g.Mover == nil {
		return nil, errors.New("no command is known that starts a mover")
	}
	path, err := g.specFile()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{stop: cancel, health: make(chan string, 1), over: make(chan struct{})}
	p.cmd = g.Mover(ctx, "--spec", path, "--kafka", strings.Join(g.Kafka.Brokers, ","),
		"--health", "127.0.0.1:0", "--log-level", "info", "--log-format", "json")
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	p.cmd.WaitDelay = endTime
	out, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start a mover: %w", err), os.RemoveAll(filepath.Dir(path)))
	}
	go func() {
		defer close(p.over)
		p.listen(out)
		err := p.cmd.Wait()
		if ctx.Err() == nil {
			g.fail(fmt.Errorf("the mover's process ended by itself: %w: %s", orNone(err), p.words()))
		} else if errors.Is(err, context.Canceled) {
			err = nil // it was told to stop, and did in order
		}
		p.err = errors.Join(err, os.RemoveAll(filepath.Dir(path)))
	}()
	return p, nil
}

// specFile writes the domain for another process, in a directory of its own.
func (g *ground) specFile() (path string, err error) {
	d := g.router.Domain()
	// Secrets would be written as stars: how to reach the brokers the process
	// learns from its environment.
	d.Kafka = ax.Kafka{Brokers: d.Kafka.Brokers}
	text, err := spec.Marshal(d)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "ax-bench-")
	if err != nil {
		return "", fmt.Errorf("a directory for the domain's file: %w", err)
	}
	path = filepath.Join(dir, "domain.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", errors.Join(fmt.Errorf("write the domain's file: %w", err), os.RemoveAll(dir))
	}
	return path, nil
}

// listen takes in the process's log until that ends.
func (p *process) listen(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line struct{ Msg, What, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "served" && line.What == "health" {
			p.health <- line.Address
			continue
		}
		p.mu.Lock()
		p.said = append(p.said[max(0, len(p.said)-9):], lines.Text())
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, out) // after a line that is too long, or the process would wait
}

func (p *process) pid() string { return strconv.Itoa(p.cmd.Process.Pid) }

func (p *process) words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.said, "\n")
}

// ready waits until the process takes part in its groups.
func (p *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the mover's process is not ready after %s", patience))
	defer cancel()
	var url string
	select {
	case address := <-p.health:
		url = "http://" + address + "/readyz"
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return fmt.Errorf("ask for %s: %w", url, err)
		}
		if answer, err := client.Do(req); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end stops the process and returns what became of it. A second call returns
// the same.
func (p *process) end() error {
	p.stop()
	<-p.over
	if p.err != nil {
		return fmt.Errorf("the mover's process: %w: %s", p.err, p.words())
	}
	return nil
}
