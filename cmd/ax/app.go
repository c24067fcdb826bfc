package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"
)

const description = `Every command takes --json: the last line on stdout is then one JSON object,
also for an error: {"error": "..."}.

The domain is a YAML file, from --spec or AX_SPEC. Brokers are those of --kafka,
else of AX_KAFKA, else of the file. AX_TLS_* and AX_SASL_* go over the file too.

Exit codes:
   0  ok
   1  failed
   2  bad usage, or a bad configuration or task
   3  differences found by "ax topics check"

Example:
   ax demo --for 30s
   ax topics apply --spec orders.yaml --kafka localhost:9092`

// run runs the command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := newApp(stdin, stdout, stderr).Run(ctx, args)
	report(err, wantsJSON(args), stdout, stderr)
	return exitCode(err)
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.Command {
	root := &cli.Command{
		Name:        "ax",
		Usage:       "background tasks on Apache Kafka",
		Description: description,
		Reader:      stdin, Writer: stdout, ErrWriter: stderr,
		// Commands return their errors; run prints them and main exits.
		ExitErrHandler:        func(context.Context, *cli.Command, error) {},
		EnableShellCompletion: true,
		ConfigureShellCompletionCommand: func(c *cli.Command) {
			c.Hidden = false
			c.Usage = "print a completion script for bash, zsh, fish or pwsh"
		},
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object as the last line"},
			&cli.BoolFlag{Name: "version", Usage: "print the version", Local: true},
		},
		Commands: []*cli.Command{demoCommand(), topicsCommand(), submitCommand(), moverCommand(), tiersCommand(), trimCommand(), deadCommand(), configCommand(), versionCommand(), benchCommand(), simCommand()},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Bool("version") {
				return printVersion(ctx, cmd)
			}
			return groupAction(ctx, cmd)
		},
	}
	prepare(root)
	return root
}

// prepare sets what every command needs and none inherits.
func prepare(cmd *cli.Command) {
	cmd.OnUsageError = func(_ context.Context, cmd *cli.Command, err error, _ bool) error {
		return usage("%s: %v; see %q", cmd.FullName(), err, cmd.FullName()+" --help")
	}
	// A header's value, or a broker list, may hold commas.
	cmd.DisableSliceFlagSeparator = true
	for _, sub := range cmd.Commands {
		prepare(sub)
	}
}

// groupAction is the action of a command that only holds others.
func groupAction(_ context.Context, cmd *cli.Command) error {
	if !cmd.Args().Present() {
		return cli.ShowSubcommandHelp(cmd)
	}
	var names []string
	for _, c := range cmd.VisibleCommands() {
		names = append(names, c.Name)
	}
	return usage("%s: no command %q, want one of %s", cmd.FullName(), cmd.Args().First(), strings.Join(names, ", "))
}

// noMoreArgs refuses more than n arguments.
func noMoreArgs(cmd *cli.Command, n int) error {
	if cmd.Args().Len() <= n {
		return nil
	}
	return usage("%s: unexpected argument %q", cmd.FullName(), cmd.Args().Get(n))
}

// wantsJSON looks for the flag itself, since a command line that can't be
// parsed must be answered in JSON too.
func wantsJSON(args []string) bool {
	for _, a := range args {
		name, value, given := strings.Cut(a, "=")
		switch {
		case a == "--":
			return false
		case name != "--json" && name != "-json":
		case !given:
			return true
		default:
			yes, err := strconv.ParseBool(value)
			return yes && err == nil
		}
	}
	return false
}

func printf(cmd *cli.Command, format string, args ...any) {
	_, _ = fmt.Fprintf(cmd.Root().Writer, format, args...)
}
