package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/spec"
)

const flagsWin = "\nFlags win over the environment, and that over the file."

// domainFlags are the flags of all commands that work on a domain.
func domainFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "spec", Usage: "YAML `FILE` that describes the domain", Sources: cli.EnvVars("AX_SPEC"), TakesFile: true},
		&cli.StringFlag{Name: "kafka", Usage: "brokers as `HOST:PORT,...` [$AX_KAFKA]"},
	}
}

// loadDomain returns the domain of --spec with --kafka over it.
func loadDomain(cmd *cli.Command) (ax.Domain, error) {
	path := cmd.String("spec")
	if path == "" {
		return ax.Domain{}, usage("%s: no domain: name its YAML file with --spec FILE or AX_SPEC; the least that one holds is a line such as \"domain: orders\"", cmd.FullName())
	}
	var overrides []func(*ax.Domain)
	if brokers := brokerList(cmd); len(brokers) > 0 {
		overrides = append(overrides, func(d *ax.Domain) { d.Kafka.Brokers = brokers })
	}
	d, err := spec.Load(path, overrides...)
	if err != nil {
		return ax.Domain{}, &usageError{err}
	}
	return d, nil
}

func brokerList(cmd *cli.Command) []string {
	var out []string
	for b := range strings.SplitSeq(cmd.String("kafka"), ",") {
		if b = strings.TrimSpace(b); b != "" {
			out = append(out, b)
		}
	}
	return out
}

// loadReachable is loadDomain for commands that talk to a broker.
func loadReachable(cmd *cli.Command) (ax.Domain, error) {
	d, err := loadDomain(cmd)
	if err == nil && len(d.Kafka.Brokers) == 0 {
		err = usage("%s: no broker for domain %s: name one with --kafka HOST:PORT, AX_KAFKA, or kafka.brokers in %s", cmd.FullName(), d.Name, cmd.String("spec"))
	}
	return d, err
}

// admin is a connection for questions about topics.
type admin struct {
	*kadm.Client
	kafka *kgo.Client
	watch *kafka.Watch
}

// connect returns a role's connection on which a broker has answered. log may
// be nil.
func connect(ctx context.Context, d ax.Domain, role string, log *slog.Logger) (*admin, error) {
	opts, watch, err := kafka.Options(d, role, log)
	if err != nil {
		return nil, &usageError{err}
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("ax: domain %s: kafka client: %w", d.Name, err)
	}
	if err := kafka.Ping(ctx, cl, watch, 10*time.Second); err != nil {
		cl.Close()
		return nil, fmt.Errorf("ax: domain %s: %w", d.Name, err)
	}
	return &admin{Client: kadm.NewClient(cl), kafka: cl, watch: watch}, nil
}

// explain makes err say what is wrong with the connection, if that is it.
func (a *admin) explain(err error) error { return a.watch.Explain(err) }

func logFlags(level string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "log-level", Value: level, Usage: "`LEVEL` from which on is logged to stderr: debug, info, warn, error or off"},
		&cli.StringFlag{Name: "log-format", Value: "text", Usage: "`FORMAT` of the log: text or json"},
	}
}

// logger returns the logger that the flags ask for.
func logger(cmd *cli.Command) (*slog.Logger, error) {
	if cmd.String("log-level") == "off" {
		return slog.New(slog.DiscardHandler), nil
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmd.String("log-level"))); err != nil {
		return nil, usage("%s: --log-level %q: want debug, info, warn, error or off", cmd.FullName(), cmd.String("log-level"))
	}
	opts := &slog.HandlerOptions{Level: level}
	switch w := cmd.Root().ErrWriter; cmd.String("log-format") {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, usage("%s: --log-format %q: want text or json", cmd.FullName(), cmd.String("log-format"))
}

// interrupted reports whether err is no more than the user's signal.
func interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}
