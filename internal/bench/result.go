package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Field is one figure of a result.
type Field struct {
	Key   string
	Value any // bool, int, float64, string, Fields or []Fields
	merge merge
}

// merge says what becomes of a figure over the pairs.
type merge int

const (
	medianOf merge = iota // of numbers; of others the first
	sumOf
	maxOf
)

// Fields are figures in their order. They encode as a JSON object.
type Fields []Field

// MarshalJSON writes the fields as one object, in their order.
func (fs Fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fs {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(f.Key)
		if err != nil {
			return nil, fmt.Errorf("encode key %q: %w", f.Key, err)
		}
		value, err := json.Marshal(f.Value)
		if err != nil {
			return nil, fmt.Errorf("encode %q: %w", f.Key, err)
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Get returns the value of a key, or nil.
func (fs Fields) Get(key string) any {
	for _, f := range fs {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// number returns the value of a key as a number; zero if it is none.
func (fs Fields) number(key string) float64 {
	x, _ := numeric(fs.Get(key))
	return x
}

func (fs *Fields) add(key string, value any) { *fs = append(*fs, Field{Key: key, Value: value}) }

func (fs *Fields) sum(key string, n int) { *fs = append(*fs, Field{key, n, sumOf}) }

func (fs *Fields) max(key string, value any) { *fs = append(*fs, Field{key, value, maxOf}) }

func (fs *Fields) rate(key string, n int, took time.Duration) {
	fs.add(key, int(perSecond(n, took)))
}

// ratio adds the quotient of two figures. Ratios are taken within a pair, whose
// halves met the same noise, and not of two medians.
func (fs *Fields) ratio(key, ours, control string) {
	if c := fs.number(control); c > 0 {
		fs.add(key, round(fs.number(ours)/c))
	}
}

// over adds by how much a figure is above its control. As with a ratio, that is
// of a pair, whose halves met the same noise.
func (fs *Fields) over(key, ours, control string) {
	if fs.Get(ours) != nil && fs.Get(control) != nil {
		fs.add(key, round(fs.number(ours)-fs.number(control)))
	}
}

// quantiles adds the percentiles of durations in milliseconds.
func (fs *Fields) quantiles(prefix string, s *samples) {
	sorted := s.sorted()
	if len(sorted) == 0 {
		return
	}
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", .5}, {"p99", .99}, {"p999", .999}, {"max", 1}} {
		fs.add(prefix+"_"+q.name+"_ms", millis(quantile(sorted, q.at)))
	}
}

// counts adds what a tally found.
func (fs *Fields) counts(prefix string, t *tally) {
	lost, doubled := t.judge()
	fs.sum(prefix+"lost", lost)
	fs.sum(prefix+"doubled", doubled)
}

// merged returns one figure for each key of the pairs, in the order of the
// first pair.
func merged(pairs []Fields) Fields {
	var out Fields
	for _, f := range pairs[0] {
		var xs []float64
		whole := true
		for _, p := range pairs {
			x, ok := numeric(p.Get(f.Key))
			if !ok {
				continue
			}
			_, isInt := p.Get(f.Key).(int)
			whole = whole && isInt
			xs = append(xs, x)
		}
		if len(xs) == 0 {
			out = append(out, f)
			continue
		}
		var x float64
		switch f.merge {
		case sumOf:
			for _, one := range xs {
				x += one
			}
		case maxOf:
			for _, one := range xs {
				x = math.Max(x, one)
			}
		default:
			x = median(xs)
		}
		f.Value = round(x)
		if whole {
			f.Value = int(math.Round(x))
		}
		out = append(out, f)
	}
	return out
}

func numeric(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// round keeps three digits behind the point: microseconds of a millisecond.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }

func millis(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }

func megabytes(n int) float64 { return round(float64(n) / 1e6) }

// Result is what a run found: work, figures, the figures of each pair,
// settings, versions and machine.
type Result struct{ Fields }

func newResult(cfg *Config, w work, at place, before string, pairs []Fields) *Result {
	var settings Fields
	for _, s := range cfg.settings() {
		switch {
		case s.count != nil && *s.count > 0:
			settings.add(s.name, *s.count)
		case s.time != nil && *s.time > 0:
			settings.add(s.name, s.time.String())
		}
	}
	if w.leads() {
		settings.add("lead", at.lead.String())
	}
	if w.name == "delay" {
		settings.add("near", cfg.Near)
	}
	settings.add("durability", string(at.durability))
	settings.add("replication", at.replication)
	settings.add("embedded", at.embedded)
	fs := Fields{{Key: "work", Value: w.name}}
	fs = append(fs, merged(pairs)...)
	fs.add("runs", pairs)
	fs.add("settings", settings)
	fs.add("versions", versions(cfg.Version, at.kafka))
	fs.add("machine", machine(at.brokers, before))
	return &Result{fs}
}

// Err returns an error if a task was lost or started early.
func (r *Result) Err() error {
	var errs []error
	for _, key := range []string{"lost", "raw_lost", "calm_lost", "early"} {
		if n := r.number(key); n > 0 {
			errs = append(errs, fmt.Errorf("bench: %s: %s = %.0f", r.Get("work"), key, n))
		}
	}
	return errors.Join(errs...)
}

// Lines returns the result as a table: each figure, its control and their
// ratio where there are such, then where it was taken.
func (r *Result) Lines() []string {
	lines := []string{fmt.Sprintf("%-24s %14s %14s %8s", r.Get("work"), "ax", "control", "ratio")}
	var about []string
	for _, f := range r.Fields[1:] {
		switch v := f.Value.(type) {
		case []Fields:
			continue
		case Fields:
			about = append(about, f.Key+": "+v.line())
			continue
		}
		if isControl(f.Key) && r.Get(trimControl(f.Key)) != nil || strings.HasSuffix(f.Key, "_ratio") {
			continue
		}
		line := fmt.Sprintf("%-24s %14s", f.Key, show(f.Value))
		for _, prefix := range controls {
			if c := r.number(prefix + f.Key); r.Get(prefix+f.Key) != nil {
				ratio := ""
				if c > 0 {
					ratio = fmt.Sprintf("%.2f", r.number(f.Key)/c)
				}
				if own := r.Get(ratioKey(f.Key)); own != nil {
					ratio = fmt.Sprintf("%.2f", own)
				}
				line += fmt.Sprintf(" %14s %8s", show(r.Get(prefix+f.Key)), ratio)
			}
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return append(append(lines, ""), about...)
}

// controls are the prefixes of the figures that others are measured by.
var controls = []string{"raw_", "timer_", "calm_"}

func isControl(key string) bool { return trimControl(key) != key }

func trimControl(key string) string {
	for _, p := range controls {
		if rest, ok := strings.CutPrefix(key, p); ok {
			return rest
		}
	}
	return key
}

// ratioKey is the key of the ratio of a figure to its control.
func ratioKey(key string) string {
	for _, unit := range []string{"_per_s", "_ms", "_per_task"} {
		if stem, ok := strings.CutSuffix(key, unit); ok {
			key = stem
			break
		}
	}
	return key + "_ratio"
}

func (fs Fields) line() string {
	parts := make([]string, len(fs))
	for i, f := range fs {
		parts[i] = f.Key + " " + show(f.Value)
	}
	return strings.Join(parts, ", ")
}

func show(v any) string {
	if f, ok := v.(float64); ok {
		return fmt.Sprintf("%.3g", f)
	}
	return fmt.Sprint(v)
}
