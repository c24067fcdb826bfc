package dead

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/axtasks/ax"
)

// Filter chooses deaths. A field that is zero chooses all.
type Filter struct {
	// IDs are names of deaths and ids of tasks. A task's id stands for all its
	// deaths.
	IDs []string
	// Kind is the kind as the record says it, whether it is a task or not.
	Kind   string
	Reason ax.Reason
	// Since and Until bound the time of death: from Since on, and before Until.
	// A death that doesn't tell its time is in no bounds.
	Since, Until time.Time
	// Error and Payload are texts that the last error and the payload hold, in
	// this case of letters.
	Error, Payload string
}

// Empty reports whether f chooses everything.
func (f *Filter) Empty() bool {
	return len(f.IDs) == 0 && f.Kind == "" && f.Reason == "" && f.Since.IsZero() && f.Until.IsZero() && f.Error == "" && f.Payload == ""
}

// Match reports whether f chooses e.
func (f *Filter) Match(e *Entry) bool {
	switch {
	case len(f.IDs) > 0 && !slices.Contains(f.IDs, e.Death) && !slices.Contains(f.IDs, e.ID),
		f.Kind != "" && e.Kind != f.Kind,
		f.Reason != "" && e.Reason != f.Reason,
		!f.Since.IsZero() && (e.At.IsZero() || e.At.Before(f.Since)),
		!f.Until.IsZero() && (e.At.IsZero() || !e.At.Before(f.Until)),
		!strings.Contains(e.Error, f.Error),
		f.Payload != "" && !bytes.Contains(e.Record.Value, []byte(f.Payload)):
		return false
	}
	return true
}

// Missing is the ids of a filter that nothing has had so far.
type Missing struct {
	ids  []string
	left map[string]bool
}

// Missing returns the ids of f, each of which waits to be found.
func (f *Filter) Missing() *Missing {
	m := &Missing{left: map[string]bool{}}
	for _, id := range f.IDs {
		if !m.left[id] {
			m.left[id] = true
			m.ids = append(m.ids, id)
		}
	}
	return m
}

// Found takes away what e has.
func (m *Missing) Found(e *Entry) {
	delete(m.left, e.Death)
	delete(m.left, e.ID)
}

// IDs returns what nothing has had, in the filter's order.
func (m *Missing) IDs() (ids []string) {
	for _, id := range m.ids {
		if m.left[id] {
			ids = append(ids, id)
		}
	}
	return ids
}
