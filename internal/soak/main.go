package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/axtasks/ax"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := soakMain(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func soakMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if os.Getenv(roleVar) != "" {
		if err := play(ctx, stderr); err != nil {
			fmt.Fprintln(stderr, "soak:", err)
			return 1
		}
		return 0
	}
	cfg, err := parseArgs(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "soak:", err)
		return 2
	}
	var held bool
	if cfg.judge != "" {
		held, err = judgeAgain(cfg, stdout)
	} else {
		held, err = run(ctx, cfg, stdout)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "soak:", err)
		return 2
	case !held:
		return 1
	}
	return 0
}

// config is what the command line asks for.
type config struct {
	length    time.Duration
	seed      uint64
	workers   int
	movers    int
	producers int
	rate      int
	slots     int
	maxDelay  time.Duration
	drain     time.Duration
	scenario  string
	protocol  string
	dir       string
	keep      bool
	judge     string
	known     []string

	brokers []string
	control string
}

func parseArgs(args []string, stderr io.Writer) (config, error) {
	var c config
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.DurationVar(&c.length, "for", 2*time.Minute, "how long tasks are submitted and faults happen")
	fs.Uint64Var(&c.seed, "seed", 1, "what the faults follow from")
	fs.IntVar(&c.workers, "workers", 3, "worker processes; the scenario workers has more or less of them, 6 at most")
	fs.IntVar(&c.movers, "movers", 2, "mover processes")
	fs.IntVar(&c.producers, "producers", 1, "producer processes")
	fs.IntVar(&c.rate, "rate", 0, "tasks a second, of all producers together; 0: what suits the scenario, mostly 200")
	fs.IntVar(&c.slots, "slots", 16, "tasks that one worker runs at once")
	fs.DurationVar(&c.maxDelay, "max-delay", 20*time.Second, "the longest delay of a task")
	fs.DurationVar(&c.drain, "drain", 90*time.Second, "how long it may take at the end until nothing waits")
	fs.StringVar(&c.scenario, "scenario", "all", "which faults: "+strings.Join(scenarioNames(), ", "))
	fs.StringVar(&c.protocol, "protocol", ax.Classic, "how groups share partitions: "+ax.Classic+" or "+ax.Consumer+" (KIP-848)")
	fs.StringVar(&c.dir, "dir", "", "where facts and logs go; empty: a temporary folder, removed when all went well")
	fs.BoolVar(&c.keep, "keep", false, "keep the temporary folder")
	fs.StringVar(&c.judge, "judge", "", "run nothing, and judge the facts that an earlier run left in this folder")
	fs.Func("known", "promises, separated by commas, whose failure is reported but does not fail the run: they are listed in docs/soak.md", func(s string) error {
		c.known = strings.Split(s, ",")
		return nil
	})
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, "usage: soak [flags], with AX_KAFKA set")
			fs.SetOutput(stderr)
			fs.PrintDefaults()
		}
		return c, err
	}
	c.brokers = strings.FieldsFunc(os.Getenv("AX_KAFKA"), func(r rune) bool { return r == ',' || r == ' ' })
	c.control = os.Getenv("AX_KAFKA_CONTROL")
	if c.rate == 0 {
		if c.rate = scenarios[c.scenario].rate; c.rate == 0 {
			c.rate = 200
		}
	}
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(fs.NArg() > 0, "unexpected argument %q", fs.Arg(0))
	refuse(len(c.brokers) == 0 && c.judge == "", `AX_KAFKA names no broker; run "make soak", which starts a Kafka`)
	refuse(c.protocol != ax.Classic && c.protocol != ax.Consumer, "--protocol %q: want %s or %s", c.protocol, ax.Classic, ax.Consumer)
	refuse(c.length < time.Second, "--for %s: want at least 1s", c.length)
	refuse(c.drain < time.Second, "--drain %s: want at least 1s", c.drain)
	refuse(min(c.workers, c.movers, c.producers, c.rate, c.slots) < 1, "want at least one of each: workers, movers, producers, rate, slots")
	refuse(max(c.workers, c.movers, c.producers) > 60, "more than 60 processes of a role")
	refuse(c.maxDelay < 0, "--max-delay %s: want 0 or more", c.maxDelay)
	sc, known := scenarios[c.scenario]
	refuse(sc.crowd != nil && (c.workers < sc.crowd.least || c.workers > sc.crowd.most), "--scenario %s: want 2 to 6 workers", c.scenario)
	for _, name := range sc.slots {
		role, n, _ := strings.Cut(name, "-")
		number, err := strconv.Atoi(n)
		refuse(err != nil || number > map[string]int{"worker": sc.workers(c.workers), "mover": c.movers, "producer": c.producers}[role],
			"--scenario %s: there is no %s", c.scenario, name)
	}
	refuse(!known, "--scenario %q: want one of %s", c.scenario, strings.Join(scenarioNames(), ", "))
	return c, errors.Join(errs...)
}
