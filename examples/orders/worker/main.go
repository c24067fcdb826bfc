// Command worker is the worker binary of the order domain.
package main

import (
	"context"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/examples/orders"
	"github.com/axtasks/ax/examples/orders/tasks"
	"github.com/axtasks/ax/idempotency"
)

func main() {
	shop := flag.String("shop", "http://localhost:8080", "base `URL` of the order service")
	flag.Parse()
	if err := run(*shop); err != nil {
		slog.Error("worker", "error", err)
		os.Exit(1)
	}
}

func run(shop string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	domain, err := orders.Domain()
	if err != nil {
		return err
	}
	handlers := &tasks.Handlers{
		Shop: shop,
		HTTP: http.DefaultClient, // each request has its task's timeout
		Log:  slog.Default(),
		SendMail: func(_ context.Context, to, text string) error {
			slog.Info("mail", "to", to, "text", text)
			return nil
		},
		Recalculate: func(ctx context.Context, day string) error {
			select {
			case <-time.After(2 * time.Second): // it takes its time
				slog.Info("report", "day", day)
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
	}
	worker, err := consumer.New(domain, handlers.Mux(),
		consumer.WithSlots(16),
		consumer.WithStore(idempotency.NewMemory()), // a repeat within this process runs nothing
		consumer.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	// Run drains when ctx ends: running tasks may finish, nothing new starts.
	return worker.Run(ctx)
}
