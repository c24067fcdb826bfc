package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"go.uber.org/goleak"

	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/spec"
)

// childVar says what this program is, where it isn't the tests.
const childVar = "BENCH_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVar) {
	case "":
		goleak.VerifyTestMain(m)
	case "mover":
		if err := moverMain(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "broken":
		fmt.Fprintln(os.Stderr, "no such thing")
		os.Exit(3)
	case "deaf":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		fmt.Fprintln(os.Stderr, `{"msg":"served","what":"health","address":"127.0.0.1:1"}`)
		<-ctx.Done()
	}
}

// child returns a command that runs this program as something else.
func child(as string) func(context.Context, ...string) *exec.Cmd {
	return func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0], args...)
		cmd.Env = append(os.Environ(), childVar+"="+as)
		return cmd
	}
}

// moverMain does as much of "ax mover" as the far work needs. The tests of the
// command itself run it as it is.
func moverMain() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	path, address := flag.String("spec", "", ""), flag.String("health", "", "")
	for _, name := range []string{"kafka", "log-level", "log-format"} {
		flag.String(name, "", "")
	}
	flag.Parse()
	d, err := spec.Load(*path)
	if err != nil {
		return err
	}
	m, err := delay.New(d)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: consumer.HealthHandler(m.Ready)}
	go func() { _ = server.Serve(l) }()
	slog.New(slog.NewJSONHandler(os.Stderr, nil)).Info("served", "what", "health", "address", l.Addr().String())
	return errors.Join(m.Run(ctx), server.Close())
}
