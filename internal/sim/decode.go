package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/text"
	"github.com/axtasks/ax/spec"
)

// maxBytes bounds a load's file.
const maxBytes = 1 << 20

// LoadFile is [ParseLoad] of a file.
func LoadFile(path string, d ax.Domain) (Load, error) {
	data, err := readFile(path)
	if err != nil {
		return Load{}, fmt.Errorf("sim: read the load: %w", err)
	}
	return ParseLoad(path, data, d)
}

func readFile(path string) (data []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, maxBytes+1))
}

// ParseLoad returns the load that the YAML document in data describes, for a
// domain that has its defaults. name stands for the document in errors. Reading
// is strict, as of a domain's file; when anything is wrong it returns all faults
// joined, each a [*spec.Error].
func ParseLoad(name string, data []byte, d ax.Domain) (Load, error) {
	l := DefaultLoad()
	dec := decoder{file: name, lines: map[string]int{}}
	if root := dec.document(data); root != nil {
		dec.load(root, &l)
	}
	if len(dec.faults) == 0 {
		// Only now: what could not be read would be found again as missing.
		for _, f := range l.Validate(d) {
			dec.fault(dec.line(f.Path), f.Path, f.Value, f.Reason)
		}
	}
	if len(dec.faults) == 0 {
		return l, nil
	}
	slices.SortStableFunc(dec.faults, func(a, b *spec.Error) int { return a.Line - b.Line })
	errs := make([]error, len(dec.faults))
	for i, f := range dec.faults {
		errs[i] = f
	}
	return Load{}, errors.Join(errs...)
}

// decoder reads the YAML nodes of a load. The YAML package can decode into
// structs too, but it tells no paths.
type decoder struct {
	file   string
	faults []*spec.Error
	lines  map[string]int // path -> line
}

func (d *decoder) fault(line int, path, value, reason string) {
	d.faults = append(d.faults, &spec.Error{File: d.file, Line: line, Path: path, Value: value, Reason: reason})
}

// line returns where the path is in the file, or the nearest that holds it.
func (d *decoder) line(path string) int {
	for at := path; at != ""; at = at[:max(0, strings.LastIndexAny(at, ".["))] {
		if n := d.lines[at]; n > 0 {
			return n
		}
	}
	return 0
}

// document returns the root of the one document in data, or nil.
func (d *decoder) document(data []byte) *yaml.Node {
	if len(data) > maxBytes {
		d.fault(0, "", "", "is larger than 1 MiB")
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	var doc, second yaml.Node
	if err == nil {
		err = loader.Load(&doc)
	}
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) != 1 {
		d.fault(0, "", "", "is empty; it needs at least the key loads")
		return nil
	}
	if err == nil {
		if err = loader.Load(&second); err == nil {
			d.fault(second.Line, "", "", "a second document begins here; a file describes one load")
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		return doc.Content[0]
	}
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		d.fault(e.Mark.Line, "", "", "is not YAML: "+e.Message)
	} else {
		d.fault(0, "", "", "is not YAML")
	}
	return nil
}

func (d *decoder) load(root *yaml.Node, l *Load) {
	d.mapping("", root, []field{
		{"slots", whole(&l.Slots)},
		{"for", span(&l.For)},
		{"warmup", span(&l.Warmup)},
		{"seed", whole(&l.Seed)},
		{"loads", func(path string, n *yaml.Node) string {
			if n.Kind != yaml.SequenceNode {
				return "want a list"
			}
			for i, item := range n.Content {
				l.Loads = append(l.Loads, Source{})
				at := fmt.Sprintf("%s[%d]", path, i)
				d.lines[at] = item.Line
				d.source(at, item, &l.Loads[i])
			}
			return ""
		}},
	})
	if len(d.faults) == 0 && len(l.Loads) == 0 {
		d.fault(root.Line, "loads", "", "is required: what arrives")
	}
}

func (d *decoder) source(path string, n *yaml.Node, s *Source) {
	d.mapping(path, n, []field{
		{"kind", word(&s.Kind)},
		{"lane", word(&s.Lane)},
		{"rate", decimal(&s.Rate)},
		{"even", yes(&s.Even)},
		{"run", spread(&s.Run)},
		{"delay", spread(&s.Delay)},
		{"fail", decimal(&s.Fail)},
		{"backlog", whole(&s.Backlog)},
		{"flood", yes(&s.Flood)},
		{"begin", instant(&s.Begin)},
		{"end", instant(&s.End)},
	})
	for _, key := range []string{"kind", "run"} {
		if at := path + "." + key; n.Kind == yaml.MappingNode && d.lines[at] == 0 {
			d.fault(n.Line, at, "", "is required")
		}
	}
}

// field is a key, and what takes its value. set returns what was wanted.
type field struct {
	key string
	set func(path string, n *yaml.Node) (reason string)
}

// mapping reads the keys of n. A key without a value counts as absent.
func (d *decoder) mapping(path string, n *yaml.Node, fields []field) {
	if !d.plain(path, n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n.Line, path, shown(n), "want keys and values")
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		at := k.Value
		if text.Fault(at, 80) != "" {
			at = quote(at)
		}
		if path != "" {
			at = path + "." + at
		}
		if line := first[k.Value]; line > 0 {
			d.fault(k.Line, at, "", fmt.Sprintf("is given twice, first in line %d", line))
			continue
		}
		first[k.Value] = k.Line
		j := slices.IndexFunc(fields, func(f field) bool { return f.key == k.Value })
		if j < 0 || k.Kind != yaml.ScalarNode {
			d.fault(k.Line, at, "", "unknown key, want one of "+names(fields))
			continue
		}
		if !d.plain(at, value) || value.Kind == yaml.ScalarNode && value.ShortTag() == "!!null" {
			continue
		}
		d.lines[at] = k.Line
		if reason := fields[j].set(at, value); reason != "" {
			d.fault(value.Line, at, shown(value), reason)
		}
	}
}

func names(fields []field) string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.key
	}
	return strings.Join(all, ", ")
}

// plain refuses what could unfold into more than is written.
func (d *decoder) plain(path string, n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		d.fault(n.Line, path, "", "aliases are not allowed; a text that begins with * needs quotes")
	case n.Style&yaml.TaggedStyle != 0:
		d.fault(n.Line, path, "", "tags are not allowed; a text that begins with ! needs quotes")
	default:
		return true
	}
	return false
}

func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	}
	return quote(n.Value)
}

// scalar takes a value that is no list and no mapping. bare: without quotes.
func scalar(want string, bare bool, set func(value string) bool) func(string, *yaml.Node) string {
	return func(_ string, n *yaml.Node) string {
		quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
		if n.Kind != yaml.ScalarNode || bare && quoted || !set(n.Value) {
			if bare && quoted {
				return want + " without quotes"
			}
			return want
		}
		return ""
	}
}

func word(to *string) func(string, *yaml.Node) string {
	return scalar("want a text", false, func(value string) bool { *to = value; return true })
}

func whole(to *int) func(string, *yaml.Node) string {
	return scalar("want a whole number", true, func(value string) bool {
		x, err := strconv.Atoi(value)
		*to = x
		return err == nil
	})
}

func decimal(to *float64) func(string, *yaml.Node) string {
	return scalar("want a number", true, func(value string) bool {
		x, err := strconv.ParseFloat(value, 64)
		*to = x
		return err == nil && !math.IsNaN(x) && !math.IsInf(x, 0)
	})
}

func yes(to *bool) func(string, *yaml.Node) string {
	return scalar("want true or false", true, func(value string) bool {
		*to = value == "true"
		return *to || value == "false"
	})
}

func span(to *time.Duration) func(string, *yaml.Node) string {
	return scalar("want a duration such as 300ms, 30s or 1h30m", false, func(value string) bool {
		x, err := time.ParseDuration(value)
		*to = x
		return err == nil
	})
}

func instant(to **time.Duration) func(string, *yaml.Node) string {
	*to = nil
	return func(path string, n *yaml.Node) string {
		var x time.Duration
		reason := span(&x)(path, n)
		*to = &x
		return reason
	}
}

func spread(to *Spread) func(string, *yaml.Node) string {
	return scalar(errSpread.Error(), false, func(value string) bool {
		x, err := ParseSpread(value)
		*to = x
		return err == nil
	})
}
