package ax

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/text"
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
	w := headerWriter{buf: make([]byte, 0, 192)}
	w.text(HeaderKind, t.Kind)
	w.text(HeaderID, t.ID)
	w.text(HeaderLane, t.Lane)
	w.time(HeaderDue, t.Due)
	w.time(HeaderLeave, t.Leave)
	w.time(HeaderExpires, t.Expires)
	if t.Timeout > 0 {
		w.text(HeaderTimeout, t.Timeout.String())
	}
	if t.Attempt > 1 {
		w.count(HeaderAttempt, t.Attempt)
	}
	w.count(HeaderMaxAttempts, t.MaxAttempts)
	// Clamped, so that a task that waits for years can still be read.
	w.count(HeaderDeferrals, min(t.Deferrals, maxCount))
	w.time(HeaderSubmitted, t.Submitted)
	w.text(HeaderHop, t.Hop)
	r := &kgo.Record{Value: t.Payload, Headers: w.headers(t.Headers)}
	if t.Key != "" {
		r.Key = []byte(t.Key)
	}
	return r
}

// headerWriter collects header values in one buffer, which is cut into them at
// the end, when it no longer moves.
type headerWriter struct {
	buf   []byte
	n     int
	names [12]string
	ends  [12]int
}

func (w *headerWriter) end(name string) {
	w.names[w.n], w.ends[w.n] = name, len(w.buf)
	w.n++
}

func (w *headerWriter) text(name, value string) {
	if value != "" {
		w.buf = append(w.buf, value...)
		w.end(name)
	}
}

func (w *headerWriter) time(name string, t time.Time) {
	if !t.IsZero() {
		w.buf = t.UTC().AppendFormat(w.buf, time.RFC3339Nano)
		w.end(name)
	}
}

func (w *headerWriter) count(name string, n int) {
	if n > 0 {
		w.buf = strconv.AppendInt(w.buf, int64(n), 10)
		w.end(name)
	}
}

// headers returns what was written, and the user's own after it.
func (w *headerWriter) headers(own []Header) []kgo.RecordHeader {
	hs := make([]kgo.RecordHeader, 0, w.n+len(own))
	from := 0
	for i, end := range w.ends[:w.n] {
		hs = append(hs, kgo.RecordHeader{Key: w.names[i], Value: w.buf[from:end:end]})
		from = end
	}
	for _, h := range own {
		hs = append(hs, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	return hs
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Decode returns the task that r holds. The task shares r's value and header
// values. topicID completes the id of a record that names none, so that the id
// is the same at each delivery and never another record's. A record that is
// not a task gives a [*RecordError], whatever its bytes.
func Decode(r *kgo.Record, topicID [16]byte) (*Task, error) {
	t := &Task{
		Payload: r.Value,
		Key:     string(r.Key),
		Attempt: 1,
		Source:  Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Epoch: r.LeaderEpoch},
	}
	if len(r.Key) > MaxKeyBytes {
		return nil, &RecordError{Source: t.Source, Header: "(key)", Value: text.Clip(t.Key, 64), Reason: "is too long"}
	}
	var seen int
	var own, unknown allowance
	for i := range r.Headers {
		h := &r.Headers[i]
		if !strings.HasPrefix(h.Key, HeaderPrefix) {
			if fault := own.take(h); fault != "" {
				return nil, recordError(t, h, fault)
			}
			t.Headers = append(t.Headers, Header{Name: h.Key, Value: h.Value})
			continue
		}
		bit, fault := decodeHeader(t, h)
		switch {
		case fault != "":
		case seen&bit != 0:
			fault = "is repeated"
		case bit == 0:
			// A newer version wrote it, or somebody guessed. It travels along.
			fault = unknown.take(h)
			t.Headers = append(t.Headers, Header{Name: h.Key, Value: h.Value})
		}
		if fault != "" {
			return nil, recordError(t, h, fault)
		}
		seen |= bit
	}
	if t.Kind == "" {
		return nil, &RecordError{Source: t.Source, Header: HeaderKind, Reason: "is missing"}
	}
	if t.ID == "" {
		t.ID = PositionID(t.Source, topicID)
	}
	return t, nil
}

// allowance is what was taken of MaxHeaders and MaxHeaderBytes.
type allowance struct{ count, bytes int }

func (a *allowance) take(h *kgo.RecordHeader) (fault string) {
	if a.count++; a.count > MaxHeaders {
		return fmt.Sprintf("is the %dth of at most %d", a.count, MaxHeaders)
	}
	if a.bytes += len(h.Key) + len(h.Value); a.bytes > MaxHeaderBytes {
		return fmt.Sprintf("brings the headers above %d bytes", MaxHeaderBytes)
	}
	return ""
}

func recordError(t *Task, h *kgo.RecordHeader, reason string) error {
	return &RecordError{
		Source: t.Source,
		Header: text.Clip(h.Key, 64), Value: text.Clip(string(h.Value), 64),
		Reason: reason,
	}
}

// decodeHeader sets the field of t that h names. It returns a bit of its own
// for each header, to tell repeats, 0 for a name that this version does not
// know, and what is wrong, or "".
func decodeHeader(t *Task, h *kgo.RecordHeader) (bit int, fault string) {
	// Each value is converted where it is used: what is only parsed then
	// costs no allocation.
	v := h.Value
	switch h.Key {
	case HeaderKind:
		t.Kind = string(v)
		return 1 << 0, text.Fault(t.Kind, MaxKindBytes)
	case HeaderID:
		t.ID = string(v)
		return 1 << 1, text.Fault(t.ID, MaxIDBytes)
	case HeaderLane:
		t.Lane = string(v)
		return 1 << 2, text.Fault(t.Lane, MaxLaneBytes)
	case HeaderDue:
		return 1 << 3, parseTime(&t.Due, v)
	case HeaderLeave:
		return 1 << 4, parseTime(&t.Leave, v)
	case HeaderExpires:
		return 1 << 5, parseTime(&t.Expires, v)
	case HeaderTimeout:
		d, err := time.ParseDuration(string(v))
		if err != nil || d <= 0 || d > MaxTimeout {
			return 1 << 6, fmt.Sprintf("is not a duration above 0 and up to %s, such as 1m30s", MaxTimeout)
		}
		t.Timeout = d
		return 1 << 6, ""
	case HeaderAttempt:
		return 1 << 7, parseCount(&t.Attempt, v)
	case HeaderMaxAttempts:
		return 1 << 8, parseCount(&t.MaxAttempts, v)
	case HeaderDeferrals:
		return 1 << 9, parseCount(&t.Deferrals, v)
	case HeaderSubmitted:
		return 1 << 10, parseTime(&t.Submitted, v)
	case HeaderHop:
		t.Hop = string(v)
		return 1 << 11, text.Fault(t.Hop, maxHopBytes)
	}
	return 0, ""
}

func parseTime(to *time.Time, v []byte) string {
	t, err := time.Parse(time.RFC3339Nano, string(v))
	if err != nil {
		return "is not a time as of RFC 3339, such as 2026-01-02T15:04:05.999Z"
	}
	if t = t.UTC(); t.Year() < 1970 || t.Year() > 9999 {
		return "is not between the years 1970 and 9999"
	}
	*to = t
	return ""
}

func parseCount(to *int, v []byte) string {
	n, err := strconv.ParseUint(string(v), 10, 32)
	if err != nil || n == 0 || n > maxCount || v[0] == '0' {
		return fmt.Sprintf("is not a whole number between 1 and %d", maxCount)
	}
	*to = int(n)
	return ""
}

// PositionID returns the id of a record that names none: topic id, partition,
// offset and epoch. Where the topic id is unknown, the topic's name stands in,
// or its hash where it would make the id too long to be carried on.
func PositionID(s Source, topicID [16]byte) string {
	topic := s.Topic
	if topicID != ([16]byte{}) {
		topic = hex.EncodeToString(topicID[:])
	}
	if len(topic) > MaxIDBytes-len("--2147483648--9223372036854775808--2147483648") {
		hash := sha256.Sum256([]byte(topic))
		topic = hex.EncodeToString(hash[:16])
	}
	return fmt.Sprintf("%s-%d-%d-%d", topic, s.Partition, s.Offset, s.Epoch)
}
