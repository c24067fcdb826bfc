package offset

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
	"time"
)

// MaxMetadata is the longest metadata that a broker takes with a commit, in
// characters (offset.metadata.max.bytes). A longer one is refused, and a much
// longer one costs the connection.
const MaxMetadata = 4096

// The metadata is "ax" and the base64 of: a version byte, the topic id, the
// base offset, sections, a checksum. A section is a tag, the length of its body
// and the body; one of an unknown tag is skipped. Numbers are unsigned varints.
// The base is the offset that is committed with it.
const (
	prefix  = "ax"
	version = 3

	tagRuns   = 1
	tagBitmap = 2
	tagNotes  = 3
	tagLife   = 4
)

// Each section has a budget of its own, so that none can push out another.
const (
	lifeRoom     = 176
	noteRoom     = 720
	headRoom     = 1 + 16 + binary.MaxVarintLen64 + 3*(1+2)
	finishedRoom = rawRoom - crc32.Size - headRoom - lifeRoom - noteRoom
	rawRoom      = (MaxMetadata - len(prefix)) * 3 / 4
)

// Metadata is what a commit says of a partition beside the offset.
type Metadata struct {
	// Finished are the offsets above the committed one that are finished.
	Finished Finished
	// Notes are what is known of unfinished records that wait in place, by
	// their offset.
	Notes map[int64]Note
	// Life is whether an owner is at work.
	Life Life
}

// Note is what is known of an unfinished record beside what it holds itself.
type Note struct {
	Epoch     int32     // of the record: one of another epoch is another record
	Attempt   int       // which the next start is
	Deferrals int       // waits that cost no attempt
	Due       time.Time // before which it must not start again
	Since     time.Time // when it first had to wait
}

// Life is what owners leave behind for the next: a task that kills its process
// leaves nothing else.
type Life struct {
	// Open says that an owner is at work, or has died at it.
	Open bool
	// TakeOvers is how often in a row the partition was taken over from an
	// owner that died, while Low was the lowest unfinished offset.
	TakeOvers int
	Low       int64
	// Until is the end of the suspects, one of which may have killed the
	// owners; 0 when nothing is suspected.
	Until int64
	// Mark is the suspect that was at work, or that is being cleared.
	Mark Mark
	// Cleared counts the suspects without which the owner died as well, since
	// something was suspected.
	Cleared int
	// Crashed counts the tasks that ended as crashed since CrashedSince.
	Crashed      int
	CrashedSince time.Time
}

// Mark is one suspect.
type Mark struct {
	State  MarkState
	Offset int64
	Epoch  int32         // of the record
	At     time.Time     // since when it is in this state
	Age    time.Duration // of the owner's process then

	Count    int           // how often an owner died while it ran
	Ran      time.Duration // for how long in all it had run then
	Youngest time.Duration // the least age of such an owner's process
	Probed   time.Duration // for how long in all owners have lived without it
	Longest  time.Duration // the longest of these times
}

// MarkState is what becomes of the marked suspect.
type MarkState uint8

const (
	MarkNone  MarkState = iota
	MarkRun             // it is running
	MarkProbe           // it is kept from running, to see whether its owner lives without it
)

// Encode returns the text of a commit of w: m, and what is finished in w; m's
// own Finished stands for what was not read since. The topic is named even
// where there is nothing else to say: a commit that outlives its topic must not
// be taken for one of the next topic of that name, whose records nobody has
// read (package trim).
func (m *Metadata) Encode(w *Window, topicID [16]byte) string {
	finished := w.finished(m.Finished)
	b := make([]byte, 0, 256)
	b = append(b, version)
	b = append(b, topicID[:]...)
	b = binary.AppendUvarint(b, uint64(w.commit))
	b = finished.append(b, w.commit)
	b = m.appendNotes(b, w.commit)
	b = m.Life.append(b)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return prefix + base64.RawStdEncoding.EncodeToString(b)
}

func appendSection(b []byte, tag byte, body []byte) []byte {
	b = append(b, tag)
	b = binary.AppendUvarint(b, uint64(len(body)))
	return append(b, body...)
}

// appendNotes adds the notes. Where not all fit, those of the highest offsets
// are left out.
func (m *Metadata) appendNotes(b []byte, base int64) []byte {
	if len(m.Notes) == 0 {
		return b
	}
	var body []byte
	at := base
	for _, o := range slices.Sorted(maps.Keys(m.Notes)) {
		if o < at {
			continue
		}
		n := m.Notes[o]
		next := binary.AppendUvarint(body, uint64(o-at))
		next = binary.AppendUvarint(next, uint64(n.Epoch+1))
		next = binary.AppendUvarint(next, uint64(n.Attempt))
		next = binary.AppendUvarint(next, uint64(n.Deferrals))
		next = appendTime(next, n.Since)
		next = binary.AppendUvarint(next, uint64(max(ceilMilli(n.Due)-max(n.Since.UnixMilli(), 0), 0)))
		if len(next) > noteRoom {
			break
		}
		body, at = next, o
	}
	return appendSection(b, tagNotes, body)
}

// ceilMilli rounds up: what is read back must not be earlier.
func ceilMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Add(time.Millisecond - 1).UnixMilli()
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendUvarint(b, 0)
	}
	return binary.AppendUvarint(b, uint64(max(t.UnixMilli(), 0)))
}

func (l *Life) append(b []byte) []byte {
	if *l == (Life{}) {
		return b
	}
	open := uint64(0)
	if l.Open {
		open = 1
	}
	body := binary.AppendUvarint(nil, open)
	for _, n := range []int64{int64(l.TakeOvers), l.Low, l.Until, int64(l.Cleared), int64(l.Crashed), int64(l.Mark.State), l.Mark.Offset, int64(l.Mark.Epoch) + 1, int64(l.Mark.Count)} {
		body = binary.AppendUvarint(body, uint64(n))
	}
	for _, d := range []time.Duration{l.Mark.Age, l.Mark.Ran, l.Mark.Youngest, l.Mark.Probed, l.Mark.Longest} {
		body = binary.AppendUvarint(body, uint64(max(d.Milliseconds(), 0)))
	}
	body = appendTime(body, l.Mark.At)
	body = appendTime(body, l.CrashedSince)
	return appendSection(b, tagLife, body)
}

// ErrForeign: the metadata is not ours, damaged, or of another topic of the
// same name. It is to be ignored.
var ErrForeign = errors.New("foreign commit metadata")

// Parse returns what the metadata of a commit of offset at says. Metadata of
// any other origin gives [ErrForeign]; an empty text says nothing.
func Parse(text string, topicID [16]byte, at int64) (Metadata, error) {
	if text == "" {
		return Metadata{}, nil
	}
	if len(text) > MaxMetadata || len(text) < len(prefix) || text[:len(prefix)] != prefix {
		return Metadata{}, ErrForeign
	}
	b, err := base64.RawStdEncoding.DecodeString(text[len(prefix):])
	if err != nil || len(b) < 1+16+1+crc32.Size {
		return Metadata{}, ErrForeign
	}
	b, sum := b[:len(b)-crc32.Size], binary.BigEndian.Uint32(b[len(b)-crc32.Size:])
	if crc32.ChecksumIEEE(b) != sum || b[0] != version || [16]byte(b[1:17]) != topicID {
		return Metadata{}, ErrForeign
	}
	r := numbers{b: b[17:]}
	if base := r.number(); r.bad || base != at {
		return Metadata{}, ErrForeign
	}
	var m Metadata
	for len(r.b) > 0 && !r.bad {
		tag := r.b[0]
		r.b = r.b[1:]
		body := numbers{b: r.bytes(r.number())}
		switch tag {
		case tagRuns:
			m.Finished = parseRuns(&body, at)
		case tagBitmap:
			m.Finished = parseBitmap(&body, at)
		case tagNotes:
			m.Notes = parseNotes(&body, at)
		case tagLife:
			m.Life = parseLife(&body)
		}
		r.bad = r.bad || body.bad
	}
	if r.bad {
		return Metadata{}, ErrForeign
	}
	return m, nil
}

func parseNotes(r *numbers, base int64) map[int64]Note {
	notes := map[int64]Note{}
	for o := base; len(r.b) > 0 && !r.bad; {
		skip := r.number()
		n := Note{Epoch: r.epoch(), Attempt: r.count(), Deferrals: r.count()}
		since := r.number()
		n.Since = fromMilli(since)
		if wait := r.number(); wait > 0 && wait < 1<<42 {
			n.Due = time.UnixMilli(since + wait).UTC()
		}
		if skip > 1<<62-o {
			r.bad = true
		}
		o += skip
		if !r.bad {
			notes[o] = n
		}
	}
	return notes
}

func parseLife(r *numbers) Life {
	l := Life{Open: r.number() == 1, TakeOvers: r.count(), Low: r.number(), Until: r.number(), Cleared: r.count(), Crashed: r.count()}
	m := &l.Mark
	m.State, m.Offset, m.Epoch, m.Count = MarkState(min(r.number(), int64(MarkProbe))), r.number(), r.epoch(), r.count()
	for _, d := range []*time.Duration{&m.Age, &m.Ran, &m.Youngest, &m.Probed, &m.Longest} {
		*d = time.Duration(min(r.number(), 1<<42)) * time.Millisecond
	}
	m.At, l.CrashedSince = fromMilli(r.number()), fromMilli(r.number())
	return l
}

func fromMilli(ms int64) time.Time {
	if ms <= 0 || ms > 1<<47 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// numbers reads varints from b. Once something is wrong, it is bad for good.
type numbers struct {
	b   []byte
	bad bool
}

func (r *numbers) number() int64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > 1<<62 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return int64(v)
}

// count is a number that must be a small one.
func (r *numbers) count() int {
	n := r.number()
	if n > 1<<31-1 {
		r.bad = true
		return 0
	}
	return int(n)
}

// epoch is one up in the text, so that an unknown one is 0.
func (r *numbers) epoch() int32 { return int32(r.count()) - 1 }

func (r *numbers) bytes(n int64) []byte {
	if r.bad || n > int64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}
