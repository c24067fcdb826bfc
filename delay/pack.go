package delay

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
)

// known are the names of headers that most records hold; one of them is packed
// as its number.
var known = [...]string{
	ax.HeaderKind, ax.HeaderID, ax.HeaderLane, ax.HeaderDue, ax.HeaderLeave, ax.HeaderExpires, ax.HeaderTimeout, ax.HeaderAttempt,
	ax.HeaderMaxAttempts, ax.HeaderDeferrals, ax.HeaderSubmitted, ax.HeaderHop, "traceparent", "tracestate",
}

// pack appends what a record holds to b. As one piece of memory that is a
// fifth of what its task takes, and a mover holds many that leave much later.
func pack(b []byte, r *kgo.Record) []byte {
	b = appendBytes(b, r.Key)
	b = appendBytes(b, r.Value)
	b = binary.AppendUvarint(b, uint64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		n := slices.Index(known[:], h.Key) + 1
		if b = append(b, byte(n)); n == 0 {
			b = binary.AppendUvarint(b, uint64(len(h.Key)))
			b = append(b, h.Key...)
		}
		b = appendBytes(b, h.Value)
	}
	return b
}

// appendBytes appends a text that may be nil, which is not the same as empty.
func appendBytes(b, text []byte) []byte {
	if text == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(text))+1), text...)
}

var errPacked = errors.New("what was packed can't be unpacked")

// unpack returns the key, value and headers that were packed, sharing b.
func unpack(b []byte) (*kgo.Record, error) {
	u := unpacker{b: b, ok: true}
	r := &kgo.Record{Key: u.text(), Value: u.text()}
	switch n := u.number(); {
	case n > len(u.b):
		return nil, errPacked
	case n > 0:
		r.Headers = make([]kgo.RecordHeader, n)
		for i := range r.Headers {
			r.Headers[i] = kgo.RecordHeader{Key: u.name(), Value: u.text()}
		}
	}
	if !u.ok || len(u.b) > 0 {
		return nil, errPacked
	}
	return r, nil
}

type unpacker struct {
	b  []byte
	ok bool
}

func (u *unpacker) number() int {
	v, n := binary.Uvarint(u.b)
	if n <= 0 || v > uint64(len(u.b)) {
		u.b, u.ok = nil, false
		return 0
	}
	u.b = u.b[n:]
	return int(v)
}

func (u *unpacker) take(n int) []byte {
	if n > len(u.b) {
		u.b, u.ok = nil, false
		return nil
	}
	text := u.b[:n:n]
	u.b = u.b[n:]
	return text
}

func (u *unpacker) text() []byte {
	if n := u.number(); n > 0 {
		return u.take(n - 1)
	}
	return nil
}

func (u *unpacker) name() string {
	switch n := u.take(1); {
	case len(n) == 0:
		return ""
	case n[0] == 0:
		return string(u.take(u.number()))
	case int(n[0]) > len(known):
		u.ok = false
		return ""
	default:
		return known[n[0]-1]
	}
}
