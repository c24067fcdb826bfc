package ax

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The headers of a record, all of them UTF-8 text. Only [HeaderKind] is
// required: any client of any language can submit a task by writing a record
// with that one header to a lane.
const (
	// HeaderPrefix is the prefix of all names below; user headers can't begin
	// with it.
	HeaderPrefix = "ax-"

	HeaderKind        = "ax-kind"
	HeaderID          = "ax-id"           // absent: derived from topic id, partition, offset and epoch
	HeaderLane        = "ax-lane"         // absent: the lane of the topic, else the kind's
	HeaderDue         = "ax-due"          // RFC 3339; absent: at once
	HeaderLeave       = "ax-leave"        // RFC 3339; in tiers: when the record may leave; absent: the tier's wait after its append
	HeaderExpires     = "ax-expires"      // RFC 3339; absent: never
	HeaderTimeout     = "ax-timeout"      // such as 1m30s; absent: the kind's
	HeaderAttempt     = "ax-attempt"      // which attempt the next start is; absent: 1
	HeaderMaxAttempts = "ax-max-attempts" // absent: the kind's
	HeaderDeferrals   = "ax-deferrals"    // waits that cost no attempt; absent: 0
	HeaderSubmitted   = "ax-submitted"    // RFC 3339; first submit; absent: unknown
	HeaderHop         = "ax-hop"          // traceparent of the hop that wrote the record
)

// Limits of what a record may carry beside its value. A record that goes
// beyond them is refused by the producer and sent to the dead topic by the
// worker.
const (
	MaxIDBytes     = 200
	MaxKindBytes   = 100
	MaxLaneBytes   = 60
	MaxKeyBytes    = 1024
	MaxHeaders     = 64       // of the user's own
	MaxHeaderBytes = 16 << 10 // of the user's own, names and values together
	MaxTimeout     = 30 * 24 * time.Hour
	maxCount       = 1 << 20 // attempts, deferrals
	maxHopBytes    = 128
)

// Encode returns the record of t, without a topic. The record shares the
// payload and header values with t. The text forms are canonical: the same
// task gives the same bytes. Encode does not check t; producer and worker do.
func Encode(t *Task) *kgo.Record {
	var e Encoder
	r := new(kgo.Record)
	e.Encode(r, t)
	return r
}

// Encoder encodes tasks as [Encode] does, many at less cost: after
// [Encoder.Grow] it allocates for many tasks at once, and what several records
// have in common is there once. So nobody may change the bytes of its records,
// and one record that is kept keeps those that were allocated with it. The
// zero value is ready. An Encoder is for one goroutine; its records are not
// bound to it.
type Encoder struct {
	ahead   int // tasks to allocate for
	headers []kgo.RecordHeader
	text    []byte // of header values and keys

	// What the last record had.
	kind, lane, submitted []byte
	submittedAt           time.Time
}

// Grow says that n tasks follow that are much like the next one.
func (e *Encoder) Grow(n int) { e.ahead = n }

// Encode sets the key, the value and the headers of r, which is otherwise left
// as it is.
func (e *Encoder) Encode(r *kgo.Record, t *Task) {
	e.room(t)
	first := len(e.headers)
	e.repeated(HeaderKind, t.Kind, &e.kind)
	e.string(HeaderID, t.ID)
	e.repeated(HeaderLane, t.Lane, &e.lane)
	e.time(HeaderDue, t.Due)
	e.time(HeaderLeave, t.Leave)
	e.time(HeaderExpires, t.Expires)
	if t.Timeout > 0 {
		e.string(HeaderTimeout, t.Timeout.String())
	}
	if t.Attempt > 1 {
		e.count(HeaderAttempt, t.Attempt)
	}
	e.count(HeaderMaxAttempts, t.MaxAttempts)
	// Clamped, so that a task that waits for years can still be read.
	e.count(HeaderDeferrals, min(t.Deferrals, maxCount))
	if !t.Submitted.IsZero() {
		if !t.Submitted.Equal(e.submittedAt) {
			e.submittedAt, e.submitted = t.Submitted, e.timeText(t.Submitted)
		}
		e.header(HeaderSubmitted, e.submitted)
	}
	e.string(HeaderHop, t.Hop)
	for i := range t.Headers {
		e.header(t.Headers[i].Name, t.Headers[i].Value)
	}
	r.Headers = e.headers[first:len(e.headers):len(e.headers)]
	r.Key, r.Value = nil, t.Payload
	if t.Key != "" {
		r.Key = e.stringText(t.Key)
	}
}

// room allocates what t needs, and as much for each task that is expected,
// unless it is there. More than it thinks is no harm: append allocates too,
// and what was cut out of the old text stays there.
func (e *Encoder) room(t *Task) {
	const timeBytes, timeoutBytes, countBytes = 30, 20, 7
	headers, own := len(t.Headers), len(t.Key)
	add := func(present bool, bytes int) {
		if present {
			headers++
			own += bytes
		}
	}
	add(t.Kind != "", 0)
	add(t.ID != "", len(t.ID))
	add(t.Lane != "", 0)
	add(!t.Due.IsZero(), timeBytes)
	add(!t.Leave.IsZero(), timeBytes)
	add(!t.Expires.IsZero(), timeBytes)
	add(t.Timeout > 0, timeoutBytes)
	add(t.Attempt > 1, countBytes)
	add(t.MaxAttempts > 0, countBytes)
	add(t.Deferrals > 0, countBytes)
	add(!t.Submitted.IsZero(), 0)
	add(t.Hop != "", len(t.Hop))
	common := len(t.Kind) + len(t.Lane) + timeBytes

	n := max(e.ahead, 1)
	e.ahead = n - 1
	if cap(e.headers)-len(e.headers) < headers {
		e.headers = make([]kgo.RecordHeader, 0, n*headers)
	}
	if cap(e.text)-len(e.text) < common+own {
		e.text = make([]byte, 0, common*min(n, 2)+own*n) // the last, too, asks for both
	}
}

func (e *Encoder) header(name string, value []byte) {
	e.headers = append(e.headers, kgo.RecordHeader{Key: name, Value: value})
}

// repeated writes a text that is often that of the last record.
func (e *Encoder) repeated(name, value string, last *[]byte) {
	if value == "" {
		return
	}
	if string(*last) != value {
		*last = e.stringText(value)
	}
	e.header(name, *last)
}

func (e *Encoder) string(name, value string) {
	if value != "" {
		e.header(name, e.stringText(value))
	}
}

func (e *Encoder) time(name string, t time.Time) {
	if !t.IsZero() {
		e.header(name, e.timeText(t))
	}
}

func (e *Encoder) count(name string, n int) {
	if n > 0 {
		from := len(e.text)
		e.text = strconv.AppendInt(e.text, int64(n), 10)
		e.header(name, e.since(from))
	}
}

func (e *Encoder) stringText(s string) []byte {
	from := len(e.text)
	e.text = append(e.text, s...)
	return e.since(from)
}

func (e *Encoder) timeText(t time.Time) []byte {
	from := len(e.text)
	e.text = t.UTC().AppendFormat(e.text, time.RFC3339Nano)
	return e.since(from)
}

// since returns the text from there on, which an append to it leaves alone.
func (e *Encoder) since(from int) []byte { return e.text[from:len(e.text):len(e.text)] }

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
