package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax/internal/trim"
	"github.com/axtasks/ax/router"
)

func trimCommand() *cli.Command {
	return &cli.Command{
		Name: "trim", Usage: "delete what all groups of the domain are done with, until SIGINT or SIGTERM",
		Description: "Of each lane and tier it deletes what is below the lowest commit of ax's own group\n" +
			"and, for lanes, of the groups that the domain's file lists under trim.groups. What\n" +
			"it can't be sure of, it keeps. It needs the permissions DELETE on the topics, and\n" +
			"DESCRIBE on topics and groups; no other role needs DELETE then." + flagsWin + `

Example:
   ax trim --spec orders.yaml --log-format json
   ax trim --spec orders.yaml --once`,
		Flags: append(append(domainFlags(),
			&cli.BoolFlag{Name: "once", Usage: "trim once, print what was deleted and what was not, and fail if something went wrong"},
		), logFlags("info")...),
		Action: runTrim,
	}
}

// trimResult is what the command prints as JSON.
type trimResult struct {
	Domain  string `json:"domain"`
	Deleted int64  `json:"deleted"` // of all topics
	trim.Report
	Error string `json:"error,omitempty"`
}

func runTrim(ctx context.Context, cmd *cli.Command) error {
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
	r, err := router.New(d)
	if err != nil {
		return &usageError{err}
	}
	adm, err := connect(ctx, d, "trim", log)
	if err != nil {
		return err
	}
	defer adm.Close()
	t := trim.New(r, adm.Client, adm.watch, log)
	if cmd.Bool("once") {
		report, err := t.Once(ctx)
		return printTrim(cmd, d.Name, report, err)
	}
	began := time.Now()
	log.Info("trim starts", "domain", d.Name, "brokers", d.Kafka.Brokers, "every", r.Domain().Trim.Every, "groups", d.Trim.Groups, "version", version())
	t.Run(ctx)
	log.Info("trim stopped", "domain", d.Name)
	_, err = printJSON(cmd, map[string]any{"domain": d.Name, "seconds": time.Since(began).Seconds()})
	return err
}

// printTrim prints what a round did, also where it failed.
func printTrim(cmd *cli.Command, domain string, report trim.Report, failed error) error {
	if failed != nil && report.Topics == nil {
		return failed // it did not get as far as that
	}
	if !cmd.Bool("json") {
		printf(cmd, "%s", report)
		if report.Deleted() == 0 {
			printf(cmd, "nothing deleted\n")
		}
		return failed
	}
	out := trimResult{Domain: domain, Deleted: report.Deleted(), Report: report}
	if failed != nil {
		out.Error = failed.Error()
	}
	if err := writeJSON(cmd.Root().Writer, out); err != nil {
		return err
	}
	if failed != nil {
		return &printedError{failed}
	}
	return nil
}
