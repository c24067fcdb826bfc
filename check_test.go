package ax_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func orders() ax.Domain {
	return ax.Domain{
		Name: "orders", MaxPayload: 100,
		Kinds: map[string]ax.Kind{"order.close": {Lane: "high", Expires: time.Hour}},
	}.WithDefaults()
}

func TestCompleteFillsTheDomainsDefaults(t *testing.T) {
	t.Parallel()
	d := orders()
	task := ax.Task{Kind: "order.close"}
	require.NoError(t, d.Complete(&task, now))
	require.Equal(t, ax.Task{Kind: "order.close", Lane: "high", Expires: now.Add(time.Hour)}, task)

	task = ax.Task{Kind: "order.close", Due: now.Add(time.Minute)}
	require.NoError(t, d.Complete(&task, now))
	require.Equal(t, now.Add(time.Hour+time.Minute), task.Expires, "counted from when it is due")

	task = ax.Task{Kind: "order.close", Due: now.Add(-time.Hour * 24)}
	require.NoError(t, d.Complete(&task, now))
	require.Equal(t, now.Add(time.Hour), task.Expires, "what was due in the past is due now")

	task = ax.Task{Kind: "order.close", Lane: "low", Expires: now.Add(time.Second)}
	require.NoError(t, d.Complete(&task, now))
	require.Equal(t, ax.Task{Kind: "order.close", Lane: "low", Expires: now.Add(time.Second)}, task, "what is set stays")

	task = ax.Task{Kind: "unlisted"}
	require.NoError(t, d.Complete(&task, now))
	require.Equal(t, ax.Task{Kind: "unlisted", Lane: "normal"}, task)
}

func TestCompleteAcceptsTheLimits(t *testing.T) {
	t.Parallel()
	d := orders()
	task := ax.Task{
		ID: strings.Repeat("i", ax.MaxIDBytes), Kind: strings.Repeat("k", ax.MaxKindBytes), Key: strings.Repeat("\x00", ax.MaxKeyBytes),
		Payload: make([]byte, 100), Due: now.Add(d.Delay.Horizon), Timeout: ax.MaxTimeout, MaxAttempts: 1 << 20,
		Headers: []ax.Header{{Name: "x", Value: make([]byte, ax.MaxHeaderBytes-1)}},
	}
	require.NoError(t, d.Complete(&task, now))
}

func TestCompleteRefusesWithTheSentinelAndTheName(t *testing.T) {
	t.Parallel()
	h := func(names ...string) []ax.Header {
		var out []ax.Header
		for _, n := range names {
			out = append(out, ax.Header{Name: n})
		}
		return out
	}
	many := make([]ax.Header, 65)
	for i := range many {
		many[i].Name = "x" + strings.Repeat("x", i)
	}
	for _, c := range []struct {
		task  ax.Task
		is    error
		field string
		says  string
	}{
		{ax.Task{}, nil, "kind", `"" is empty`},
		{ax.Task{Kind: "a b"}, nil, "kind", `"a b" holds a space`},
		{ax.Task{Kind: strings.Repeat("k", 101)}, nil, "kind", "is too long"},
		{ax.Task{Kind: "k", ID: "a\nb"}, nil, "id", `"a\nb" holds a space or a control character`},
		{ax.Task{Kind: "k", ID: "\xff"}, nil, "id", "is not UTF-8"},
		{ax.Task{Kind: "k", ID: strings.Repeat("i", 201)}, nil, "id", "is too long"},
		{ax.Task{Kind: "k", Lane: "urgent"}, ax.ErrUnknownLane, "lane", `"urgent", want one of critical, high, normal, low`},
		{ax.Task{Kind: "k", Key: strings.Repeat("k", 1025)}, nil, "key", "of 1025 bytes, want at most 1024"},
		{ax.Task{Kind: "k", Payload: make([]byte, 101)}, ax.ErrTooLarge, "payload", "of 101 bytes, want at most 100"},
		{ax.Task{Kind: "k", Timeout: -1}, nil, "timeout", "-1ns, want 0 to 720h0m0s"},
		{ax.Task{Kind: "k", Timeout: ax.MaxTimeout + 1}, nil, "timeout", "want 0 to 720h0m0s"},
		{ax.Task{Kind: "k", MaxAttempts: -1}, nil, "attempts", "-1, want 0 to 1048576"},
		{ax.Task{Kind: "k", MaxAttempts: 1<<20 + 1}, nil, "attempts", "1048577, want 0 to"},
		{ax.Task{Kind: "k", Due: now.Add(400*24*time.Hour + 1)}, ax.ErrHorizon, "due", "2028-01-04T12:00:00Z, in 9600h0m0s, want at most 9600h0m0s"},
		{ax.Task{Kind: "k", Due: time.Date(30_000, 1, 1, 0, 0, 0, 0, time.UTC)}, ax.ErrHorizon, "due", "want at most"},
		{ax.Task{Kind: "k", Due: time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)}, nil, "due", "want the years 1970 to 9999"},
		{ax.Task{Kind: "k", Expires: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}, nil, "expires", "want the years 1970 to 9999"},
		{ax.Task{Kind: "k", Expires: now}, ax.ErrExpired, "expires", "2026-11-30T12:00:00Z, due 2026-11-30T12:00:00Z"},
		{ax.Task{Kind: "k", Expires: now.Add(-1)}, ax.ErrExpired, "expires", "due 2026-11-30T12:00:00Z"},
		{ax.Task{Kind: "k", Due: now.Add(time.Hour), Expires: now.Add(time.Minute)}, ax.ErrExpired, "expires", "due 2026-11-30T13:00:00Z"},
		{ax.Task{Kind: "k", Headers: h("")}, ax.ErrHeader, "header", "is empty"},
		{ax.Task{Kind: "k", Headers: h("a\nb")}, ax.ErrHeader, "header", `"a\nb" holds a space or a control character`},
		{ax.Task{Kind: "k", Headers: h("a\r\nax-attempt")}, ax.ErrHeader, "header", `"a\r\nax-attempt" holds`},
		{ax.Task{Kind: "k", Headers: h("ax-attempt")}, ax.ErrHeader, "header", `"ax-attempt" is reserved`},
		{ax.Task{Kind: "k", Headers: h("AX-Kind")}, ax.ErrHeader, "header", `"AX-Kind" is reserved`},
		{ax.Task{Kind: "k", Headers: h("ax-")}, ax.ErrHeader, "header", `"ax-" is reserved`},
		{ax.Task{Kind: "k", Headers: h(" ax-kind")}, ax.ErrHeader, "header", `holds a space`},
		{ax.Task{Kind: "k", Headers: h("a", "b", "a")}, ax.ErrHeader, "header", `"a" is repeated`},
		{ax.Task{Kind: "k", Headers: many}, ax.ErrHeader, "header", "is the 65th of at most 64"},
		{ax.Task{Kind: "k", Headers: []ax.Header{{Name: "big", Value: make([]byte, ax.MaxHeaderBytes-2)}}}, ax.ErrHeader, "header", `"big" brings the headers above 16384 bytes`},
	} {
		d := orders()
		err := d.Complete(&c.task, now)
		require.Error(t, err, c.says)
		require.ErrorIs(t, err, ax.ErrInvalid, c.says)
		for _, sentinel := range []error{ax.ErrUnknownLane, ax.ErrTooLarge, ax.ErrHorizon, ax.ErrExpired, ax.ErrHeader} {
			require.Equal(t, sentinel == c.is, errors.Is(err, sentinel), "%v is %v", err, sentinel)
		}
		require.ErrorContains(t, err, c.says)
		e, ok := errors.AsType[*ax.TaskError](err)
		require.True(t, ok)
		require.Equal(t, c.field, e.Field)
		require.Less(t, len(err.Error()), 400, "long values are shortened")
		require.NotContains(t, err.Error(), "\n")
	}
}

// Where two fields are at fault, the same one is named each time.
func TestCompleteNamesTheSameFaultEachTime(t *testing.T) {
	t.Parallel()
	d := orders()
	for range 50 {
		err := d.Complete(&ax.Task{Kind: "k", Due: time.Unix(-1, 0), Expires: time.Unix(-1, 0)}, now)
		require.ErrorContains(t, err, ": due 1969")
	}
}

func TestTaskErrorTellsWhatFailed(t *testing.T) {
	t.Parallel()
	err := &ax.TaskError{Op: "submit", ID: "i", Kind: "k", Err: ax.ErrBusy}
	require.EqualError(t, err, `ax: submit "k" (id "i"): producer buffer is full`)
	require.ErrorIs(t, err, ax.ErrBusy)
	d := orders()
	require.EqualError(t, d.Complete(&ax.Task{Kind: "k", Lane: "x"}, now),
		`ax: submit "k": lane "x", want one of critical, high, normal, low: invalid task: unknown lane`)
}

func TestWhatCompleteAcceptsTheWorkerCanRead(t *testing.T) {
	t.Parallel()
	d := orders()
	task := ax.Task{ID: "i", Kind: "k", Key: "k", Payload: []byte("p"), Due: now.Add(time.Hour), Expires: now.Add(2 * time.Hour), Attempt: 1}
	for i := range ax.MaxHeaders {
		task.Headers = append(task.Headers, ax.Header{Name: "h" + strings.Repeat("x", i), Value: make([]byte, 200)})
	}
	require.NoError(t, d.Complete(&task, now))
	back, err := ax.Decode(ax.Encode(&task), topicID)
	require.NoError(t, err)
	back.Source = ax.Source{}
	require.Equal(t, &task, back)
}
