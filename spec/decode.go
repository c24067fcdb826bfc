package spec

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/text"
)

const (
	// maxNodes bounds the values of a file after aliases and merge keys are
	// followed, so that a few lines can't unfold into billions of values.
	maxNodes = 100_000
	maxMerge = 8
	maxValue = 80
)

// decoder sets the fields of a domain from a tree of YAML nodes. The YAML
// package can decode into structs too, but it tells no paths, and stops
// telling at the first type that has a decoder of its own.
type decoder struct {
	faults  []*Error
	tainted []string       // paths whose value could not be read
	lines   map[string]int // path -> line, of all that the file holds
	budget  int
}

func (d *decoder) fault(line int, path, value, reason string) {
	d.faults = append(d.faults, &Error{Line: line, Path: path, Value: value, Reason: reason})
	d.taint(path)
	if len(d.faults) > maxFaults {
		d.budget = 0 // nobody reads on
	}
}

func (d *decoder) taint(path string) { d.tainted = append(d.tainted, path) }

// spend counts one visit of a node and reports whether it may be made.
func (d *decoder) spend(n *yaml.Node, path string) bool {
	d.budget--
	if d.budget == 0 {
		d.fault(n.Line, path, "", fmt.Sprintf("the file unfolds into more than %d values", maxNodes))
	}
	return d.budget > 0
}

// value sets v to what n says. A null leaves v as it is.
func (d *decoder) value(path string, n *yaml.Node, v reflect.Value) {
	if !d.spend(n, path) {
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias // never an alias again
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.fault(n.Line, path, "", "tags are not allowed; a text that begins with ! needs quotes")
		return
	}
	if isNull(n) {
		return
	}
	wrong := func(reason string) { d.fault(n.Line, path, show(n, v.Type()), reason) }
	switch v.Kind() {
	case reflect.Struct:
		if n.Kind != yaml.MappingNode {
			wrong("want keys and values")
			return
		}
		d.structure(path, n, v)
	case reflect.Map:
		if n.Kind != yaml.MappingNode {
			wrong("want keys and values")
			return
		}
		d.dictionary(path, n, v)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			wrong("want a list")
			return
		}
		for i, item := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			d.lines[at] = item.Line
			e := reflect.New(v.Type().Elem()).Elem()
			d.value(at, item, e)
			v.Set(reflect.Append(v, e))
			if d.budget <= 0 {
				return
			}
		}
	default:
		if n.Kind != yaml.ScalarNode {
			wrong(scalarWant(v.Type()))
		} else if reason := scalar(n, v); reason != "" {
			wrong(reason)
		}
	}
}

func (d *decoder) structure(path string, n *yaml.Node, v reflect.Value) {
	fields := map[string]int{}
	var known []string
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag.Get("yaml")
		fields[tag] = i
		known = append(known, tag)
	}
	for _, p := range d.pairs(path, n) {
		at := under(path, p.key)
		i, ok := fields[p.key]
		if !ok {
			near := nearest(p.key, known)
			if near != "" {
				d.fault(p.line, at, "", fmt.Sprintf("unknown key, did you mean %s?", near))
				d.taint(under(path, near))
			} else {
				d.fault(p.line, at, "", "unknown key, want one of "+strings.Join(known, ", "))
				if path != "" {
					d.taint(path)
				}
			}
			continue
		}
		d.lines[at] = p.line
		d.value(at, p.value, v.Field(i))
	}
}

func (d *decoder) dictionary(path string, n *yaml.Node, v reflect.Value) {
	for _, p := range d.pairs(path, n) {
		at := under(path, p.key)
		d.lines[at] = p.line
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(at, p.value, e)
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(p.key), e)
	}
}

type pair struct {
	key   string
	line  int
	value *yaml.Node
}

// pairs returns the keys and values of a mapping, with what merge keys bring
// behind its own.
func (d *decoder) pairs(path string, n *yaml.Node) []pair {
	first := map[string]int{} // key -> line
	return d.merged(path, n, first, 0)
}

func (d *decoder) merged(path string, n *yaml.Node, seen map[string]int, depth int) []pair {
	if depth > maxMerge {
		d.fault(n.Line, path, "", fmt.Sprintf("merge keys go more than %d deep", maxMerge))
		return nil
	}
	var out []pair
	var merges []*yaml.Node
	own := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		if !d.spend(k, path) {
			return out
		}
		line := k.Line
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode || k.Style&yaml.TaggedStyle != 0 {
			d.fault(line, path, "", "want plain texts as keys")
			continue
		}
		if at, ok := own[k.Value]; ok {
			d.fault(line, under(path, k.Value), "", fmt.Sprintf("is given twice, first in line %d", at))
			continue
		}
		own[k.Value] = line
		if k.Tag == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if _, ok := seen[k.Value]; ok {
			continue // nearer to the reader, so it wins
		}
		seen[k.Value] = line
		out = append(out, pair{key: k.Value, line: line, value: value})
	}
	for _, m := range merges {
		line := m.Line
		if m.Kind == yaml.AliasNode {
			m = m.Alias
		}
		from := []*yaml.Node{m}
		if m.Kind == yaml.SequenceNode {
			from = m.Content
		}
		for _, f := range from {
			if f.Kind == yaml.AliasNode {
				f = f.Alias
			}
			if !d.spend(f, path) {
				return out
			}
			if f.Kind != yaml.MappingNode {
				d.fault(line, under(path, "<<"), "", "want an alias of keys and values")
				continue
			}
			out = append(out, d.merged(path, f, seen, depth+1)...)
		}
	}
	return out
}

// scalar sets v to what n says, or returns what was wanted.
func scalar(n *yaml.Node, v reflect.Value) (reason string) {
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
	if v.Type() == reflect.TypeFor[time.Duration]() {
		x, err := time.ParseDuration(n.Value)
		if err != nil {
			reason = scalarWant(v.Type())
			if strings.HasSuffix(n.Value, "d") {
				reason += "; a day is 24h"
			}
			return reason
		}
		v.SetInt(int64(x))
		return ""
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value) // as it was written, also where YAML sees a number
		return ""
	case reflect.Int:
		x, err := strconv.ParseInt(n.Value, 10, 0)
		if err == nil && !quoted {
			v.SetInt(x)
			return ""
		}
	case reflect.Float64:
		x, err := strconv.ParseFloat(n.Value, 64)
		if err == nil && !quoted && !math.IsNaN(x) && !math.IsInf(x, 0) {
			v.SetFloat(x)
			return ""
		}
	case reflect.Bool:
		if (n.Value == "true" || n.Value == "false") && !quoted {
			v.SetBool(n.Value == "true")
			return ""
		}
	}
	reason = scalarWant(v.Type())
	if quoted {
		reason += " without quotes"
	}
	return reason
}

func scalarWant(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "want a duration such as 300ms, 30s or 1h30m"
	}
	switch t.Kind() {
	case reflect.Int:
		return "want a whole number"
	case reflect.Float64:
		return "want a number"
	case reflect.Bool:
		return "want true or false"
	case reflect.Slice:
		return "want a list"
	default:
		return "want a text"
	}
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style&yaml.TaggedStyle == 0 && n.ShortTag() == "!!null"
}

// show returns n for an error about a value of type t: never what could be a
// secret.
func show(n *yaml.Node, t reflect.Type) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	}
	if holdsSecret(t) {
		return ""
	}
	return strconv.Quote(text.Clip(n.Value, maxValue))
}

func holdsSecret(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsSecret(t.Field(i).Type) {
				return true
			}
		}
	case reflect.Slice, reflect.Map:
		return holdsSecret(t.Elem())
	}
	return t == reflect.TypeFor[ax.Secret]()
}
