package offset

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
)

// MaxMetadata is the longest metadata that a broker takes with a commit, in
// characters (offset.metadata.max.bytes). A longer one is refused, and a much
// longer one costs the connection.
const MaxMetadata = 4096

// The metadata is base64 of: a version byte, the topic id, the base offset, the
// highest epoch among the finished records, the runs, a checksum. Numbers are
// unsigned varints. In form 1 the runs are pairs of how many offsets to skip
// and how many are finished; in form 2 they are a bitmap from the base on.
const (
	formRuns   = 1
	formBitmap = 2
	prefix     = "ax"
)

// raw is how many bytes fit, once the checksum is taken off.
var raw = base64.RawStdEncoding.DecodedLen(MaxMetadata-len(prefix)) - crc32.Size

// Metadata returns what a commit of w should carry: which offsets above the
// committed one are finished, so that whoever reads the partition next skips
// them. earlier is what the commit said with which this assignment began: it
// stands for what was not read since. The text is empty where nothing is
// finished above the commit. Where not all fits, the highest offsets are left
// out and will be worked again.
func (w *Window) Metadata(topicID [16]byte, earlier Finished) string {
	runs, epoch := w.runs()
	for _, r := range earlier.runs {
		if r.to > w.next {
			runs = append(runs, run{max(r.from, w.next), r.to})
			epoch = max(epoch, earlier.epoch)
		}
	}
	if len(runs) == 0 {
		return ""
	}
	head := make([]byte, 0, 64)
	head = append(head, formRuns)
	head = append(head, topicID[:]...)
	head = binary.AppendUvarint(head, uint64(w.commit))
	head = binary.AppendUvarint(head, uint64(max(epoch, 0)))

	b := slices.Clone(head)
	at := w.commit
	whole := true
	for _, r := range runs {
		next := binary.AppendUvarint(b, uint64(r.from-at))
		next = binary.AppendUvarint(next, uint64(r.to-r.from))
		if len(next) > raw {
			whole = false
			break
		}
		b, at = next, r.to
	}
	if last := runs[len(runs)-1].to; !whole && int(last-w.commit) <= 8*(raw-len(head)) {
		head[0] = formBitmap
		b = append(head, make([]byte, (last-w.commit+7)/8)...)
		bits := b[len(head):]
		for _, r := range runs {
			for o := r.from - w.commit; o < r.to-w.commit; o++ {
				bits[o/8] |= 1 << (o % 8)
			}
		}
	}
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return prefix + base64.RawStdEncoding.EncodeToString(b)
}

type run struct{ from, to int64 } // to is one past the last

// runs returns the finished offsets above the committed one, and the highest
// epoch among them. Finished neighbours make one run also where the log has a
// gap between them: nothing is in it.
func (w *Window) runs() (runs []run, epoch int32) {
	epoch = -1
	open := false
	for i := range w.n {
		e := &w.ring[(w.head+i)&(len(w.ring)-1)]
		if !e.done {
			open = false
			continue
		}
		epoch = max(epoch, e.epoch)
		if open {
			runs[len(runs)-1].to = e.offset + 1
		} else {
			runs = append(runs, run{e.offset, e.offset + 1})
			open = true
		}
	}
	return runs, epoch
}

// Finished is the set of finished offsets that a commit's metadata names.
type Finished struct {
	epoch int32
	runs  []run
}

// ErrForeign: the metadata is not ours, damaged, or of another topic of the
// same name. It is to be ignored.
var ErrForeign = errors.New("foreign commit metadata")

// ParseMetadata returns what metadata says of a partition whose committed
// offset is at. Metadata of any other origin gives [ErrForeign]; empty metadata
// is an empty set.
func ParseMetadata(metadata string, topicID [16]byte, at int64) (Finished, error) {
	if metadata == "" {
		return Finished{}, nil
	}
	if len(metadata) > MaxMetadata || len(metadata) < len(prefix) || metadata[:len(prefix)] != prefix {
		return Finished{}, ErrForeign
	}
	b, err := base64.RawStdEncoding.DecodeString(metadata[len(prefix):])
	if err != nil || len(b) < 1+16+2+crc32.Size {
		return Finished{}, ErrForeign
	}
	b, sum := b[:len(b)-crc32.Size], binary.BigEndian.Uint32(b[len(b)-crc32.Size:])
	if crc32.ChecksumIEEE(b) != sum || [16]byte(b[1:17]) != topicID {
		return Finished{}, ErrForeign
	}
	form, b := b[0], b[17:]
	number := func() int64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<62 {
			b, err = nil, ErrForeign
			return 0
		}
		b = b[n:]
		return int64(v)
	}
	base, epoch := number(), number()
	if err != nil || base != at || epoch > 1<<31-1 {
		return Finished{}, ErrForeign
	}
	f := Finished{epoch: int32(epoch)}
	switch form {
	case formRuns:
		for o := base; len(b) > 0; {
			skip, n := number(), number()
			if err != nil || n == 0 || skip > 1<<62-o || n > 1<<62-o-skip {
				return Finished{}, ErrForeign
			}
			f.runs = append(f.runs, run{o + skip, o + skip + n})
			o += skip + n
		}
	case formBitmap:
		for i, bits := range b {
			for j := range 8 {
				if bits&(1<<j) == 0 {
					continue
				}
				o := base + int64(8*i+j)
				if n := len(f.runs); n > 0 && f.runs[n-1].to == o {
					f.runs[n-1].to++
				} else {
					f.runs = append(f.runs, run{o, o + 1})
				}
			}
		}
	default:
		return Finished{}, ErrForeign
	}
	return f, nil
}

// Has reports whether the record at the offset is finished. A record with a
// newer epoch is another one under an offset that was used before.
func (f *Finished) Has(offset int64, epoch int32) bool {
	if len(f.runs) == 0 || epoch > f.epoch {
		return false
	}
	_, found := slices.BinarySearchFunc(f.runs, offset, func(r run, o int64) int {
		switch {
		case o < r.from:
			return 1
		case o >= r.to:
			return -1
		}
		return 0
	})
	return found
}

// Beyond reports whether the set holds nothing from the offset on.
func (f *Finished) Beyond(offset int64) bool {
	return len(f.runs) == 0 || offset >= f.runs[len(f.runs)-1].to
}
