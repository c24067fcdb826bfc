package spec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Error is one fault of a domain's file, or of what was laid over it. The
// functions of this package return all faults joined; [errors.As] finds the
// first one, in the order of the lines.
type Error struct {
	// File is the name that was given to Parse or Load. Empty when the value
	// came from the environment or from an override.
	File string
	// Line counts from 1. Zero when the fault has no place in the file.
	Line int
	// Env names the variable that gave the value, when one did.
	Env string
	// Path of the setting, such as "lanes[1].weight". Empty for a fault of
	// the file as a whole.
	Path string
	// Value is the offending value, quoted if it is a text, and shortened.
	// Empty when there is none to show, as for a secret.
	Value string
	// Reason says what was wanted.
	Reason string
}

// Error returns "file:line: path: value: reason", without the parts that are
// empty.
func (e *Error) Error() string {
	place := e.File
	if e.Line > 0 {
		place = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	if e.Env != "" {
		place = "environment " + e.Env
	}
	parts := slices.DeleteFunc([]string{place, e.Path, e.Value, e.Reason}, func(s string) bool { return s == "" })
	return printable(strings.Join(parts, ": "))
}

// printable keeps a value with line breaks or terminal controls from faking
// another line of output.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

const maxFaults = 100

// join sorts the faults by line, those without one last, drops repeats and
// returns them as one error; nil if there are none.
func join(file string, faults []*Error) error {
	slices.SortStableFunc(faults, func(a, b *Error) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Compare(a.Line, b.Line)
	})
	faults = slices.CompactFunc(faults, func(a, b *Error) bool { return *a == *b })
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], &Error{File: file, Reason: "and more faults"})
	}
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}
