package ax

import (
	"fmt"
	"strings"
	"time"

	"github.com/axtasks/ax/internal/text"
)

func faultKind(name string) string { return text.Fault(name, MaxKindBytes) }

// Complete fills the zero fields of t that the domain has defaults for at
// submit time, and returns a [*TaskError] matching [ErrInvalid] and a closer
// sentinel if the task can't be accepted at now. Call it on what
// [Domain.WithDefaults] returned. The producer calls it for every task.
func (d *Domain) Complete(t *Task, now time.Time) error {
	refuse := func(field, value string, err error) error {
		if err == nil {
			err = ErrInvalid
		} else {
			err = fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return &TaskError{Op: "submit", ID: t.ID, Kind: t.Kind, Field: field, Value: value, Err: err}
	}
	short := func(s string) string { return fmt.Sprintf("%q", text.Clip(s, 64)) }

	if f := faultKind(t.Kind); f != "" {
		return refuse("kind", short(t.Kind)+" "+f, nil)
	}
	if t.ID != "" {
		if f := text.Fault(t.ID, MaxIDBytes); f != "" {
			return refuse("id", short(t.ID)+" "+f, nil)
		}
	}
	kind, listed := d.Kinds[t.Kind]
	if t.Lane == "" {
		if t.Lane = kind.Lane; !listed {
			t.Lane = d.DefaultLane
		}
	}
	if !d.hasLane(t.Lane) {
		names := make([]string, len(d.Lanes))
		for i, l := range d.Lanes {
			names[i] = l.Name
		}
		return refuse("lane", short(t.Lane)+", want one of "+strings.Join(names, ", "), ErrUnknownLane)
	}
	if len(t.Key) > MaxKeyBytes {
		return refuse("key", fmt.Sprintf("of %d bytes, want at most %d", len(t.Key), MaxKeyBytes), nil)
	}
	if len(t.Payload) > d.MaxPayload {
		return refuse("payload", fmt.Sprintf("of %d bytes, want at most %d", len(t.Payload), d.MaxPayload), ErrTooLarge)
	}
	if t.Timeout < 0 || t.Timeout > MaxTimeout {
		return refuse("timeout", fmt.Sprintf("%s, want 0 to %s", t.Timeout, MaxTimeout), nil)
	}
	if t.MaxAttempts < 0 || t.MaxAttempts > maxCount {
		return refuse("attempts", fmt.Sprintf("%d, want 0 to %d", t.MaxAttempts, maxCount), nil)
	}
	due := now
	if t.Due.After(now) {
		due = t.Due
	}
	if wait := due.Sub(now); wait > d.Delay.Horizon {
		return refuse("due", fmt.Sprintf("%s, in %s, want at most %s", t.Due.UTC().Format(time.RFC3339), wait.Round(time.Second), d.Delay.Horizon), ErrHorizon)
	}
	for _, f := range []struct {
		field string
		at    time.Time
	}{{"due", t.Due}, {"expires", t.Expires}} {
		if f.at.IsZero() {
			continue
		}
		if year := f.at.UTC().Year(); year < 1970 || year > 9999 {
			return refuse(f.field, f.at.UTC().Format(time.RFC3339)+", want the years 1970 to 9999", nil)
		}
	}
	if t.Expires.IsZero() && kind.Expires > 0 {
		t.Expires = due.Add(kind.Expires)
	}
	if !t.Expires.IsZero() && !t.Expires.After(due) {
		return refuse("expires", fmt.Sprintf("%s, due %s", t.Expires.UTC().Format(time.RFC3339Nano), due.UTC().Format(time.RFC3339Nano)), ErrExpired)
	}
	if name, fault := faultHeaders(t.Headers); fault != "" {
		return refuse("header", short(name)+" "+fault, ErrHeader)
	}
	return nil
}

func (d *Domain) hasLane(name string) bool {
	for i := range d.Lanes {
		if d.Lanes[i].Name == name {
			return true
		}
	}
	return false
}

// CheckDue returns a [*RecordError] if a task that was read is due so far past
// the domain's horizon that no producer can have accepted it. Worker and mover
// send such a record to the dead topic instead of moving it on for ever. Call
// it on what [Domain.WithDefaults] returned.
func (d *Domain) CheckDue(t *Task, now time.Time) error {
	// Twice the horizon, since clocks differ and horizons are changed.
	if wait := t.Due.Sub(now); wait > 2*d.Delay.Horizon {
		return &RecordError{Source: t.Source, Header: HeaderDue, Value: formatTime(t.Due), Reason: ErrHorizon.Error()}
	}
	return nil
}

func faultHeaders(hs []Header) (name, fault string) {
	if len(hs) > MaxHeaders {
		return hs[MaxHeaders].Name, fmt.Sprintf("is the %dth of at most %d", MaxHeaders+1, MaxHeaders)
	}
	bytes := 0
	for i, h := range hs {
		if f := text.Fault(h.Name, MaxHeaderBytes); f != "" {
			return h.Name, f
		}
		if len(h.Name) >= len(HeaderPrefix) && strings.EqualFold(h.Name[:len(HeaderPrefix)], HeaderPrefix) {
			return h.Name, "is reserved: names that begin with " + HeaderPrefix + " are ax's own"
		}
		if bytes += len(h.Name) + len(h.Value); bytes > MaxHeaderBytes {
			return h.Name, fmt.Sprintf("brings the headers above %d bytes", MaxHeaderBytes)
		}
		for _, other := range hs[:i] {
			if other.Name == h.Name {
				return h.Name, "is repeated"
			}
		}
	}
	return "", ""
}
