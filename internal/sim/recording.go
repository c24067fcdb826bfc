package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/text"
	"github.com/axtasks/ax/spec"
)

// Recording reads arrivals from CSV, row by row: a file may be larger than
// memory. Its first line names the columns, of which at, kind and run are
// required, and lane and delay may be missing or empty.
type Recording struct {
	file    string
	domain  ax.Domain
	csv     *csv.Reader
	columns [len(columns)]int // where each is, or -1

	began   time.Time // at of the first row, where that is an instant
	instant bool
	before  time.Duration // at of the row above
	first   bool
}

// The columns of a recording.
var columns = [...]string{"at", "kind", "lane", "run", "delay"}

const (
	columnAt = iota
	columnKind
	columnLane
	columnRun
	columnDelay
)

// arrival is a task that comes.
type arrival struct {
	at         time.Duration // since the simulation began
	kind, lane string        // of a recording; they may change with the next
	run, delay time.Duration
}

// NewRecording reads the header. name stands for the file in errors, and the
// domain has its defaults. A fault is a [*spec.Error].
func NewRecording(name string, r io.Reader, d ax.Domain) (*Recording, error) {
	c := &Recording{file: name, domain: d, csv: csv.NewReader(r), first: true}
	c.csv.ReuseRecord = true
	head, err := c.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, &spec.Error{File: name, Reason: "is empty; its first line names the columns " + strings.Join(columns[:], ",")}
	}
	if err != nil {
		return nil, c.broken(err)
	}
	for i := range c.columns {
		c.columns[i] = -1
	}
	for i, name := range head {
		at := -1
		for j, known := range columns {
			if name == known {
				at = j
			}
		}
		switch {
		case at < 0:
			return nil, c.fault(i, "", quote(name), "is no column, want some of "+strings.Join(columns[:], ","))
		case c.columns[at] >= 0:
			return nil, c.fault(i, "", quote(name), "is there twice")
		}
		c.columns[at] = i
	}
	for _, at := range []int{columnAt, columnKind, columnRun} {
		if c.columns[at] < 0 {
			return nil, c.fault(0, columns[at], "", "the column is required")
		}
	}
	return c, nil
}

// fault is about the value in a column of the row that was read last.
func (c *Recording) fault(column int, path, value, reason string) error {
	line, _ := c.csv.FieldPos(column)
	return &spec.Error{File: c.file, Line: line, Path: path, Value: value, Reason: reason}
}

// broken is about a line that is no CSV, or that could not be read.
func (c *Recording) broken(err error) error {
	if e, ok := errors.AsType[*csv.ParseError](err); ok {
		return &spec.Error{File: c.file, Line: e.Line, Reason: "is not CSV: " + e.Err.Error()}
	}
	return fmt.Errorf("sim: read the recording %s: %w", c.file, err)
}

// next returns the next row, or false after the last.
func (c *Recording) next() (a arrival, ok bool, err error) {
	row, err := c.csv.Read()
	if errors.Is(err, io.EOF) {
		return arrival{}, false, nil
	}
	if err != nil {
		return arrival{}, false, c.broken(err)
	}
	value := func(column int) string {
		if at := c.columns[column]; at >= 0 {
			return row[at]
		}
		return ""
	}
	wrong := func(column int, reason string) (arrival, bool, error) {
		return arrival{}, false, c.fault(c.columns[column], columns[column], quote(value(column)), reason)
	}
	if a.at, err = c.at(value(columnAt)); err != nil {
		return wrong(columnAt, err.Error())
	}
	if a.at < c.before {
		return wrong(columnAt, "is before the row above; sort the rows by time")
	}
	c.before = a.at
	if a.kind = value(columnKind); text.Fault(a.kind, ax.MaxKindBytes) != "" {
		return wrong(columnKind, text.Fault(a.kind, ax.MaxKindBytes))
	}
	a.lane = value(columnLane)
	if reason := laneFault(a.lane, c.domain); reason != "" {
		return wrong(columnLane, reason)
	}
	if a.run, err = time.ParseDuration(value(columnRun)); err != nil || a.run < 0 || a.run > maxRun {
		return wrong(columnRun, "want a duration such as 5ms, 0s to "+text.Duration(maxRun))
	}
	if value(columnDelay) != "" {
		if a.delay, err = time.ParseDuration(value(columnDelay)); err != nil || a.delay < 0 || a.delay > c.domain.Delay.Horizon {
			return wrong(columnDelay, "want nothing, or a duration such as 30s, 0s to the domain's horizon "+text.Duration(c.domain.Delay.Horizon))
		}
	}
	return a, true, nil
}

// at returns when a row is, since the beginning. Instants count from the first.
func (c *Recording) at(s string) (time.Duration, error) {
	first := c.first
	c.first = false
	if t, err := time.Parse(time.RFC3339, s); err == nil && (first || c.instant) {
		if first {
			c.began, c.instant = t, true
		}
		if d := t.Sub(c.began); d <= maxFor {
			return d, nil
		}
		return 0, errors.New("is more than " + text.Duration(maxFor) + " after the first row")
	}
	if d, err := time.ParseDuration(s); err == nil && !c.instant && d >= 0 && d <= maxFor {
		return d, nil
	}
	switch {
	case first:
		return 0, errors.New("want a duration since the beginning such as 1m2.5s, or an instant such as 2026-03-01T12:00:00Z")
	case c.instant:
		return 0, errors.New("want an instant such as 2026-03-01T12:00:00Z, as in the first row")
	}
	return 0, errors.New("want a duration such as 1m2.5s, 0s to " + text.Duration(maxFor) + ", as in the first row")
}
