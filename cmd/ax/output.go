package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/router"
	"github.com/axtasks/ax/spec"
)

// The exit codes.
const (
	codeFailed = 1
	codeUsage  = 2
	codeDrift  = 3
)

// usageError is a mistake of the user: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// driftError is what "topics check" found: exit code 3.
type driftError struct{ *router.DriftError }

func (e *driftError) Unwrap() error { return e.DriftError }

// printedError was told on stdout already.
type printedError struct{ err error }

func (e *printedError) Error() string { return e.err.Error() }
func (e *printedError) Unwrap() error { return e.err }

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if _, ok := errors.AsType[*driftError](err); ok {
		return codeDrift
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return codeUsage
	}
	if _, ok := errors.AsType[cli.ExitCoder](err); ok {
		return codeUsage // of the package's own commands, such as help
	}
	// A domain that asks for what the cluster has not, or a task that the
	// domain does not take.
	if errors.Is(err, ax.ErrInvalid) {
		return codeUsage
	}
	return codeFailed
}

// report prints err: on stdout as JSON if that is wanted, else on stderr.
func report(err error, asJSON bool, stdout, stderr io.Writer) {
	if err == nil {
		return
	}
	if _, told := errors.AsType[*printedError](err); told {
		return
	}
	if !asJSON {
		_, _ = fmt.Fprintln(stderr, err)
		return
	}
	out := struct {
		Error   string          `json:"error"`
		Faults  []fault         `json:"faults,omitempty"`  // of a configuration
		Changes []router.Change `json:"changes,omitempty"` // that are left
	}{Error: err.Error(), Faults: faults(err)}
	if drift, ok := errors.AsType[*router.DriftError](err); ok {
		out.Changes = drift.Changes
	}
	_ = writeJSON(stdout, out)
}

// fault is one mistake in a configuration.
type fault struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Env    string `json:"env,omitempty"`
	Path   string `json:"path,omitempty"`
	Value  string `json:"value,omitempty"`
	Reason string `json:"reason"`
}

// faults returns all mistakes that err joins.
func faults(err error) []fault {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself, to find all and not the first
	case *spec.Error:
		return []fault{{File: e.File, Line: e.Line, Env: e.Env, Path: e.Path, Value: e.Value, Reason: e.Reason}}
	case *ax.FieldError:
		return []fault{{Path: e.Path, Value: e.Value, Reason: e.Reason}}
	case interface{ Unwrap() []error }:
		var all []fault
		for _, one := range e.Unwrap() {
			all = append(all, faults(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		return faults(e.Unwrap())
	}
	return nil
}

// writeJSON writes v as one line.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// printJSON prints v if --json is given, and reports whether it is.
func printJSON(cmd *cli.Command, v any) (bool, error) {
	if !cmd.Bool("json") {
		return false, nil
	}
	return true, writeJSON(cmd.Root().Writer, v)
}
