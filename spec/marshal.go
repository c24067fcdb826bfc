package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/text"
)

// Marshal returns d as it takes effect, defaults filled in, as a YAML
// document. What is zero even then (no prefix, no limit, nothing set) is left
// out. Secrets print as stars.
//
// If d is valid, [Parse] gives it back from the document, apart from the
// secrets. Marshal itself does not validate; it returns an [*Error] only for
// a text that YAML can't hold.
func Marshal(d ax.Domain) ([]byte, error) {
	d = d.WithDefaults()
	root, err := encode("", reflect.ValueOf(d))
	if err != nil {
		return nil, err
	}
	out, err := yaml.Dump(root, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("spec: marshal domain %q: %w", d.Name, err)
	}
	return out, nil
}

// encode returns the node of v, nil for an empty mapping.
func encode(path string, v reflect.Value) (*yaml.Node, error) {
	switch x := v.Interface().(type) {
	case time.Duration:
		return plain(text.Duration(x)), nil
	case ax.Secret:
		return textNode(path, x.String())
	}
	switch v.Kind() {
	case reflect.Struct:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for i := range v.NumField() {
			if err := add(n, path, v.Type().Field(i).Tag.Get("yaml"), v.Field(i)); err != nil {
				return nil, err
			}
		}
		return n, nil
	case reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			if err := add(n, path, k.String(), v.MapIndex(k)); err != nil {
				return nil, err
			}
		}
		return n, nil
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if v.Type().Elem().Kind() != reflect.Struct {
			n.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			e, err := encode(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, e)
		}
		return n, nil
	case reflect.Int:
		return plain(strconv.FormatInt(v.Int(), 10)), nil
	case reflect.Float64:
		return plain(strconv.FormatFloat(v.Float(), 'g', -1, 64)), nil
	case reflect.Bool:
		return plain(strconv.FormatBool(v.Bool())), nil
	default:
		return textNode(path, v.String())
	}
}

// add puts a key and its value into n, unless the value is zero.
func add(n *yaml.Node, path, key string, v reflect.Value) error {
	if v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0 {
		return nil
	}
	path = under(path, key)
	k, err := textNode(path, key)
	if err != nil {
		return err
	}
	e, err := encode(path, v)
	if err != nil {
		return err
	}
	n.Content = append(n.Content, k, e)
	return nil
}

func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// textNode returns the node of a text, in quotes unless it is plainly a word:
// null, << and * must come back as texts.
func textNode(path, s string) (*yaml.Node, error) {
	if !utf8.ValidString(s) {
		return nil, &Error{Path: path, Value: strconv.Quote(s), Reason: "is not UTF-8"}
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.Trim(s, wordChars) != "" || s == "" || (&yaml.Node{Kind: yaml.ScalarNode, Value: s}).ShortTag() != "!!str" {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n, nil
}

const wordChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/"
