package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax/internal/dead"
)

func deadShowCommand() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show all that is known of a death, its payload too", ArgsUsage: "ID...",
		Description: "A task's ID shows all its deaths. The payload is printed as it is where it is text,\n" +
			"else in hexadecimal. With --json it is in base64, and beside it as text." + flagsWin + `

Example:
   ax dead show 0190c0de-7a1b-7000-8000-000000000001 --spec orders.yaml`,
		Flags:  domainFlags(),
		Action: runDeadShow,
	}
}

// deathFacts is what show prints of a death as JSON.
type deathFacts struct {
	deathLine
	KeyBytes    []byte       `json:"key_base64,omitempty"` // where it is no UTF-8
	Due         time.Time    `json:"due,omitzero"`
	Expires     time.Time    `json:"expires,omitzero"`
	Submitted   time.Time    `json:"submitted,omitzero"`
	Timeout     string       `json:"timeout,omitempty"`
	MaxAttempts int          `json:"max_attempts,omitempty"`
	Deferrals   int          `json:"deferrals,omitempty"`
	Headers     []headerFact `json:"headers"` // all of the record
	Payload     []byte       `json:"payload"`
	Text        *string      `json:"payload_text,omitempty"`
}

// headerFact is one header of a record.
type headerFact struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
	Text  string `json:"text,omitempty"` // if it is UTF-8
}

func factsOf(e *dead.Entry) deathFacts {
	f := deathFacts{deathLine: lineOf(e), Payload: e.Record.Value, Headers: []headerFact{}}
	if !utf8.ValidString(e.Key) {
		f.KeyBytes = []byte(e.Key)
	}
	if t := e.Task; t != nil {
		f.Due, f.Expires, f.Submitted, f.MaxAttempts, f.Deferrals = t.Due, t.Expires, t.Submitted, t.MaxAttempts, t.Deferrals
		if t.Timeout > 0 {
			f.Timeout = t.Timeout.String()
		}
	}
	for _, h := range e.Record.Headers {
		fact := headerFact{Name: h.Key, Value: h.Value}
		if utf8.Valid(h.Value) {
			fact.Text = string(h.Value)
		}
		f.Headers = append(f.Headers, fact)
	}
	if utf8.Valid(e.Record.Value) {
		s := string(e.Record.Value)
		f.Text = &s
	}
	return f
}

func runDeadShow(ctx context.Context, cmd *cli.Command) error {
	f := &dead.Filter{IDs: cmd.Args().Slice()}
	if len(f.IDs) == 0 || slices.Contains(f.IDs, "") {
		return usage("%s: want the ID of a death or a task; %q lists them", cmd.FullName(), "ax dead list")
	}
	d, err := loadReachable(cmd)
	if err != nil {
		return err
	}
	g, err := openDead(ctx, d)
	if err != nil {
		return err
	}
	defer g.close()
	total := deadTotal{Domain: g.domain(), Topic: g.router.Dead()}
	asJSON, missing := cmd.Bool("json"), f.Missing()
	out := bufio.NewWriter(cmd.Root().Writer)
	err = g.Each(ctx, func(e *dead.Entry) error {
		if !f.Match(e) {
			return nil
		}
		missing.Found(e)
		total.Deaths++
		if asJSON {
			return writeJSON(out, factsOf(e))
		}
		return printDeath(out, e)
	})
	total.Absent = missing.IDs()
	if err == nil {
		err = absent(g, total.Absent)
	}
	if asJSON {
		if err != nil {
			total.Error = err.Error()
			err = &printedError{err}
		}
		if printErr := writeJSON(out, total); printErr != nil {
			return printErr
		}
	}
	if flushErr := out.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("print the deaths: %w", flushErr)
	}
	return err
}

// absent is the error of ids that nothing has.
func absent(g *graveyard, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	quoted := make([]string, len(ids))
	for i, id := range ids {
		quoted[i] = fmt.Sprintf("%q", id)
	}
	return fmt.Errorf("ax: domain %s: no death in %s has the id %s, of its own or of its task", g.domain(), g.router.Dead(), strings.Join(quoted, ", "))
}

// printDeath prints a death for people.
func printDeath(w io.Writer, e *dead.Entry) error {
	line := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(w, "%-13s %s\n", name, plain(value, 2048))
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			line(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	number := func(name string, n int) {
		if n > 0 {
			line(name, fmt.Sprint(n))
		}
	}
	line("death", e.Death)
	line("task", e.ID)
	line("kind", e.Kind)
	line("lane", e.Lane)
	if e.Key != "" {
		line("key", fmt.Sprintf("%q", e.Key)) // it may hold any bytes
	}
	at("died", e.At)
	line("reason", string(e.Reason))
	line("error", e.Error)
	line("attempts", fmt.Sprint(e.Attempts))
	line("source", e.Source)
	line("record", fmt.Sprintf("%s/%d@%d", e.Topic, e.Partition, e.Offset))
	if t := e.Task; t != nil {
		at("submitted", t.Submitted)
		at("due", t.Due)
		at("expires", t.Expires)
		number("max attempts", t.MaxAttempts)
		number("deferrals", t.Deferrals)
		if t.Timeout > 0 {
			line("timeout", t.Timeout.String())
		}
	} else {
		line("no task", faultText(e.Fault))
	}
	for _, h := range e.Record.Headers {
		line("header", h.Key+"="+string(h.Value))
	}
	return printPayload(w, e.Record.Value)
}

// printPayload prints the bytes as they are if a terminal shows them so, else
// in hexadecimal.
func printPayload(w io.Writer, p []byte) (err error) {
	_, _ = fmt.Fprintf(w, "%-13s %s bytes\n", "payload", thousands(len(p)))
	if isText(p) {
		_, err = fmt.Fprintf(w, "%s\n\n", p)
		return err
	}
	d := hex.Dumper(w)
	_, _ = d.Write(p)
	_ = d.Close()
	_, err = fmt.Fprintln(w)
	return err
}

// isText reports whether p is UTF-8 without what a terminal would obey.
func isText(p []byte) bool {
	if !utf8.Valid(p) {
		return false
	}
	for _, r := range string(p) {
		if !unicode.IsGraphic(r) && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
	}
	return true
}
