package spec

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/axtasks/ax"
)

// origin tells where a value of the domain came from.
type origin struct {
	file       string
	lines      map[string]int    // path -> line in the file
	vars       map[string]string // path -> environment variable
	overridden map[string]bool   // paths that an override changed
}

// place fills in File and Line, or Env, of a fault that Domain.Validate found.
// A setting that is not in the file has the place of its nearest parent, but
// only while nothing else was laid over that parent: the fault may come from
// there.
func (o *origin) place(e *Error) {
	path := strings.TrimSuffix(e.Path, " (their number)")
	switch {
	case o.touched(path):
		return
	case o.variable(path) != "":
		e.Env = o.variable(path)
		return
	}
	e.File = o.file
	for at := path; at != ""; at = parent(at) {
		if e.Line = o.lines[at]; e.Line > 0 {
			break
		}
	}
	up := parent(path)
	if o.lines[path] > 0 || up == "" {
		return
	}
	if o.touched(up) {
		e.File, e.Line = "", 0
		return
	}
	for at, name := range o.vars {
		if within(at, up) && (e.Env == "" || name < e.Env) {
			e.Env = name
		}
	}
	if e.Env != "" {
		e.File, e.Line = "", 0
	}
}

// variable returns the variable that set path, or the list that holds it.
func (o *origin) variable(path string) string {
	for at := path; at != ""; at = parent(at) {
		if name := o.vars[at]; name != "" {
			return name
		}
	}
	return ""
}

// touched reports whether an override changed path, anything below it, or the
// length of a list that holds it.
func (o *origin) touched(path string) bool {
	for at := range o.overridden {
		if within(at, path) || within(path, at) {
			return true
		}
	}
	return false
}

// leaves returns all values of d by path; of a list also its length, which
// stands for the list: after an insertion, its other elements are not the
// ones that the file holds under the same index.
func leaves(d *ax.Domain) map[string]any {
	out := map[string]any{}
	walk("", reflect.ValueOf(d).Elem(), func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct, reflect.Map:
		case reflect.Slice:
			out[path] = v.Len()
		default:
			out[path] = v.Interface()
		}
	})
	return out
}

// changes returns the paths at which the two differ.
func changes(before, after map[string]any) map[string]bool {
	out := map[string]bool{}
	for path, v := range after {
		if old, ok := before[path]; !ok || old != v {
			out[path] = true
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			out[path] = true
		}
	}
	return out
}

// walk calls visit for v and all values in it.
func walk(path string, v reflect.Value, visit func(path string, v reflect.Value)) {
	visit(path, v)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			walk(under(path, v.Type().Field(i).Tag.Get("yaml")), v.Field(i), visit)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			walk(under(path, k.String()), v.MapIndex(k), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i), visit)
		}
	}
}
