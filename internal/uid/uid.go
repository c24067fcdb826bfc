// Package uid makes UUIDs of version 7 (RFC 9562): unique, and sorted by the
// time of their making. It is our own dozen lines because a service that
// imports the producer links nothing beyond the Kafka client and the
// OpenTelemetry API.
package uid

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"time"
)

// Size is the length of an id.
const Size = 36

// New returns a new UUID in its usual text form. Safe for concurrent use. Its
// random part comes from the runtime's ChaCha8, which is seeded by the system
// and costs no system call: an id has to be unique, it is no secret.
func New(now time.Time) string {
	id := text(now)
	return string(id[:])
}

// Many returns n new UUIDs of [Size] bytes each, one after the other in a
// single string.
func Many(now time.Time, n int) string {
	var b strings.Builder
	b.Grow(n * Size)
	for range n {
		id := text(now)
		b.Write(id[:])
	}
	return b.String()
}

func text(now time.Time) (s [Size]byte) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16|rand.Uint64()&0x0fff|0x7000)
	binary.BigEndian.PutUint64(b[8:], rand.Uint64()&(1<<62-1)|1<<63)
	hex.Encode(s[0:8], b[0:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:36], b[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return s
}
