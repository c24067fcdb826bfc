// Command service is an upstream service: it takes orders over HTTP and submits
// the tasks that follow from them.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/axtasks/ax/examples/orders"
	"github.com/axtasks/ax/examples/orders/shop"
	"github.com/axtasks/ax/producer"
)

func main() {
	listen := flag.String("listen", "localhost:8080", "`address` to serve HTTP on")
	flag.Parse()
	if err := run(*listen); err != nil {
		slog.Error("service", "error", err)
		os.Exit(1)
	}
}

func run(listen string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	domain, err := orders.Domain()
	if err != nil {
		return err
	}
	client, err := producer.New(domain, producer.WithLogger(slog.Default()))
	if err != nil {
		return err
	}

	server := &http.Server{Addr: listen, Handler: shop.New(client), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	slog.Info("service runs", "listen", listen)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}

	// No more requests first, so that nothing is submitted to a closed client.
	ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(ending), client.Close(ending))
}
