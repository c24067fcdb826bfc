package ax

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// ChildID returns the id of a task that follows from another: the same one
// whenever it is asked for, of 32 characters however long a chain of such tasks
// becomes. name tells the children of one parent apart, such as
// "invoice-2026-07".
func ChildID(parent, name string) string { return hashID("name", parent, name) }

// hashID returns 128 bits of a hash over the parts, in which no two lists of
// parts are alike.
func hashID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
