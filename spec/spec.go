package spec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"

	"github.com/caarlos0/env/v11"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/text"
)

// maxBytes bounds a domain's file.
const maxBytes = 1 << 20

// Parse returns the domain that the YAML document in data describes, with
// defaults filled in. It does not read the environment. name stands for the
// document in errors.
//
// When anything is wrong it returns the zero Domain and all faults joined,
// each an [*Error].
func Parse(name string, data []byte) (ax.Domain, error) {
	return load(name, data, nil, nil)
}

// Load returns the domain that the YAML file at path describes, with the
// environment and then the overrides laid over it, and defaults filled in.
//
// The variables are AX_KAFKA (brokers, separated by commas), AX_TLS_ENABLED,
// AX_TLS_CA_FILE, AX_SASL_USER, AX_SASL_PASSWORD and so on, as tagged on
// [ax.Kafka]. One that is empty counts as not set; others that begin with AX_
// are not looked at. Overrides run in order, before the defaults: what
// neither file nor environment set is zero in the domain that they get.
//
// When anything is wrong it returns the zero Domain and either the error of
// reading the file or all faults joined, each an [*Error]. A fault of a value
// that came from the environment names the variable, one of an override has
// neither file nor line.
func Load(path string, overrides ...func(*ax.Domain)) (ax.Domain, error) {
	f, err := os.Open(path)
	return loadFrom(path, f, err, overrides)
}

// LoadFS is [Load] for a file of another file system, such as one that is
// embedded in the binary.
func LoadFS(fsys fs.FS, path string, overrides ...func(*ax.Domain)) (ax.Domain, error) {
	f, err := fsys.Open(path)
	return loadFrom(path, f, err, overrides)
}

func loadFrom(path string, f fs.File, err error, overrides []func(*ax.Domain)) (ax.Domain, error) {
	var data []byte
	if err == nil {
		// One byte more than a document may have, so that load can tell.
		data, err = io.ReadAll(io.LimitReader(f, maxBytes+1))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return ax.Domain{}, fmt.Errorf("spec: read the domain's file: %w", err)
	}
	return load(path, data, env.ToMap(os.Environ()), overrides)
}

func load(name string, data []byte, environ map[string]string, overrides []func(*ax.Domain)) (ax.Domain, error) {
	root, fault := document(data)
	if fault != nil {
		fault.File = name
		return ax.Domain{}, join(name, []*Error{fault})
	}
	var d ax.Domain
	dec := &decoder{lines: map[string]int{}, budget: maxNodes}
	dec.value("", root, reflect.ValueOf(&d).Elem())
	for _, f := range dec.faults {
		f.File = name
	}
	faults := dec.faults

	vars, wrong := overlay(&d, environ)
	faults = append(faults, wrong...)

	before := leaves(&d)
	for _, override := range overrides {
		override(&d)
	}
	origin := origin{file: name, lines: dec.lines, vars: vars, overridden: changes(before, leaves(&d))}

	d = d.WithDefaults()
	for _, f := range fieldErrors(d.Validate()) {
		if dec.echoes(f.Path) {
			continue
		}
		e := &Error{Path: f.Path, Value: text.Clip(f.Value, maxValue), Reason: f.Reason}
		origin.place(e)
		faults = append(faults, e)
	}
	if len(faults) > 0 {
		return ax.Domain{}, join(name, faults)
	}
	return d, nil
}

// fieldErrors takes apart what Domain.Validate returned.
func fieldErrors(err error) []*ax.FieldError {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*ax.FieldError
		for _, one := range many.Unwrap() {
			out = append(out, fieldErrors(one)...)
		}
		return out
	}
	if f, ok := errors.AsType[*ax.FieldError](err); ok {
		return []*ax.FieldError{f}
	}
	return []*ax.FieldError{{Reason: err.Error()}}
}
