package ax

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/rfc3339"
	"github.com/axtasks/ax/internal/text"
)

// Decode returns the task that r holds. The task shares r's value and header
// values. topicID completes the id of a record that names none, so that the id
// is the same at each delivery and never another record's. A record that is
// not a task gives a [*RecordError], whatever its bytes.
func Decode(r *kgo.Record, topicID [16]byte) (*Task, error) {
	var d Decoder
	return d.Decode(r, topicID)
}

// Decoder decodes records as [Decode] does, many at less cost: after
// [Decoder.Grow] it allocates for several tasks at once. So one task that is
// kept keeps a few dozen others, and what they share with their records; who
// lets a task wait keeps a copy of the struct instead. The zero value is ready.
// A Decoder is for one goroutine; its tasks are not bound to it.
type Decoder struct {
	ahead   int // records to allocate for
	tasks   []Task
	headers []Header
	text    strings.Builder
}

// maxDecodedTogether bounds what one task keeps of others.
const maxDecodedTogether = 32

// Grow says that n records follow that are much like the next one.
func (d *Decoder) Grow(n int) { d.ahead = n }

// Decode returns the task that r holds.
func (d *Decoder) Decode(r *kgo.Record, topicID [16]byte) (*Task, error) {
	together := min(max(d.ahead, 1), maxDecodedTogether)
	d.ahead--
	source := Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Epoch: r.LeaderEpoch}
	if len(r.Key) > MaxKeyBytes {
		return nil, &RecordError{Source: source, Header: "(key)", Value: text.Clip(string(r.Key), 64), Reason: "is too long"}
	}
	t := d.task(together)
	t.Payload, t.Attempt, t.Source = r.Value, 1, source
	var seen int
	var own, unknown allowance
	var texts texts
	for i := range r.Headers {
		h := &r.Headers[i]
		if !strings.HasPrefix(h.Key, HeaderPrefix) {
			if fault := own.take(h); fault != "" {
				return nil, recordError(t, h, fault)
			}
			if own.count == 1 {
				t.Headers = d.own(t.Headers, r.Headers[i:], together)
			}
			t.Headers = append(t.Headers, Header{Name: h.Key, Value: h.Value})
			continue
		}
		bit, fault := decodeHeader(t, &texts, h)
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
	if h, fault := d.decode(t, &texts, r.Key, together); fault != "" {
		return nil, recordError(t, h, fault)
	}
	if t.Kind == "" {
		return nil, &RecordError{Source: t.Source, Header: HeaderKind, Reason: "is missing"}
	}
	if t.ID == "" {
		t.ID = PositionID(t.Source, topicID)
	}
	return t, nil
}

// task returns an empty task.
func (d *Decoder) task(together int) *Task {
	if len(d.tasks) == 0 {
		d.tasks = make([]Task, together)
	}
	t := &d.tasks[0]
	d.tasks = d.tasks[1:]
	return t
}

// own returns what is there with room for the user's headers among hs.
func (d *Decoder) own(there []Header, hs []kgo.RecordHeader, together int) []Header {
	n := len(there)
	for i := range hs {
		if !strings.HasPrefix(hs[i].Key, HeaderPrefix) {
			n++
		}
	}
	n = min(n, 2*MaxHeaders) // more are refused
	if len(d.headers) < n {
		d.headers = make([]Header, n*together)
	}
	room := d.headers[:0:n]
	d.headers = d.headers[n:]
	return append(room, there...)
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

// texts are the headers whose values a task keeps as strings: kind, id, lane
// and hop. They are converted together, with the key, in one allocation.
type texts [4]*kgo.RecordHeader

// maxTextBytes are their limits.
var maxTextBytes = [4]int{MaxKindBytes, MaxIDBytes, MaxLaneBytes, maxHopBytes}

// note keeps the i-th for later.
func (ts *texts) note(i int, h *kgo.RecordHeader) (fault string) {
	if len(h.Value) > maxTextBytes[i] {
		return "is too long"
	}
	ts[i] = h
	return ""
}

// decode sets the key and the fields of t that texts hold. It returns the
// first header at fault and what is wrong, or "".
func (d *Decoder) decode(t *Task, ts *texts, key []byte, together int) (at *kgo.RecordHeader, fault string) {
	size := len(key)
	for _, h := range ts {
		if h != nil {
			size += len(h.Value)
		}
	}
	if d.text.Cap()-d.text.Len() < size {
		d.text.Reset() // its text is the tasks' now
		d.text.Grow(size * together)
	}
	t.Key = d.string(key)
	for i, field := range [4]*string{&t.Kind, &t.ID, &t.Lane, &t.Hop} {
		if h := ts[i]; h != nil {
			*field = d.string(h.Value)
			if fault := text.Fault(*field, maxTextBytes[i]); fault != "" {
				return h, fault
			}
		}
	}
	return nil, ""
}

// string returns v as a string, for which there is room.
func (d *Decoder) string(v []byte) string {
	from := d.text.Len()
	d.text.Write(v)
	return d.text.String()[from:]
}

// decodeHeader sets the field of t that h names, or notes it in texts. It
// returns a bit of its own for each header, to tell repeats, 0 for a name that
// this version does not know, and what is wrong, or "".
func decodeHeader(t *Task, ts *texts, h *kgo.RecordHeader) (bit int, fault string) {
	// Each value is converted where it is used: what is only parsed then
	// costs no allocation.
	v := h.Value
	switch h.Key {
	case HeaderKind:
		return 1 << 0, ts.note(0, h)
	case HeaderID:
		return 1 << 1, ts.note(1, h)
	case HeaderLane:
		return 1 << 2, ts.note(2, h)
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
		return 1 << 11, ts.note(3, h)
	}
	return 0, ""
}

// year10000 is when it begins, in seconds since 1970.
const year10000 = 253_402_300_800

func parseTime(to *time.Time, v []byte) string {
	t, err := rfc3339.Parse(v)
	if err != nil {
		return "is not a time as of RFC 3339, such as 2026-01-02T15:04:05.999Z"
	}
	if s := t.Unix(); s < 0 || s >= year10000 {
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
