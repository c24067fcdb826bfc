package checker

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Name names a promise.
type Name string

// The promises that are judged, with the design's number where it has one.
const (
	Lost     Name = "lost"     // G1
	Early    Name = "early"    // G2
	Attempts Name = "attempts" // G3
	Doubled  Name = "doubled"  // at-least-once, and not more
	Commits  Name = "commits"  // G4
	Idle     Name = "idle"     // G5
	Share    Name = "share"    // G6
	Lease    Name = "lease"    // G7
	Order    Name = "order"    // order by key
)

var texts = map[Name]string{
	Lost:     "each acknowledged task reaches an end",
	Early:    "no start before the due time",
	Attempts: "no attempt above the limit, none spent without a failure, no death without a cause",
	Doubled:  "each repeat has a fault that explains it",
	Commits:  "no commit goes back or passes an unfinished task",
	Idle:     "no due task waits for nothing",
	Share:    "each lane has its weight's share of slot time",
	Lease:    "tokens rise, and one run alone settles",
	Order:    "one at a time and in order, for each key",
}

var names = []Name{Lost, Early, Attempts, Doubled, Commits, Idle, Share, Lease, Order}

// maxExamples is how many violations of a promise are told in full.
const maxExamples = 10

// Promise is what was found about one promise.
type Promise struct {
	Name       Name
	Checked    int64 // what was looked at; zero: nothing was there to judge
	Violations int64
	Examples   []string // of violations
	Note       string   // what else was counted
}

// Judged reports whether there was anything to judge.
func (p *Promise) Judged() bool { return p.Checked > 0 }

// OK reports whether the promise was judged and held.
func (p *Promise) OK() bool { return p.Judged() && p.Violations == 0 }

func (p *Promise) violated(format string, args ...any) {
	if p.Violations++; len(p.Examples) < maxExamples {
		p.Examples = append(p.Examples, fmt.Sprintf(format, args...))
	}
}

// Report is a judgement.
type Report struct {
	Facts, Tasks int64
	promises     map[Name]*Promise
}

func newReport() *Report {
	r := &Report{promises: map[Name]*Promise{}}
	for _, n := range names {
		r.promises[n] = &Promise{Name: n}
	}
	return r
}

// Promise returns what was found about one promise.
func (r *Report) Promise(n Name) *Promise { return r.promises[n] }

// Failed returns the promises that did not hold.
func (r *Report) Failed() []Name {
	var failed []Name
	for _, n := range names {
		if r.promises[n].Violations > 0 {
			failed = append(failed, n)
		}
	}
	return failed
}

// Print writes the report; its last line counts the promises that were judged.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	passed, failed := 0, 0
	fmt.Fprintf(&b, "%d facts about %d tasks\n", r.Facts, r.Tasks)
	for _, n := range names {
		p := r.promises[n]
		verdict := "ok"
		switch {
		case p.Violations > 0:
			verdict = "FAILED"
			failed++
		case !p.Judged():
			verdict = "-"
		default:
			passed++
		}
		fmt.Fprintf(&b, "%-7s %-9s %s: %d checked, %d violations", verdict, n, texts[n], p.Checked, p.Violations)
		if p.Note != "" {
			fmt.Fprintf(&b, "; %s", p.Note)
		}
		b.WriteByte('\n')
		for _, e := range p.Examples {
			fmt.Fprintf(&b, "          %s\n", e)
		}
	}
	fmt.Fprintf(&b, "%d passed, %d failed\n", passed, failed)
	_, err := io.WriteString(w, b.String())
	return err
}

// clockTime is an instant as text that can be found in a log.
func clockTime(ns int64) string { return time.Unix(0, ns).UTC().Format("15:04:05.000") }

func span(ns int64) time.Duration { return time.Duration(ns).Round(100 * time.Microsecond) }
