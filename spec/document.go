package spec

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// document returns the root of the one document in data. The file of a fault
// is the caller's to fill in.
func document(data []byte) (*yaml.Node, *Error) {
	if len(data) > maxBytes {
		return nil, &Error{Reason: "is larger than 1 MiB"}
	}
	if line := foreignByte(data); line > 0 {
		return nil, &Error{Line: line, Reason: "holds a byte that is not UTF-8 text"}
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, syntax(err)
	}
	var doc, second yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &Error{Reason: "is empty; it needs at least the key domain"}
	case err != nil:
		return nil, syntax(err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, &Error{Line: second.Line, Reason: "a second document begins here; a file describes one domain"}
	case !errors.Is(err, io.EOF):
		return nil, syntax(err)
	}
	if len(doc.Content) != 1 {
		return nil, &Error{Reason: "is empty; it needs at least the key domain"}
	}
	root := doc.Content[0]
	if isNull(root) {
		return nil, &Error{Reason: "is empty; it needs at least the key domain"}
	}
	return root, nil
}

// foreignByte returns the line of the first byte that no YAML text may hold,
// or 0. The reader of the YAML package would refuse it without a line.
func foreignByte(data []byte) int {
	line := 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == '\n':
			line++
		case r == utf8.RuneError && size == 1,
			r < ' ' && r != '\t' && r != '\r', r == 0x7f,
			r > 0x7f && r < 0xa0 && r != 0x85,
			r == 0xfffe, r == 0xffff:
			return line
		}
		data = data[size:]
	}
	return 0
}

// syntax turns an error of the YAML package into ours.
func syntax(err error) *Error {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return &Error{Reason: "is not YAML"}
	}
	out := &Error{Line: e.Mark.Line, Reason: "is not YAML: " + e.Message}
	if e.ContextMsg != "" {
		out.Reason += " " + e.ContextMsg
	}
	// What was opened and never closed is where the mistake is, not the end
	// of the file.
	if c := e.ContextMsg; e.ContextMark.Line > 0 && (strings.Contains(c, "quoted") || strings.Contains(c, "flow")) {
		out.Line = e.ContextMark.Line
	}
	// Messages that quote the file could quote a password that begins with *
	// or !.
	switch {
	case strings.Contains(e.Message, "unknown anchor"):
		out.Reason = "an alias has no anchor; a text that begins with * needs quotes"
	case strings.Contains(out.Reason, "tag"):
		out.Reason = "tags are not allowed; a text that begins with ! needs quotes"
	case strings.ContainsAny(e.Message, "\"`"):
		out.Reason = "is not YAML"
	}
	return out
}
