package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax/delay"
)

func moverCommand() *cli.Command {
	return &cli.Command{
		Name: "mover", Usage: "move delayed tasks on until SIGINT or SIGTERM",
		Description: "Any number of movers may run for a domain. A stop waits until what was moved is\n" +
			"acknowledged and committed; a second signal does not wait." + flagsWin + `

Example:
   ax mover --trim --spec orders.yaml --log-format json`,
		Flags: append(append(domainFlags(),
			&cli.BoolFlag{Name: "trim", Usage: "also delete what all groups of the domain are done with"},
		), logFlags("info")...),
		Action: runMover,
	}
}

func runMover(ctx context.Context, cmd *cli.Command) error {
	if err := noMoreArgs(cmd, 0); err != nil {
		return err
	}
	log, err := logger(cmd)
	if err != nil {
		return err
	}
	d, err := loadReachable(cmd)
	if err != nil {
		return err
	}
	opts := []delay.Option{delay.WithLogger(log)}
	if cmd.Bool("trim") {
		opts = append(opts, delay.WithTrim())
	}
	m, err := delay.New(d, opts...)
	if err != nil {
		return err
	}
	began := time.Now()
	log.Info("mover starts", "domain", d.Name, "brokers", d.Kafka.Brokers, "trim", cmd.Bool("trim"), "version", version())
	if err := m.Run(ctx); err != nil && !interrupted(ctx, err) {
		return err
	}
	log.Info("mover stopped", "domain", d.Name)
	_, err = printJSON(cmd, map[string]any{"domain": d.Name, "seconds": time.Since(began).Seconds()})
	return err
}
