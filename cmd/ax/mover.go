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
	if address := cmd.String("health"); address != "" {
		stop, err := serveHealth(ctx, address, m, log)
		if err != nil {
			return err
		}
		defer stop()
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

// serveHealth answers for the mover until the function that it returns is
// called.
func serveHealth(ctx context.Context, address string, m *delay.Mover, log *slog.Logger) (stop func(), err error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("health: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/livez", consumer.HealthHandler(m.Healthy))
	mux.Handle("/readyz", consumer.HealthHandler(m.Ready))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("health is no longer served", "error", err)
		}
	}()
	log.Info("health is served", "address", l.Addr().String())
	return func() {
		_ = server.Close()
		<-done
	}, nil
}
