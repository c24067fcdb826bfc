// Package uid makes UUIDs of version 7 (RFC 9562): unique, and sorted by the
// time of their making. It is our own dozen lines because a service that
// imports the producer links nothing beyond the Kafka client and the
// OpenTelemetry API.
package uid

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// New returns a new UUID in its usual text form. Safe for concurrent use. Its
// random part comes from the runtime's ChaCha8, which is seeded by the system
// and costs no system call: an id has to be unique, it is no secret.
func New(now time.Time) string {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[8:], rand.Uint64())
	binary.NativeEndian.PutUint16(b[6:], uint16(rand.Uint32()))
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	var s [36]byte
	hex.Encode(s[0:8], b[0:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:36], b[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}
