package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax/consumer"
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
			&cli.StringFlag{Name: "health", Usage: "serve /livez and /readyz on this `ADDRESS`, such as :8081"},
			&cli.StringFlag{Name: "admin", Usage: "serve GET /status, POST /tiers/TIER/pause and /resume on this `ADDRESS`, such as localhost:8082; whoever reaches it may pause tiers"},
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
	health := http.NewServeMux()
	health.Handle("/livez", consumer.HealthHandler(m.Healthy))
	health.Handle("/readyz", consumer.HealthHandler(m.Ready))
	for name, handler := range map[string]http.Handler{"health": health, "admin": m.Handler()} {
		if address := cmd.String(name); address != "" {
			stop, err := serve(ctx, name, address, handler, log)
			if err != nil {
				return err
			}
			defer stop()
		}
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

// serve answers by HTTP until the function that it returns is called.
func serve(ctx context.Context, name, address string, handler http.Handler, log *slog.Logger) (stop func(), err error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("no longer served", "what", name, "error", err)
		}
	}()
	log.Info("served", "what", name, "address", l.Addr().String())
	return func() {
		_ = server.Close()
		<-done
	}, nil
}
