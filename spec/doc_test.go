package spec

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
)

// The example in the package's documentation is what people copy.
func TestExampleOfTheDocumentationIsValidAndComplete(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(src), "//\tdomain: orders ")
	require.True(t, ok)
	var example strings.Builder
	example.WriteString("domain: orders ")
	for line := range strings.Lines(rest) {
		if strings.TrimSpace(line) == "//" {
			break
		}
		example.WriteString(strings.TrimPrefix(line, "//\t"))
	}
	_, err = Parse("doc.go", []byte(example.String()))
	require.NoError(t, err)

	root, fault := document([]byte(example.String()))
	require.Nil(t, fault)
	dec := &decoder{lines: map[string]int{}, budget: maxNodes}
	var d ax.Domain
	dec.value("", root, reflect.ValueOf(&d).Elem())
	shown := map[string]bool{}
	for path := range dec.lines {
		shown[path[strings.LastIndex(path, ".")+1:]] = true
	}
	shown["password"] = true // excludes password_file; the text names it
	for _, key := range keys(reflect.TypeFor[ax.Domain]()) {
		require.True(t, shown[key], "the example lacks the key %s", key)
	}
	for _, b := range bindings() {
		require.Contains(t, string(src), b.name)
	}
}

// keys returns the yaml keys of t and all that is in it.
func keys(t reflect.Type) (out []string) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			out = append(out, t.Field(i).Tag.Get("yaml"))
			out = append(out, keys(t.Field(i).Type)...)
		}
	case reflect.Slice, reflect.Map:
		out = keys(t.Elem())
	}
	return out
}

// A field without a tag, or of a type that the decoder does not know, would
// be lost in silence.
func TestEveryFieldOfTheDomainCanBeRead(t *testing.T) {
	t.Parallel()
	var check func(at string, typ reflect.Type)
	check = func(at string, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				require.NotEmpty(t, f.Tag.Get("yaml"), "%s.%s", at, f.Name)
				check(at+"."+f.Name, f.Type)
			}
		case reflect.Slice, reflect.Map:
			check(at+"[]", typ.Elem())
		case reflect.String, reflect.Int, reflect.Int64, reflect.Float64, reflect.Bool:
			if typ.Kind() == reflect.Int64 {
				require.Equal(t, "time.Duration", typ.String(), at)
			}
		default:
			t.Errorf("%s: the decoder does not know %s", at, typ)
		}
	}
	check("Domain", reflect.TypeFor[ax.Domain]())
}

func TestNearestFindsSlipsOnly(t *testing.T) {
	t.Parallel()
	known := []string{"name", "weight", "max_wait", "reserve", "limit"}
	for key, want := range map[string]string{
		"weigth": "weight", "wieght": "weight", "Weight": "weight", "maxWait": "max_wait", "max-wait": "max_wait",
		"maxwaits": "max_wait", "nam": "name", "limits": "limit", "x": "", "colour": "", "": "", strings.Repeat("a", 1000): "",
	} {
		require.Equal(t, want, nearest(key, known), key)
	}
}

// What the limits are for: no file makes the decoder work without end.
func TestDecoderStopsAtItsLimits(t *testing.T) {
	t.Parallel()
	lists := "kinds:\n  k0: {backoff: {delays: &d [" + strings.Repeat("1s, ", 1000) + "1s]}}\n"
	for i := 1; i < 1000; i++ {
		lists += fmt.Sprintf("  k%d: {backoff: {delays: *d}}\n", i)
	}
	for name, file := range map[string]string{"values": lists, "faults": "lanes:\n" + strings.Repeat("- a\n", 50_000)} {
		root, fault := document([]byte(file))
		require.Nil(t, fault)
		dec := &decoder{lines: map[string]int{}, budget: maxNodes}
		var d ax.Domain
		dec.value("", root, reflect.ValueOf(&d).Elem())
		require.LessOrEqual(t, len(dec.faults), maxFaults+2, name)
		require.Greater(t, dec.budget, -5000, "%s: it went on", name)
	}
}
