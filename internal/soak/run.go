package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/checker"
	"github.com/axtasks/ax/router"
)

// soak is one run.
type soak struct {
	cfg     config
	out     io.Writer
	dir     string
	router  *router.Router
	adm     *kadm.Client
	control control
	facts   *checker.Writer // of the driver itself
	slots   map[string]*slot
	began   time.Time

	lives context.Context // of all processes
	group sync.WaitGroup  // what watches them

	fewest, most int // workers at a time

	exits   atomic.Int64 // of processes, by themselves
	unclean atomic.Int64 // stops that were not clean

	mu sync.Mutex // one line at a time
}

// say prints a line with the time since the beginning.
func (s *soak) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "[%6.1fs] %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// run runs a soak and reports whether all promises held that were judged.
func run(ctx context.Context, cfg config, out io.Writer) (held bool, err error) {
	s := &soak{cfg: cfg, out: out, dir: cfg.dir, control: control{cfg.control}, slots: map[string]*slot{}, began: time.Now()}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "ax-soak-"); err != nil {
			return false, err
		}
		defer func() {
			if held && err == nil && !cfg.keep {
				err = os.RemoveAll(s.dir)
				return
			}
			fmt.Fprintf(out, "facts and logs are in %s\n", s.dir)
		}()
	}
	for _, d := range []string{"facts", "logs"} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), 0o755); err != nil {
			return false, err
		}
	}
	if s.facts, err = checker.NewWriter(filepath.Join(s.dir, "facts", "driver.jsonl"), "driver"); err != nil {
		return false, err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(cfg.brokers...), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		return false, fmt.Errorf("client: %w", err)
	}
	defer cl.Close()
	s.adm = kadm.NewClient(cl)

	// Everything lives until here, whatever happens, and not longer.
	var end context.CancelFunc
	s.lives, end = context.WithCancel(context.WithoutCancel(ctx))
	defer s.group.Wait()
	defer end()
	if err := s.provision(ctx); err != nil {
		return false, err
	}
	if err := s.work(ctx); err != nil {
		return false, err
	}
	end()
	s.group.Wait()
	if err := s.facts.Close(); err != nil {
		return false, err
	}
	saturated := checker.Shares{From: s.began.Add(sharesFrom), Until: s.began.Add(cfg.length)}
	return judge(cfg, s.dir, saturated, out)
}

func (s *soak) provision(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := router.New(newDomain(s.cfg))
	if err != nil {
		return err
	}
	s.router = r
	plan, err := r.Plan(ctx, s.adm)
	if err != nil {
		return fmt.Errorf("provision: %w", err)
	}
	if err := plan.Apply(ctx, s.adm); err != nil {
		return fmt.Errorf("provision: %w", err)
	}
	return nil
}

// work is the time between the first process and the last.
func (s *soak) work(ctx context.Context) error {
	t := targets{workers: scenarios[s.cfg.scenario].workers(s.cfg.workers), first: s.cfg.workers, movers: s.cfg.movers, producers: s.cfg.producers, skew: canSkew}
	if s.cfg.control != "" {
		t.brokers = len(s.cfg.brokers)
	}
	steps := makeScript(s.cfg.seed, s.cfg.length, scenarios[s.cfg.scenario], t)
	fmt.Fprintf(s.out, "soak for %s, seed %d, scenario %s, %s groups: %d workers, %d movers, %d producers, %d tasks/s, domain %s; %d faults:\n", s.cfg.length,
		s.cfg.seed, s.cfg.scenario, s.cfg.protocol, s.cfg.workers, s.cfg.movers, s.cfg.producers, s.cfg.rate, s.router.Domain().Name, len(steps))
	printScript(s.out, steps)

	watching, stopWatching := context.WithCancel(s.lives)
	defer stopWatching()
	if err := s.watchCommits(watching, s.router.Domain().Name+"."); err != nil {
		return err
	}
	s.makeSlots()
	s.began = time.Now()
	for _, name := range s.names() {
		if err := s.slots[name].start(); err != nil {
			return err
		}
	}
	during, cancel := context.WithTimeout(ctx, s.cfg.length)
	watched := make(chan struct{})
	go func() { defer close(watched); s.progress(during) }()
	s.perform(during, steps)
	<-during.Done()
	<-watched
	cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	s.say("no more faults and no more tasks")
	s.stopAll("producer")
	drained := s.drain(ctx)
	s.stopAll("worker", "mover")
	if err := s.collect(ctx); err != nil {
		return err
	}
	// What was committed last is seen a moment later.
	_ = wait(ctx, time.Second)
	s.say("drained: %t; %d to %d workers at a time; %d processes ended by themselves, %d stops were not clean", drained, s.fewest, s.most, s.exits.Load(), s.unclean.Load())
	return nil
}

func (s *soak) makeSlots() {
	sc := scenarios[s.cfg.scenario]
	number := 0
	for _, r := range []struct {
		name string
		n    int
	}{{"worker", sc.workers(s.cfg.workers)}, {"mover", s.cfg.movers}, {"producer", s.cfg.producers}} {
		for i := range r.n {
			number++
			sl := &slot{s: s, name: fmt.Sprintf("%s-%d", r.name, i+1), role: role{
				Role: r.name, Domain: s.router.Domain(), From: ownAddress(number), Slots: s.cfg.slots, MaxDelay: s.cfg.maxDelay,
				Rate: max(1, s.cfg.rate/s.cfg.producers), Seed: s.cfg.seed + uint64(i), Trim: r.name == "mover" && i == 0, Saturate: sc.saturate, Tune: sc.tune,
			}}
			if r.name != "producer" {
				if sl.role.Buffer = sc.buffer; i == 0 && sc.buffer == 0 {
					sl.role.Buffer = 64 * someRecords // so that a client without room is met in every soak
				}
			}
			s.slots[sl.name] = sl
		}
	}
}

// ownAddress returns the address that the n-th process dials from, so that the
// rig's proxies can tell them apart; empty where this machine has only one.
func ownAddress(n int) string {
	ip := fmt.Sprintf("127.0.1.%d", n)
	l, err := net.Listen("tcp4", ip+":0") //nolint:noctx // nothing is waited for
	if err != nil {
		return ""
	}
	_ = l.Close()
	return ip
}

// names returns the slots that begin.
func (s *soak) names() []string {
	var names []string
	for _, r := range []string{"worker", "mover", "producer"} {
		slots := s.slotsOf(r)
		if r == "worker" {
			slots = slots[:s.cfg.workers]
		}
		for _, sl := range slots {
			names = append(names, sl.name)
		}
	}
	return names
}

// slotsOf returns the slots of a role, in the order of their names.
func (s *soak) slotsOf(role string) []*slot {
	var all []*slot
	for _, sl := range s.slots {
		if sl.role.Role == role {
			all = append(all, sl)
		}
	}
	slices.SortFunc(all, func(a, b *slot) int { return strings.Compare(a.name, b.name) })
	return all
}

func (s *soak) stopAll(roles ...string) {
	var wg sync.WaitGroup
	for _, r := range roles {
		for _, sl := range s.slotsOf(r) {
			wg.Go(func() {
				if err := sl.stop("stop"); err != nil {
					s.say("%v", err)
				}
			})
		}
	}
	wg.Wait()
}
