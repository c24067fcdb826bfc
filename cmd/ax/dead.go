package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/dead"
	"github.com/axtasks/ax/internal/text"
	"github.com/axtasks/ax/router"
)

func deadCommand() *cli.Command {
	return &cli.Command{
		Name: "dead", Usage: "list and show dead tasks, drive them again, or purge them",
		Description: "Each record of the dead topic is one death, and a task may have several. An ID is\n" +
			"that of a death, or of a task for all its deaths. docs/dead.md explains more." + flagsWin + `

Example:
   ax dead list --spec orders.yaml --error "connection refused"
   ax dead redrive --spec orders.yaml --kind order.close --since 2h --yes`,
		Commands: []*cli.Command{deadListCommand(), deadShowCommand(), deadRedriveCommand(), deadPurgeCommand()},
		Action:   groupAction,
	}
}

// reasons are those that a filter may name.
func reasons() []string {
	return []string{
		string(ax.ReasonFailed), string(ax.ReasonPermanent), string(ax.ReasonTimeout), string(ax.ReasonPanic), string(ax.ReasonInterrupted),
		string(ax.ReasonCrashed), string(ax.ReasonDeaf), string(ax.ReasonMalformed), string(ax.ReasonTooLarge),
	}
}

// filterFlags are those that choose deaths.
func filterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kind", Usage: "only tasks of this `KIND`"},
		&cli.StringFlag{Name: "reason", Usage: "only deaths for this `REASON`: " + strings.Join(reasons(), ", ")},
		&cli.StringFlag{Name: "since", Usage: "only who died from this `INSTANT` on, RFC 3339, or this time ago, such as 2h"},
		&cli.StringFlag{Name: "until", Usage: "only who died before this `INSTANT`, RFC 3339, or this time ago"},
		&cli.StringFlag{Name: "error", Usage: "only where the last error holds this `TEXT`"},
		&cli.StringFlag{Name: "contains", Usage: "only where the payload holds this `TEXT`"},
	}
}

// filterOf returns what flags and arguments choose.
func filterOf(cmd *cli.Command, now time.Time) (*dead.Filter, error) {
	// An empty one is a variable that nobody has set: taken as no filter, it
	// would choose more than was meant.
	for _, name := range []string{"kind", "reason", "since", "until", "error", "contains"} {
		if cmd.IsSet(name) && cmd.String(name) == "" {
			return nil, usage("%s: --%s is empty", cmd.FullName(), name)
		}
	}
	if reason := cmd.String("reason"); reason != "" && !slices.Contains(reasons(), reason) {
		return nil, usage("%s: --reason %q: want one of %s", cmd.FullName(), reason, strings.Join(reasons(), ", "))
	}
	f := &dead.Filter{
		IDs: cmd.Args().Slice(), Kind: cmd.String("kind"), Reason: ax.Reason(cmd.String("reason")),
		Error: cmd.String("error"), Payload: cmd.String("contains"),
	}
	for name, at := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		value := cmd.String(name)
		if value == "" {
			continue
		}
		var err error
		if ago, bad := time.ParseDuration(value); bad == nil {
			*at = now.Add(-ago)
		} else if *at, err = time.Parse(time.RFC3339, value); err != nil {
			return nil, usage("%s: --%s %q: want RFC 3339, such as %s, or a time such as 2h", cmd.FullName(), name, value, now.UTC().Format(time.RFC3339))
		}
	}
	return f, nil
}

// graveyard is a domain's dead topic, as it was when it was opened.
type graveyard struct {
	*dead.Scan
	router *router.Router
	adm    *admin
}

func (g *graveyard) domain() string { return g.router.Domain().Name }

// openDead reads what is live in the dead topic.
func openDead(ctx context.Context, d ax.Domain) (*graveyard, error) {
	r, err := router.New(d)
	if err != nil {
		return nil, &usageError{err}
	}
	adm, err := connect(ctx, d, "dead", nil)
	if err != nil {
		return nil, err
	}
	s, err := dead.Open(ctx, adm.kafka, adm.watch, r.Dead())
	if err != nil {
		adm.Close()
		return nil, err
	}
	return &graveyard{Scan: s, router: r, adm: adm}, nil
}

func (g *graveyard) close() { g.adm.Close() }

func deadListCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list the deaths, one a line, by partition and offset",
		Description: "It prints what neither a redrive nor a purge has taken, without payloads. Without\n" +
			"flags it prints all. With --json each death is an object, and the last line their\n" +
			"number." + flagsWin + `

Example:
   ax dead list --spec orders.yaml
   ax dead list --spec orders.yaml --kind order.close --reason timeout --since 24h --json`,
		Flags:  append(domainFlags(), filterFlags()...),
		Action: runDeadList,
	}
}

// deathLine is what list prints of a death as JSON.
type deathLine struct {
	Death     string    `json:"death"`
	ID        string    `json:"id"`
	Kind      string    `json:"kind,omitempty"`
	Lane      string    `json:"lane,omitempty"`
	Key       string    `json:"key,omitempty"`
	At        time.Time `json:"at,omitzero"`
	Attempts  int       `json:"attempts"`
	Reason    ax.Reason `json:"reason"`
	Error     string    `json:"error,omitempty"`
	Source    string    `json:"source,omitempty"`
	Malformed string    `json:"malformed,omitempty"` // why it is no task
	Bytes     int       `json:"payload_bytes"`
	Partition int32     `json:"partition"` // of the dead topic
	Offset    int64     `json:"offset"`
}

func lineOf(e *dead.Entry) deathLine {
	l := deathLine{
		Death: e.Death, ID: e.ID, Kind: e.Kind, Lane: e.Lane, Key: e.Key, At: e.At, Attempts: e.Attempts, Reason: e.Reason,
		Error: e.Error, Source: e.Source, Bytes: len(e.Record.Value), Partition: e.Partition, Offset: e.Offset,
	}
	if e.Fault != nil {
		l.Malformed = faultText(e.Fault)
	}
	return l
}

// deadTotal is the last line of list and show as JSON.
type deadTotal struct {
	Domain string   `json:"domain"`
	Topic  string   `json:"topic"`
	Deaths int      `json:"deaths"`
	Absent []string `json:"absent,omitempty"` // ids that nothing has
	Error  string   `json:"error,omitempty"`
}

func runDeadList(ctx context.Context, cmd *cli.Command) error {
	if err := noMoreArgs(cmd, 0); err != nil {
		return err
	}
	f, err := filterOf(cmd, time.Now())
	if err != nil {
		return err
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
	const columns = "%-20s  %-42s  %-36s  %-20s  %-10s  %8s  %-11s  %s\n"
	asJSON, n := cmd.Bool("json"), 0
	out := bufio.NewWriter(cmd.Root().Writer)
	err = g.Each(ctx, func(e *dead.Entry) error {
		if !f.Match(e) {
			return nil
		}
		n++
		if asJSON {
			return writeJSON(out, lineOf(e))
		}
		if n == 1 {
			_, _ = fmt.Fprintf(out, columns, "died", "death", "task", "kind", "lane", "attempts", "reason", "error")
		}
		_, err := fmt.Fprintf(out, columns, died(e.At), plain(e.Death, 80), plain(e.ID, 80), plain(e.Kind, 40), plain(e.Lane, 20),
			fmt.Sprint(e.Attempts), plain(string(e.Reason), 20), plain(e.Error, 100))
		return err
	})
	if err == nil && asJSON {
		err = writeJSON(out, deadTotal{Domain: g.domain(), Topic: g.router.Dead(), Deaths: n})
	}
	if flushErr := out.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("print the list: %w", flushErr)
	}
	if err == nil && !asJSON {
		printf(cmd, "%s in %s\n", deaths(n), g.router.Dead())
	}
	return err
}

// deaths is a number of them, for people.
func deaths(n int) string {
	if n == 1 {
		return "1 death"
	}
	return thousands(n) + " deaths"
}

// thousands is a number with a comma between each three digits.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// died is when somebody died, to the second.
func died(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

// plain is a text of a record on one line, at most n bytes of it. What a
// terminal would obey is replaced.
func plain(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r):
			return '\uFFFD'
		}
		return r
	}, text.Clip(s, n))
	if s == "" {
		return "-"
	}
	return s
}

// faultText says why a record is no task, without its place in the dead topic,
// which is told beside it.
func faultText(err error) string {
	if e, ok := errors.AsType[*ax.RecordError](err); ok {
		return fmt.Sprintf("header %s %q: %s", e.Header, e.Value, e.Reason)
	}
	return err.Error()
}
