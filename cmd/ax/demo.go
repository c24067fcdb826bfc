package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/demo"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "watch lanes, delays and retries at work; needs nothing but ax",
		Description: `Runs a load, a worker and a mover on a Kafka inside this process, shows how the
lanes fare, and at the end accounts for every task that was submitted: done, dead
or still waiting in a topic. Exit code 1 if one is lost or started early.

With --kafka it runs on a real cluster, in topics of the domain "demo", which it
leaves there. AX_KAFKA is not used, so that nobody floods a cluster by accident.

Example:
   ax demo
   ax demo --for 15s --json`,
		Flags: append([]cli.Flag{
			&cli.DurationFlag{Name: "for", HideDefault: true, Usage: "`TIME` to submit tasks; default until Ctrl-C"},
			&cli.IntFlag{Name: "rate", Value: 1000, Usage: "mean `NUMBER` of tasks submitted a second"},
			&cli.IntFlag{Name: "slots", Value: 32, Usage: "`NUMBER` of tasks that the worker runs at once"},
			&cli.StringFlag{Name: "kafka", Usage: "brokers as `HOST:PORT,...` of a real cluster"},
		}, logFlags("off")...),
		Action: runDemo,
	}
}

func runDemo(ctx context.Context, cmd *cli.Command) error {
	if err := noMoreArgs(cmd, 0); err != nil {
		return err
	}
	log, err := logger(cmd)
	if err != nil {
		return err
	}
	cfg := demo.Config{
		Kafka: ax.Kafka{Brokers: brokerList(cmd)},
		For:   cmd.Duration("for"), Rate: cmd.Int("rate"), Slots: cmd.Int("slots"), Log: log,
	}
	switch {
	case cfg.For < 0:
		return usage("%s: --for %s: want more than 0", cmd.FullName(), cfg.For)
	case cfg.Rate < 1 || cfg.Rate > 1_000_000:
		return usage("%s: --rate %d: want 1 to 1000000", cmd.FullName(), cfg.Rate)
	case cfg.Slots < 1 || cfg.Slots > 10_000:
		return usage("%s: --slots %d: want 1 to 10000", cmd.FullName(), cfg.Slots)
	}
	show(cmd, &cfg)
	s, err := demo.Run(ctx, cfg)
	if err != nil {
		return err
	}
	return balance(cmd, s)
}

// show sets how the run is shown: a table in a terminal, lines elsewhere,
// nothing with --json.
func show(cmd *cli.Command, cfg *demo.Config) {
	if cmd.Bool("json") {
		return
	}
	w := cmd.Root().Writer
	view := &demo.View{}
	if !isTerminal(w) {
		cfg.Every = time.Second
		cfg.Show = func(s demo.Snapshot) { printf(cmd, "%s\n", view.Line(s)) }
		return
	}
	drawn := 0
	cfg.Every = 250 * time.Millisecond
	cfg.Show = func(s demo.Snapshot) {
		var b strings.Builder
		if drawn > 0 {
			fmt.Fprintf(&b, "\x1b[%dA", drawn)
		}
		lines := view.Table(s)
		for _, l := range lines {
			b.WriteString("\r" + l + "\x1b[K\n")
		}
		drawn = len(lines)
		_, _ = io.WriteString(w, b.String())
	}
}

// balance prints the summary, and returns an error unless it is good.
func balance(cmd *cli.Command, s demo.Summary) error {
	err := s.Err()
	if cmd.Bool("json") {
		out := struct {
			demo.Summary
			Version string `json:"version"`
			Error   string `json:"error,omitempty"`
		}{Summary: s, Version: version()}
		if err != nil {
			out.Error = err.Error()
			err = &printedError{err}
		}
		if printErr := writeJSON(cmd.Root().Writer, out); printErr != nil {
			return printErr
		}
		return err
	}
	printf(cmd, "\n%s\n", strings.Join(s.Lines(), "\n"))
	return err
}

// isTerminal reports whether w is a terminal that can redraw lines.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
