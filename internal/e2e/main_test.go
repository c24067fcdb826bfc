//go:build kafka

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

const (
	roleVar   = "AX_E2E_ROLE"
	domainVar = "AX_E2E_DOMAIN"
	factsVar  = "AX_E2E_FACTS"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv("AX_KAFKA") == "" {
		fmt.Fprintln(os.Stderr, `e2e: AX_KAFKA names no broker; run "make real", which starts a Kafka`)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// fact is one start of a handler, as the worker process saw it.
type fact struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Due     time.Time `json:"due"`
	Attempt int       `json:"attempt"`
	Worker  int       `json:"worker"`
}

// play is the life of a role's process.
func play(role string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var d ax.Domain
	if err := json.Unmarshal([]byte(os.Getenv(domainVar)), &d); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if role == "mover" {
		m, err := delay.New(d, delay.WithLogger(log))
		if err != nil {
			return err
		}
		return m.Run(ctx)
	}
	facts, err := os.OpenFile(os.Getenv(factsVar), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = facts.Close() }()
	mux := consumer.NewMux()
	mux.HandleFunc("job", func(_ context.Context, t *ax.Task) error {
		line, err := json.Marshal(fact{ID: t.ID, At: time.Now(), Due: t.Due, Attempt: t.Attempt, Worker: os.Getpid()})
		if err != nil {
			return err
		}
		// One write of a whole line: a killed process leaves no half of one
		// behind another's.
		_, err = facts.Write(append(line, '\n'))
		return err
	})
	w, err := consumer.New(d, mux, consumer.WithLogger(log), consumer.WithSlots(slots))
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

const slots = 16

// process is a role that runs as a process of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	end chan error
}

func start(t *testing.T, role string, d ax.Domain, facts string) *process {
	t.Helper()
	spec, err := json.Marshal(d)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+role, domainVar+"="+string(spec), factsVar+"="+facts)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	require.NoError(t, cmd.Start())
	p := &process{t: t, cmd: cmd, end: make(chan error, 1)}
	go func() { p.end <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
	})
	return p
}

func (p *process) kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	require.Error(p.t, <-p.end)
}

// stop asks the process to end and requires that it does so cleanly.
func (p *process) stop() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.end:
		require.NoError(p.t, err)
	case <-time.After(time.Minute):
		p.t.Fatal("the process did not stop within a minute")
	}
}

// newDomain returns a domain of its own, with topics, for one test.
func newDomain(t *testing.T, change func(*ax.Domain)) *router.Router {
	t.Helper()
	d := bareDomain()
	if change != nil {
		change(&d)
	}
	r, err := router.New(d)
	require.NoError(t, err)
	adm := admin(t)
	plan, err := r.Plan(t.Context(), adm)
	require.NoError(t, err)
	require.NoError(t, plan.Apply(t.Context(), adm))
	t.Cleanup(func() {
		_, err := adm.DeleteTopics(context.Background(), r.Topics()...)
		require.NoError(t, err)
	})
	return r
}

func bareDomain() ax.Domain {
	var b [5]byte
	_, _ = rand.Read(b[:])
	return ax.Domain{
		Name:  "e2e-" + hex.EncodeToString(b[:]),
		Kafka: ax.Kafka{Brokers: strings.Split(os.Getenv("AX_KAFKA"), ",")},
		// Fewer partitions than by default: the tests make many topics.
		Delay: ax.Delay{Tiers: []time.Duration{2 * time.Second, 10 * time.Second}, NearPartitions: 3, Window: 500 * time.Millisecond},
	}
}

func admin(t *testing.T) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Getenv("AX_KAFKA"), ",")...), kgo.MetadataMinAge(50*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

func client(t *testing.T, d ax.Domain, opts ...producer.Option) *producer.Client {
	t.Helper()
	c, err := producer.New(d, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

// eventually waits until ok, and fails with what it says after the limit.
func eventually(t *testing.T, limit time.Duration, ok func() (bool, string)) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(limit)
	for range tick.C {
		done, why := ok()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %s: %s", limit, why)
		}
	}
}

// work runs a role of this process until the test ends.
func work(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(t, <-done)
	}
	t.Cleanup(stop)
	return stop
}
