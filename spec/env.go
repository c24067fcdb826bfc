package spec

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v11"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/text"
)

const envPrefix = "AX_"

// binding ties an environment variable to the setting that it overrides.
type binding struct {
	name string
	path string
	typ  reflect.Type
}

// bindings lists what the tags on ax.Kafka say.
func bindings() []binding {
	return bind(nil, envPrefix, "kafka", reflect.TypeFor[ax.Kafka]())
}

func bind(out []binding, prefix, path string, t reflect.Type) []binding {
	for i := range t.NumField() {
		f := t.Field(i)
		at := under(path, f.Tag.Get("yaml"))
		if f.Type.Kind() == reflect.Struct {
			out = bind(out, prefix+f.Tag.Get("envPrefix"), at, f.Type)
		} else if name := f.Tag.Get("env"); name != "" {
			out = append(out, binding{name: prefix + name, path: at, typ: f.Type})
		}
	}
	return out
}

// overlay sets in d what the environment gives, and returns which variable
// set which path, and the variables that could not be read.
func overlay(d *ax.Domain, environ map[string]string) (vars map[string]string, wrong []*Error) {
	vars = map[string]string{}
	for _, b := range bindings() {
		value := environ[b.name]
		if value == "" {
			continue
		}
		vars[b.path] = b.name
		// One variable at a time: the errors of the package name the Go
		// field, not the variable.
		err := env.ParseWithOptions(&d.Kafka, env.Options{
			Prefix:      envPrefix,
			Environment: map[string]string{b.name: value},
		})
		if err == nil {
			continue
		}
		e := &Error{Env: b.name, Path: b.path, Reason: scalarWant(b.typ)}
		if !holdsSecret(b.typ) {
			e.Value = strconv.Quote(text.Clip(value, maxValue))
		}
		wrong = append(wrong, e)
	}
	if vars["kafka.brokers"] != "" {
		for i, b := range d.Kafka.Brokers {
			d.Kafka.Brokers[i] = strings.TrimSpace(b)
		}
	}
	return vars, wrong
}
