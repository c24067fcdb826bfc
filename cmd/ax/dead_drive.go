package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/dead"
)

// samples is how many deaths a dry run names.
const samples = 10

// actFlags are those of what changes the dead topic.
func actFlags() []cli.Flag {
	return append(append(domainFlags(), filterFlags()...),
		&cli.BoolFlag{Name: "all", Usage: "all deaths, instead of ids and filters"},
		&cli.BoolFlag{Name: "yes", Usage: "do it; without it, say what would be done"})
}

func deadRedriveCommand() *cli.Command {
	return &cli.Command{
		Name: "redrive", Usage: "submit the tasks of deaths again", ArgsUsage: "[ID...]",
		Description: "A task keeps its id, key, headers and trace, is due at once, and its attempts begin\n" +
			"anew. One death is driven after the other: its task is written, then its tombstone.\n" +
			"Stopped at any time, even killed, the same command goes on with what is left; one\n" +
			"task at most is there twice then. What is no task, has expired, or is refused by the\n" +
			"domain is counted and stays." + flagsWin + `

Example:
   ax dead redrive --spec orders.yaml --kind order.close --error "connection refused"
   ax dead redrive --spec orders.yaml --all --rate 20 --yes
   ax dead redrive 0190c0de-7a1b-7000-8000-000000000001 --payload fixed.json --yes`,
		Flags: append(actFlags(),
			&cli.FloatFlag{Name: "rate", Value: 100, Usage: "how many in a second at most, as a `NUMBER`; 0 for no bound"},
			&cli.BoolFlag{Name: "ignore-expiry", Usage: "drive those that have expired, too, without their expiry"},
			&cli.StringFlag{Name: "payload", Usage: "`FILE` that holds another payload, for one death; - for stdin", TakesFile: true},
		),
		Action: runDeadRedrive,
	}
}

func deadPurgeCommand() *cli.Command {
	return &cli.Command{
		Name: "purge", Usage: "forget deaths and their tasks", ArgsUsage: "[ID...]",
		Description: "It writes a tombstone for each death. The brokers free the disk when they compact\n" +
			"the topic, within about a day." + flagsWin + `

Example:
   ax dead purge --spec orders.yaml --reason malformed
   ax dead purge --spec orders.yaml --until 720h --yes`,
		Flags:  actFlags(),
		Action: runDeadPurge,
	}
}

// act is what redrive or purge does to deaths.
type act struct {
	verb, done string // as in "ax: purge" and "3 purged"
	payload    bool   // one death has to be chosen
	judge      func(*dead.Writer, *dead.Entry) string
	run        func(context.Context, *dead.Writer, *dead.Scan, *dead.Filter, func(dead.Result)) (dead.Result, error)
}

func runDeadRedrive(ctx context.Context, cmd *cli.Command) error {
	how := dead.Redrive{Rate: cmd.Float("rate"), IgnoreExpiry: cmd.Bool("ignore-expiry")}
	if !(how.Rate >= 0) { // also not a number
		return usage("%s: --rate %v: want 0 or more", cmd.FullName(), how.Rate)
	}
	a := act{verb: "redrive", done: "redriven", payload: cmd.IsSet("payload")}
	read := func(d ax.Domain) (err error) {
		if a.payload {
			how.Payload, err = replacement(cmd, d)
		}
		return err
	}
	a.judge = func(w *dead.Writer, e *dead.Entry) string {
		_, why := w.Task(e, how, clock.Now())
		return why
	}
	a.run = func(ctx context.Context, w *dead.Writer, s *dead.Scan, f *dead.Filter, told func(dead.Result)) (dead.Result, error) {
		return w.Redrive(ctx, s, f, how, told)
	}
	return a.do(ctx, cmd, read)
}

func runDeadPurge(ctx context.Context, cmd *cli.Command) error {
	a := act{verb: "purge", done: "purged"}
	a.run = func(ctx context.Context, w *dead.Writer, s *dead.Scan, f *dead.Filter, told func(dead.Result)) (dead.Result, error) {
		return w.Purge(ctx, s, f, told)
	}
	return a.do(ctx, cmd, func(ax.Domain) error { return nil })
}

// replacement returns the payload of --payload, which is never nil.
func replacement(cmd *cli.Command, d ax.Domain) ([]byte, error) {
	file, most := cmd.String("payload"), d.WithDefaults().MaxPayload
	body, err := readPayload(cmd, file, most)
	if err != nil {
		return nil, err
	}
	if len(body) > most {
		return nil, usage("%s: --payload %s: more than %d bytes, which is the domain's max_payload", cmd.FullName(), file, most)
	}
	return body, nil
}

// do chooses deaths and acts on them, or says what it would do. read reads what
// else there is to read, with the domain's bounds.
func (a act) do(ctx context.Context, cmd *cli.Command, read func(ax.Domain) error) error {
	f, err := filterOf(cmd, time.Now())
	if err != nil {
		return err
	}
	switch all := cmd.Bool("all"); {
	case slices.Contains(f.IDs, ""):
		return usage("%s: an ID is empty", cmd.FullName())
	case all && !f.Empty():
		return usage("%s: --all and a choice: want one of them", cmd.FullName())
	case !all && f.Empty():
		return usage("%s: nothing is chosen: want an ID, a filter such as --kind, or --all", cmd.FullName())
	}
	d, err := loadReachable(cmd)
	if err != nil {
		return err
	}
	if err := read(d); err != nil {
		return err
	}
	g, err := openDead(ctx, d)
	if err != nil {
		return err
	}
	defer g.close()
	w, err := dead.NewWriter(g.router)
	if err != nil {
		return err
	}
	defer w.Close()
	var judge func(*dead.Entry) string
	if a.judge != nil {
		judge = func(e *dead.Entry) string { return a.judge(w, e) }
	}
	plan, err := g.Plan(ctx, f, samples, judge)
	switch {
	case err != nil:
		return err
	case len(plan.Absent) > 0:
		return absent(g, plan.Absent)
	case a.payload && plan.Deaths != 1:
		return usage("%s: --payload is for one death, and %s are chosen; nothing was done", cmd.FullName(), deaths(plan.Deaths))
	}
	if !cmd.Bool("yes") {
		return a.printPlan(cmd, g, plan)
	}
	return a.act(ctx, cmd, g, w, f, plan)
}

// plannedDeaths is what a dry run prints as JSON.
type plannedDeaths struct {
	Domain string         `json:"domain"`
	Topic  string         `json:"topic"`
	DryRun bool           `json:"dry_run"` // always
	Deaths int            `json:"deaths"`  // that are chosen
	Left   map[string]int `json:"left,omitempty"`
	Groups []dead.Group   `json:"groups"`
	First  []dead.Sample  `json:"first"`
}

func (a act) printPlan(cmd *cli.Command, g *graveyard, p dead.Plan) error {
	out := plannedDeaths{Domain: g.domain(), Topic: g.router.Dead(), DryRun: true, Deaths: p.Deaths, Left: p.Left.Left, Groups: p.Groups, First: p.First}
	if out.Groups == nil {
		out.Groups = []dead.Group{}
	}
	if out.First == nil {
		out.First = []dead.Sample{}
	}
	if done, err := printJSON(cmd, out); done {
		return err
	}
	do := p.Deaths - p.Left.LeftAlone()
	printf(cmd, "%s of %s would be %s\n", deaths(do), g.router.Dead(), a.done)
	for why, n := range sorted(p.Left.Left) {
		printf(cmd, "%s would be left alone: %s\n", deaths(n), why)
	}
	if p.Deaths > 0 {
		printf(cmd, "\n%10s  %-11s  %s\n", "deaths", "reason", "kind")
	}
	for _, group := range p.Groups {
		printf(cmd, "%10s  %-11s  %s\n", thousands(group.Deaths), plain(string(group.Reason), 20), plain(group.Kind, 100))
	}
	if len(p.First) > 0 {
		printf(cmd, "\n%-20s  %-42s  %-36s  %s\n", "died", "death", "task", "kind")
	}
	for _, s := range p.First {
		printf(cmd, "%-20s  %-42s  %-36s  %s\n", died(s.At), plain(s.Death, 80), plain(s.ID, 80), plain(s.Kind, 40))
	}
	if more := do - len(p.First); more > 0 {
		printf(cmd, "and %s more\n", thousands(more))
	}
	if do > 0 {
		printf(cmd, "\nnothing was done: add --yes to %s them\n", a.verb)
	}
	return nil
}

// sorted goes through a map by its keys.
func sorted(m map[string]int) func(func(string, int) bool) {
	return func(yield func(string, int) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// actedDeaths is what redrive and purge print as JSON.
type actedDeaths struct {
	Domain    string         `json:"domain"`
	Topic     string         `json:"topic"`
	Deaths    int            `json:"deaths"` // that were chosen
	Redriven  *int           `json:"redriven,omitempty"`
	Purged    *int           `json:"purged,omitempty"`
	Left      map[string]int `json:"left,omitempty"` // alone, by why
	Remaining int            `json:"remaining"`      // not come to
	Seconds   float64        `json:"seconds"`
	Error     string         `json:"error,omitempty"`
}

func (a act) act(ctx context.Context, cmd *cli.Command, g *graveyard, w *dead.Writer, f *dead.Filter, p dead.Plan) error {
	began := time.Now()
	var told func(dead.Result)
	if show := newProgress(cmd, a.done, p.Deaths-p.Left.LeftAlone()); show != nil {
		told = func(r dead.Result) { show.tell(r.Done, time.Now()) }
		defer show.end()
	}
	r, err := a.run(ctx, w, g.Scan, f, told)
	remaining := max(0, p.Deaths-r.Done-r.LeftAlone())
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf("ax: %s domain %s: stopped: %s %s, %s left; the same command goes on with them: %w",
			a.verb, g.domain(), thousands(r.Done), a.done, thousands(remaining), context.Cause(ctx))
	}
	if cmd.Bool("json") {
		out := actedDeaths{
			Domain: g.domain(), Topic: g.router.Dead(), Deaths: p.Deaths, Left: r.Left, Remaining: remaining,
			Seconds: time.Since(began).Seconds(),
		}
		if a.judge == nil {
			out.Purged = &r.Done
		} else {
			out.Redriven = &r.Done
		}
		if err != nil {
			out.Error = err.Error()
		}
		if printErr := writeJSON(cmd.Root().Writer, out); printErr != nil {
			return printErr
		}
		if err != nil {
			return &printedError{err}
		}
		return nil
	}
	printf(cmd, "%s %s\n", deaths(r.Done), a.done)
	for why, n := range sorted(r.Left) {
		printf(cmd, "%s left alone: %s\n", deaths(n), why)
	}
	if remaining > 0 {
		printf(cmd, "%s to go: the same command goes on with them\n", deaths(remaining))
	}
	return err
}

// progress is a line that a terminal redraws.
type progress struct {
	w           io.Writer
	done        string
	total       int
	began, last time.Time
	shown       bool
}

// newProgress returns nil where nobody would see it.
func newProgress(cmd *cli.Command, done string, total int) *progress {
	w := cmd.Root().ErrWriter
	if cmd.Bool("json") || !isTerminal(w) {
		return nil
	}
	now := time.Now()
	return &progress{w: w, done: done, total: total, began: now, last: now}
}

// tell redraws the line each half second.
func (p *progress) tell(n int, now time.Time) {
	if now.Sub(p.last) < 500*time.Millisecond {
		return
	}
	p.last, p.shown = now, true
	_, _ = fmt.Fprintf(p.w, "\r%s/%s %s, %.0f/s ", thousands(n), thousands(p.total), p.done, float64(n)/now.Sub(p.began).Seconds())
}

// end ends the line.
func (p *progress) end() {
	if p.shown {
		_, _ = fmt.Fprintln(p.w)
	}
}
