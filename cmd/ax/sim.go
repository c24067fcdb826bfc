package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/sim"
	"github.com/axtasks/ax/internal/text"
	"github.com/axtasks/ax/spec"
)

func simCommand() *cli.Command {
	return &cli.Command{
		Name: "sim", Usage: "say what a worker would do with a load, in virtual time",
		Description: "Runs the worker's scheduler and the router over arrivals that --load describes or\n" +
			"--record has recorded; without either, all lanes are flooded with runs of 10 ms,\n" +
			"which shows how they share. It talks to no broker, and Kafka costs no time in it.\n" +
			"One seed gives one result. docs/sim.md describes the files and what is left out.\n\n" +
			"Exit code 1 if a lane's head waits for longer than the scheduler promises.\n\nExample:\n" +
			"   ax sim --spec orders.yaml --slots 16\n" +
			"   ax sim --spec orders.yaml --load load.yaml --svg sim.svg",
		Flags: []cli.Flag{
			domainFlags()[0],
			&cli.StringFlag{Name: "load", Usage: "YAML `FILE` that describes what arrives", TakesFile: true},
			&cli.StringFlag{Name: "record", Usage: "CSV `FILE` of what has arrived, with the columns at,kind,lane,run,delay", TakesFile: true},
			&cli.IntFlag{Name: "slots", HideDefault: true, Usage: "`NUMBER` of the worker's slots (default: the load's, or 32)"},
			&cli.DurationFlag{Name: "for", HideDefault: true, Usage: "`TIME` that is measured (default: the load's, or 1m; of a recording until all is done)"},
			&cli.IntFlag{Name: "seed", HideDefault: true, Usage: "`NUMBER` from which all random ones come (default: the load's, or 1)"},
			&cli.StringFlag{Name: "svg", Usage: "`FILE` for a chart of shares and waits over time", TakesFile: true},
		},
		Action: simulate,
	}
}

func simulate(ctx context.Context, cmd *cli.Command) error {
	if err := noMoreArgs(cmd, 0); err != nil {
		return err
	}
	d, err := loadDomain(cmd)
	if err != nil {
		return err
	}
	r, err := simulated(ctx, cmd, d)
	if err != nil {
		return err
	}
	if path := cmd.String("svg"); path != "" {
		if err := writeChart(path, r); err != nil {
			return fmt.Errorf("%s: write the chart: %w", cmd.FullName(), err)
		}
	}
	return printSim(cmd, r)
}

// simulated runs what the flags ask for.
func simulated(ctx context.Context, cmd *cli.Command, d ax.Domain) (r *sim.Result, err error) {
	load, recording := sim.Flood(d), (*sim.Recording)(nil)
	switch path, record := cmd.String("load"), cmd.String("record"); {
	case path != "" && record != "":
		return nil, usage("%s: --load and --record: want one of them", cmd.FullName())
	case path != "":
		if load, err = sim.LoadFile(path, d); err != nil {
			return nil, &usageError{err}
		}
	case record != "":
		f, err := os.Open(record)
		if err != nil {
			return nil, usage("%s: read the recording: %w", cmd.FullName(), err)
		}
		defer func() { _ = f.Close() }() // it was only read
		if recording, err = sim.NewRecording(record, f, d); err != nil {
			return nil, &usageError{err}
		}
		load.Loads, load.For, load.Warmup = nil, 0, 0
	}
	if err := overrideLoad(cmd, &load, d); err != nil {
		return nil, err
	}
	if r, err = sim.Run(ctx, d, load, recording); err != nil {
		if _, ok := errors.AsType[*spec.Error](err); ok {
			return nil, &usageError{err}
		}
		return nil, err
	}
	return r, nil
}

// overrideLoad lays the flags over the load.
func overrideLoad(cmd *cli.Command, load *sim.Load, d ax.Domain) error {
	if cmd.IsSet("slots") {
		load.Slots = cmd.Int("slots")
	}
	if cmd.IsSet("for") {
		if load.For = cmd.Duration("for"); load.For < time.Millisecond {
			return usage("%s: --for %s: want at least 1ms", cmd.FullName(), text.Duration(load.For))
		}
	}
	if cmd.IsSet("seed") {
		load.Seed = cmd.Int("seed")
	}
	// The rest of it is sound already.
	for _, f := range load.Validate(d) {
		return usage("%s: --%s %s: %s", cmd.FullName(), f.Path, f.Value, f.Reason)
	}
	return nil
}

func writeChart(path string, r *sim.Result) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return r.SVG(f)
}

// printSim prints the result, and returns an error unless the scheduler has kept
// what is promised of it.
func printSim(cmd *cli.Command, r *sim.Result) error {
	err := r.Err()
	w := cmd.Root().Writer
	if !cmd.Bool("json") {
		_, _ = io.WriteString(w, strings.Join(r.Lines(), "\n")+"\n")
		return err
	}
	out := struct {
		*sim.Result
		Error string `json:"error,omitempty"`
	}{Result: r}
	if err != nil {
		out.Error, err = err.Error(), &printedError{err}
	}
	if printErr := writeJSON(w, out); printErr != nil {
		return printErr
	}
	return err
}
