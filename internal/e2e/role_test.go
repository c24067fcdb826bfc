//go:build kafka

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
)

const (
	setupVar = "AX_E2E_SETUP"
	// slots is how many tasks a worker runs at once unless its setup says more.
	slots = 16
	// crashCode is with what a process ends that a task has killed.
	crashCode = 3
)

// setup is what a role's process is told.
type setup struct {
	Role   string
	Domain ax.Domain
	Facts  string // the file of the facts
	Slots  int
	Grace  time.Duration // zero: the worker's own default
}

// fact is one start of a handler, or its end where Done is set, as the worker
// process saw it.
type fact struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Due     time.Time `json:"due"`
	Attempt int       `json:"attempt"`
	Worker  int       `json:"worker"`
	Done    bool      `json:"done,omitempty"`
}

// play is the life of a role's process.
func play(text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var s setup
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("pid", os.Getpid())
	if s.Role == "mover" {
		m, err := delay.New(s.Domain, delay.WithLogger(log))
		if err != nil {
			return err
		}
		return m.Run(ctx)
	}
	facts, err := os.OpenFile(s.Facts, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = facts.Close() }()
	opts := []consumer.Option{consumer.WithLogger(log), consumer.WithSlots(s.Slots)}
	if s.Grace > 0 {
		opts = append(opts, consumer.WithGrace(s.Grace))
	}
	w, err := consumer.New(s.Domain, handlers(facts), opts...)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// handlers are what the tasks of the tests do. Each start is a fact.
func handlers(facts io.Writer) *consumer.Mux {
	tell := func(t *ax.Task, done bool) error {
		line, err := json.Marshal(fact{ID: t.ID, At: time.Now(), Due: t.Due, Attempt: t.Attempt, Worker: os.Getpid(), Done: done})
		if err != nil {
			return err
		}
		// One write of a whole line: a killed process leaves no half of one
		// behind another's.
		_, err = facts.Write(append(line, '\n'))
		return err
	}
	mux := consumer.NewMux()
	handle := func(kind string, work func(context.Context, *ax.Task) error) {
		mux.HandleFunc(kind, func(ctx context.Context, t *ax.Task) error {
			if err := tell(t, false); err != nil {
				return err
			}
			return work(ctx, t)
		})
	}
	handle("job", func(context.Context, *ax.Task) error { return nil })
	handle("crash", func(context.Context, *ax.Task) error {
		os.Exit(crashCode)
		return nil
	})
	// It works for as long as the payload says.
	handle("long", func(ctx context.Context, t *ax.Task) error {
		d, err := time.ParseDuration(string(t.Payload))
		if err != nil {
			return ax.Permanent(err)
		}
		select {
		case <-time.After(d):
			return tell(t, true)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	// It works until the file exists that the payload names.
	handle("hold", func(ctx context.Context, t *ax.Task) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := os.Stat(string(t.Payload)); err == nil {
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return mux
}

// process is a role that runs as a process of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	end chan error // gets its end
}

// start starts a role of the domain.
func start(t *testing.T, role string, d ax.Domain, facts string, change ...func(*setup)) *process {
	t.Helper()
	p, err := spawn(t, role, d, facts, change...)
	require.NoError(t, err)
	return p
}

// spawn is start for a goroutine of a test.
func spawn(t *testing.T, role string, d ax.Domain, facts string, change ...func(*setup)) (*process, error) {
	s := setup{Role: role, Domain: d, Facts: facts, Slots: slots}
	for _, c := range change {
		c(&s)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), setupVar+"="+string(text))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{t: t, cmd: cmd, end: make(chan error, 1)}
	go func() { p.end <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// kill is kill -9.
func (p *process) kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	require.Error(p.t, <-p.end)
}

// stop asks the process to end and requires that it does so cleanly.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case err := <-p.end:
		require.NoError(p.t, err)
	case <-time.After(time.Minute):
		p.t.Fatal("the process did not stop within a minute")
	}
}

// report reads the facts of worker processes while they write them.
type report struct {
	t    *testing.T
	path string
	read int64
	all  []fact
}

// list returns all facts so far.
func (r *report) list() []fact {
	r.t.Helper()
	f, err := os.Open(r.path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(r.t, err)
	defer f.Close()
	_, err = f.Seek(r.read, io.SeekStart)
	require.NoError(r.t, err)
	text, err := io.ReadAll(f)
	require.NoError(r.t, err)
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			break // it is being written
		}
		var x fact
		require.NoError(r.t, json.Unmarshal(line, &x), "%s", line)
		r.all = append(r.all, x)
		r.read += int64(len(line))
	}
	return r.all
}

// starts returns how often each task was started.
func (r *report) starts() map[string]int {
	r.t.Helper()
	return r.count(func(f fact) bool { return !f.Done })
}

// done returns how often each task of kind "long" was done.
func (r *report) done() map[string]int {
	r.t.Helper()
	return r.count(func(f fact) bool { return f.Done })
}

func (r *report) count(which func(fact) bool) map[string]int {
	r.t.Helper()
	n := map[string]int{}
	for _, f := range r.list() {
		if which(f) {
			n[f.ID]++
		}
	}
	return n
}
