package demo

import (
	"fmt"
	"strings"
	"time"
)

// View turns snapshots into text. It keeps the last ones, for rates.
type View struct {
	past []Snapshot // of about the last second
}

// rates returns what each lane did a second, lately.
func (v *View) rates(s Snapshot) []float64 {
	if v.past == nil {
		v.past = []Snapshot{{Lanes: make([]LaneSnapshot, len(s.Lanes))}}
	}
	v.past = append(v.past, s)
	for len(v.past) > 2 && s.Elapsed-v.past[1].Elapsed >= time.Second {
		v.past = v.past[1:]
	}
	first := v.past[0]
	out := make([]float64, len(s.Lanes))
	if since := (s.Elapsed - first.Elapsed).Seconds(); since > 0 {
		for i := range s.Lanes {
			out[i] = float64(s.Lanes[i].Done-first.Lanes[i].Done) / since
		}
	}
	return out
}

// Table returns the lines of a screen, none wider than 80 columns.
func (v *View) Table(s Snapshot) []string {
	lines := []string{
		fmt.Sprintf("ax demo   %s   %d tasks/s for 1 worker of %d slots, 1 mover", clockface(s.Elapsed), s.Rate, s.Slots),
		"on " + clip(s.Brokers, 70),
		fmt.Sprintf("Every %.0f s lane low is flooded for %.0f s; the lanes above it should not wait.", period.Seconds(), flood.Seconds()),
		"",
		"lane      weight    queued   running    done/s      done    wait p50    wait p99",
	}
	rates := v.rates(s)
	for i, l := range s.Lanes {
		lines = append(lines, fmt.Sprintf("%-9s %6d %9d %9d %9.0f %9d %11s %11s",
			clip(l.Name, 9), l.Weight, l.Queued, l.Running, rates[i], l.Done, short(l.WaitP50), short(l.WaitP99)))
	}
	return append(lines,
		"",
		fmt.Sprintf("delayed   %d wait; started late by p50 %s, p99 %s; early %d", s.Delayed, short(s.LateP50), short(s.LateP99), s.Early),
		fmt.Sprintf("failed    %d retries, %d snoozed, %d dead, %d repeats", s.Retries, s.Snoozed, s.Dead, s.Repeats),
		fmt.Sprintf("in all    %d submitted, %d done", s.Submitted, s.Done),
		"Ctrl-C stops all roles and draws the balance.",
	)
}

// Line returns a snapshot as one line.
func (v *View) Line(s Snapshot) string {
	var b strings.Builder
	done := 0.0
	for _, r := range v.rates(s) {
		done += r
	}
	queue := 0
	for _, l := range s.Lanes {
		queue += l.Queued
	}
	fmt.Fprintf(&b, "%s  submitted %d  done %d (%.0f/s)  dead %d  queued %d  delayed %d  late p99 %s  wait p99", clockface(s.Elapsed),
		s.Submitted, s.Done, done, s.Dead, queue, s.Delayed, short(s.LateP99))
	for _, l := range s.Lanes {
		fmt.Fprintf(&b, "  %s %s", l.Name, short(l.WaitP99))
	}
	return b.String()
}

// Lines returns the balance as text.
func (s Summary) Lines() []string {
	out := []string{"lane            done    wait p50    wait p99"}
	for _, name := range s.order {
		l := s.Lanes[name]
		out = append(out, fmt.Sprintf("%-10s %9d %11s %11s", clip(name, 10), l.Done, short(duration(l.WaitP50)), short(duration(l.WaitP99))))
	}
	mark, lost := "✓", ""
	if s.Err() != nil {
		mark = "✗"
	}
	if s.Lost > 0 {
		lost = fmt.Sprintf(" + lost %d", s.Lost)
	}
	out = append(out,
		fmt.Sprintf("%d retries, %d snoozed, %d repeats; %d starts early, late by p50 %s, p99 %s",
			s.Retries, s.Snoozed, s.Repeats, s.Early, short(duration(s.LateP50)), short(duration(s.LateP99))),
	)
	if s.Refused > 0 {
		out = append(out, fmt.Sprintf("%d submits got no receipt and don't count; the first: %s", s.Refused, s.Refusal))
	}
	return append(out, fmt.Sprintf("submitted %d = done %d + dead %d + waiting %d%s %s", s.Submitted, s.Done, s.Dead, s.Waiting, lost, mark))
}

func duration(millis float64) time.Duration { return time.Duration(millis * float64(time.Millisecond)) }

// short returns d with three digits or so.
func short(d time.Duration) string {
	switch ms := float64(d.Microseconds()) / 1000; {
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
}

func clockface(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n-1] + "…"
	}
	return s
}
