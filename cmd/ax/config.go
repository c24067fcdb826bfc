package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"
	"go.yaml.in/yaml/v4"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/spec"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "check or print a domain's configuration",
		Description: "Neither command talks to a broker.\n\nExample:\n   ax config check --spec orders.yaml",
		Flags:       domainFlags(),
		Action:      groupAction,
		Commands: []*cli.Command{
			{
				Name: "check", Usage: "print all faults with their lines, and fail with exit code 2 if there are any",
				Description: "Environment and flags are checked as well." + flagsWin + "\n\nExample:\n   ax config check --spec orders.yaml --json",
				Action:      checkConfig,
			},
			{
				Name: "print", Usage: "print the domain as it takes effect, secrets as stars",
				Description: "Defaults are filled in." + flagsWin + "\n\nExample:\n   ax config print --spec orders.yaml",
				Action:      printConfig,
			},
		},
	}
}

func checkConfig(_ context.Context, cmd *cli.Command) error {
	d, err := configOf(cmd)
	if err != nil {
		return err
	}
	if done, err := printJSON(cmd, map[string]any{"ok": true, "domain": d.Name}); done {
		return err
	}
	printf(cmd, "%s: ok: domain %s, %d lanes, %d tiers, %d kinds\n", cmd.String("spec"), d.Name, len(d.Lanes), len(d.Delay.Tiers), len(d.Kinds))
	return nil
}

func configOf(cmd *cli.Command) (ax.Domain, error) {
	if err := noMoreArgs(cmd, 0); err != nil {
		return ax.Domain{}, err
	}
	return loadDomain(cmd)
}

func printConfig(_ context.Context, cmd *cli.Command) error {
	d, err := configOf(cmd)
	if err != nil {
		return err
	}
	text, err := spec.Marshal(d)
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.FullName(), err)
	}
	if !cmd.Bool("json") {
		printf(cmd, "%s", text)
		return nil
	}
	// The file's own words are the names that users know.
	var out map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		return fmt.Errorf("%s: read back what is printed: %w", cmd.FullName(), err)
	}
	return writeJSON(cmd.Root().Writer, out)
}
