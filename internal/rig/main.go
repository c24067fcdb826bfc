package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == guardArg {
		guardMain(os.Stdin)
		return
	}
	os.Exit(rigMain(os.Args[1:], os.Stdout, os.Stderr))
}

// rigMain is the program without its globals: it returns the exit code.
func rigMain(args []string, stdout, stderr io.Writer) int {
	cfg, err := parseArgs(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "rig:", err)
		return 2
	}
	code, err := run(cfg, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "rig:", err)
	}
	return code
}

// run starts a cluster, serves it and stops it.
func run(cfg config, stdout, stderr io.Writer) (code int, err error) {
	// One channel for the whole life of the program, so that no signal falls
	// between two phases. While the cluster stops nobody reads it any more: the
	// stop has bounds of its own, and giving up halfway would help nobody.
	sigs := make(chan os.Signal, 16)
	signal.Notify(sigs, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(sigs)

	g, err := startGuard()
	if err != nil {
		return 1, err
	}
	defer g.close()

	ctx, release := cancelOnSignal(context.Background(), sigs)
	defer release()
	c, err := startCluster(ctx, cfg, g)
	if err != nil {
		if sig, ok := errors.AsType[signalError](context.Cause(ctx)); ok {
			return sig.exitCode(), fmt.Errorf("start cluster: %w", sig)
		}
		return 1, fmt.Errorf("start cluster: %w", err)
	}
	defer func() {
		if stopErr := c.stop(); stopErr != nil {
			err = errors.Join(err, fmt.Errorf("stop cluster: %w", stopErr))
		}
	}()

	if len(cfg.command) == 0 {
		return serve(ctx, c, stdout, stderr)
	}
	release()
	if sig, ok := errors.AsType[signalError](context.Cause(ctx)); ok {
		return sig.exitCode(), sig
	}
	// These have a meaning only for a command.
	signal.Notify(sigs, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	return runCommand(cfg.command, c.endpoints().environ(os.Environ()), sigs, g)
}

// serve prints the cluster's addresses and returns at a signal, or with an
// error if the cluster has ended by itself.
func serve(ctx context.Context, c cluster, stdout, stderr io.Writer) (int, error) {
	e := c.endpoints()
	// Before the address: who has read that may rely on these being there.
	for _, v := range e.variables() {
		if v.name != addressEnv {
			fmt.Fprintf(stderr, "export %s=%s\n", v.name, shellQuote(v.value))
		}
	}
	if _, err := fmt.Fprintln(stdout, e.bootstrap); err != nil {
		return 1, fmt.Errorf("print address: %w", err)
	}
	if err := c.wait(ctx); err != nil {
		return 1, err
	}
	return 0, nil
}

// signalError is the cause of a context that a signal has cancelled.
type signalError struct{ sig syscall.Signal }

func (e signalError) Error() string { return fmt.Sprintf("received signal %q", e.sig.String()) }

// exitCode follows the convention of shells.
func (e signalError) exitCode() int { return 128 + int(e.sig) }

// cancelOnSignal returns a context that the next signal from sigs cancels.
// After release, which waits for the goroutine behind it and may be called more
// than once, the caller is the only reader of sigs again.
func cancelOnSignal(parent context.Context, sigs <-chan os.Signal) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-sigs:
			sig, _ := s.(syscall.Signal)
			cancel(signalError{sig})
		case <-quit:
		}
	}()
	released := false
	return ctx, func() {
		if !released {
			released = true
			close(quit)
			<-done
			cancel(nil) // no effect after a signal
		}
	}
}
