package dead

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// bloomBits is the size of the filter, a power of two: 8 MiB. With four bits
// set for each key it takes one new key in fifty for an old one after eight
// million of them, and that costs 16 bytes.
const (
	bloomBits   = 8 << 23
	bloomHashes = 4
)

// bloom tells keys that were perhaps there before from those that surely were
// not.
type bloom []uint64

func newBloom() bloom { return make(bloom, bloomBits/64) }

// add adds a hash and reports whether it was perhaps there.
func (b bloom) add(hash uint64) (seen bool) {
	seen = true
	at, step := hash, hash>>32|1
	for range bloomHashes {
		i := at % bloomBits
		word, bit := &b[i/64], uint64(1)<<(i%64)
		seen = seen && *word&bit != 0
		*word |= bit
		at += step
	}
	return seen
}

// mark is the last record of a key that has perhaps more than one.
type mark struct {
	hash   uint64
	offset int64
}

// marks are those of one partition.
type marks []mark

// index is made of the keys of one partition, in the order of their offsets.
type index struct {
	seed  maphash.Seed
	seen  bloom
	marks marks
}

// add takes the next record's key. A key that was not there before needs no
// mark, not even a tombstone's: if it comes again, that leaves one.
func (x *index) add(key []byte, offset int64) {
	hash := maphash.Bytes(x.seed, key)
	if !x.seen.add(hash) {
		return
	}
	if len(x.marks) == cap(x.marks) {
		// Keys that repeat often must not make it grow.
		if x.marks = x.marks.reduce(); len(x.marks) > cap(x.marks)/2 {
			x.marks = slices.Grow(x.marks, max(1024, len(x.marks)/4))
		}
	}
	x.marks = append(x.marks, mark{hash, offset})
}

// reduce leaves the last mark of each hash, sorted by hash.
func (m marks) reduce() marks {
	slices.SortFunc(m, func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(b.offset, a.offset))
	})
	return slices.CompactFunc(m, func(a, b mark) bool { return a.hash == b.hash })
}

// last reports whether the record at the offset is the last of the key with
// that hash. m must be reduced.
func (m marks) last(hash uint64, offset int64) bool {
	i, found := slices.BinarySearchFunc(m, hash, func(a mark, hash uint64) int { return cmp.Compare(a.hash, hash) })
	return !found || m[i].offset == offset
}
