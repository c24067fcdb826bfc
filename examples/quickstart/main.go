// Command quickstart submits a task for now and one for five seconds later, and
// runs both.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/spec"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "hello.yaml", os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string, out io.Writer) error {
	domain, err := spec.Load(file) // and AX_KAFKA from the environment
	if err != nil {
		return err
	}

	// This half lives in the service that has work to give away.
	client, err := producer.New(domain)
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))
	for _, delay := range []time.Duration{0, 5 * time.Second} {
		task := ax.Task{Kind: "greet", Payload: []byte("world")}
		if _, err := client.Submit(ctx, task, producer.After(delay)); err != nil {
			return err
		}
	}

	// This half is the worker: a binary of its own, as many copies as you like.
	mux := consumer.NewMux()
	mux.HandleFunc("greet", func(_ context.Context, t *ax.Task) error {
		_, err := fmt.Fprintf(out, "hello, %s\n", t.Payload)
		return err // nil: done; an error: it comes back later
	})
	worker, err := consumer.New(domain, mux)
	if err != nil {
		return err
	}
	return worker.Run(ctx) // until Ctrl-C, then it drains
}
