package sim

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/axtasks/ax/internal/text"
)

// Lines returns the result as tables for people.
func (r *Result) Lines() []string {
	wide := len("lane")
	for _, l := range r.Lanes {
		wide = max(wide, len(l.Lane))
	}
	out := []string{fmt.Sprintf("domain %s: %d slots, %s measured after %s of warm-up, seed %d",
		r.Domain, r.Slots, seconds(r.ForS), seconds(r.WarmupS), r.Seed), ""}
	row := func(format string, lane string, args ...any) {
		out = append(out, strings.TrimRight(fmt.Sprintf("%-*s"+format, append([]any{wide, lane}, args...)...), " "))
	}
	const shares = " %6v %7s %7s %9s %8s %8s %8s %8s %9s %9s  %s"
	row(shares, "lane", "weight", "part", "share", "starts/s", "waiting", "wait p50", "p99", "max", "head max", "bound", "")
	for _, l := range r.Lanes {
		row(shares, l.Lane, l.Weight, points(l.Part), points(l.Share), digits(l.PerS), l.waiting(),
			short(l.WaitP50), short(l.WaitP99), short(l.WaitMax), short(&l.Head), short(&l.Bound), l.remark())
	}
	out = append(out, "")
	const fates = " %9v %9v %8v %8v %8v %8s %8s %9v %9v %9s %8s %8s"
	row(fates, "lane", "done", "retries", "dead", "expired", "delayed", "aged", "gap", "late p50", "p99", "max", "writes", "")
	for _, l := range r.Lanes {
		row(fates, l.Lane, l.Done, l.Retries, l.Dead, l.Expired, l.Delayed, fmt.Sprint(l.Aged), fmt.Sprint(l.Gap),
			short(l.LateP50), short(l.LateP99), short(l.LateMax), perTask(l.Writes), "")
	}
	total := fmt.Sprintf("slots in use %s, %s tasks/s, %s writes/s, %s writes per task", points(r.Utilisation), digits(r.TasksPerS), digits(r.WritesPerS), perTask(r.Writes))
	if r.ShareError != nil {
		total += fmt.Sprintf(", share error %.2f points", *r.ShareError)
	}
	return append(out, "", total)
}

func (l *Lane) waiting() string {
	if l.Flooded {
		return "flood"
	}
	return fmt.Sprint(l.Waiting)
}

func (l *Lane) remark() string {
	switch {
	case l.HeadAbove:
		return "above the bound"
	case l.Limited:
		return "limited"
	}
	return ""
}

func points(x float64) string { return fmt.Sprintf("%.1f%%", x) }

func perTask(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *x)
}

func seconds(s float64) string {
	return text.Duration(time.Duration(s * float64(time.Second)).Round(time.Millisecond))
}

// digits returns x with three digits, or more where it is 1,000 or above.
func digits(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// short returns milliseconds as a duration with three digits.
func short(ms *float64) string {
	if ms == nil {
		return "-"
	}
	d := time.Duration(*ms * float64(time.Millisecond))
	unit := time.Nanosecond
	if d > 0 {
		unit = time.Duration(math.Pow10(max(0, int(math.Log10(float64(d)))-2)))
	}
	return text.Duration(d.Round(unit))
}
