package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/bench"
)

func benchCommand() *cli.Command {
	var about strings.Builder
	names, abouts := bench.Works()
	for i := range names {
		fmt.Fprintf(&about, "   %-9s %s\n", names[i], abouts[i])
	}
	return &cli.Command{
		Name: "bench", Usage: "measure ax, and beside it what the bare Kafka client or a bare timer does",
		ArgsUsage: "WORK",
		Description: "WORK is one of\n" + about.String() + `
Each figure is the median of several pairs of a measurement and its control, on
topics of their own, which are deleted at the end. Compare ratios, not figures:
those depend on the machine. Exit code 1 if a task is lost or starts early.

Without --kafka or AX_KAFKA it runs on a Kafka inside this process, which then
is a part of all figures. AX_TLS_* and AX_SASL_* are used as well. The work far
starts "ax mover" as another process, which needs them just so.

Example:
   ax bench drain -n 500000 --kafka localhost:9092
   ax bench delay -n 25000 --spread 10s --json >>delay.jsonl
   ax bench far -n 1000000 --kafka localhost:9092`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "kafka", Usage: "brokers as `HOST:PORT,...` [$AX_KAFKA]"},
			&cli.IntFlag{Name: "n", HideDefault: true, Usage: "`NUMBER` of tasks"},
			&cli.IntFlag{Name: "live", HideDefault: true, Usage: "far: `NUMBER` of tasks that leave their tier during the run"},
			&cli.IntFlag{Name: "rate", HideDefault: true, Usage: "`NUMBER` of tasks that arrive a second"},
			&cli.DurationFlag{Name: "for", HideDefault: true, Usage: "`TIME` that they arrive, or that is measured"},
			&cli.DurationFlag{Name: "rest", HideDefault: true, Usage: "far: `TIME` that the mover is watched once all that is due is gone"},
			&cli.DurationFlag{Name: "spread", HideDefault: true, Usage: "`TIME` over which tasks are due"},
			&cli.DurationFlag{Name: "busy", HideDefault: true, Usage: "`TIME` that a low task runs"},
			&cli.IntFlag{Name: "workers", HideDefault: true, Usage: "`NUMBER` of the worker's slots"},
			&cli.IntFlag{Name: "payload", HideDefault: true, Usage: "`BYTES` of a payload"},
			&cli.IntFlag{Name: "pairs", HideDefault: true, Usage: "`NUMBER` of measurements and controls"},
			&cli.BoolFlag{Name: "near", Usage: "delay: all delays are of one hop, not of one, two and three"},
			&cli.DurationFlag{Name: "lead", HideDefault: true, Usage: "delay, mixed, burst: `TIME` before it is due that a task goes to its lane; 0 for none"},
			&cli.StringFlag{Name: "cpuprofile", Hidden: true, TakesFile: true, Usage: "`DIR` for CPU profiles of ax's part of drain"},
		}, logFlags("off")...),
		Action: runBench,
	}
}

func runBench(ctx context.Context, cmd *cli.Command) error {
	if err := noMoreArgs(cmd, 1); err != nil {
		return err
	}
	log, err := logger(cmd)
	if err != nil {
		return err
	}
	var k ax.Kafka
	if err := env.ParseWithOptions(&k, env.Options{Prefix: "AX_"}); err != nil {
		return usage("%s: environment: %v", cmd.FullName(), err)
	}
	if brokers := brokerList(cmd); len(brokers) > 0 {
		k.Brokers = brokers
	}
	cfg := bench.Config{
		Work: cmd.Args().First(), Kafka: k, N: cmd.Int("n"), Live: cmd.Int("live"), Rate: cmd.Int("rate"),
		For: cmd.Duration("for"), Spread: cmd.Duration("spread"), Busy: cmd.Duration("busy"),
		Workers: cmd.Int("workers"), Payload: cmd.Int("payload"), Pairs: cmd.Int("pairs"), Near: cmd.Bool("near"),
		Rest: cmd.Duration("rest"), Version: version(), Log: log, Profiles: cmd.String("cpuprofile"),
	}
	if cmd.IsSet("lead") {
		lead := cmd.Duration("lead")
		cfg.Lead = &lead
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("%s: which program is this: %w", cmd.FullName(), err)
	}
	cfg.Mover = moverProcess(program, len(k.Brokers) > 0)
	if err := cfg.Validate(); err != nil {
		return usage("%s: %w", cmd.FullName(), err)
	}
	if !cmd.Bool("json") {
		cfg.Progress = func(text string) { _, _ = fmt.Fprintln(cmd.Root().ErrWriter, text) }
	}
	r, err := bench.Run(ctx, cfg)
	if err != nil {
		return err
	}
	return printBench(cmd, r)
}

// moverProcess returns the command of "ax mover" in a process of its own.
// inherits says that it reaches Kafka as this process does: by AX_TLS_* and the
// like.
func moverProcess(program string, inherits bool) func(context.Context, ...string) *exec.Cmd {
	return func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, append([]string{"mover"}, args...)...)
		cmd.Env = os.Environ()
		if !inherits {
			// The Kafka inside this process has neither TLS nor users.
			cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "AX_") })
		}
		return cmd
	}
}

// printBench prints the figures, and returns an error unless all tasks are
// accounted for.
func printBench(cmd *cli.Command, r *bench.Result) error {
	err := r.Err()
	w := cmd.Root().Writer
	if !cmd.Bool("json") {
		_, _ = io.WriteString(w, strings.Join(r.Lines(), "\n")+"\n")
		return err
	}
	fields := r.Fields
	if err != nil {
		fields = append(fields, bench.Field{Key: "error", Value: err.Error()})
		err = &printedError{err}
	}
	if printErr := writeJSON(w, fields); printErr != nil {
		return printErr
	}
	return err
}
