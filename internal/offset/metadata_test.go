package offset

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var topic = [16]byte{1, 2, 3}

// What the metadata names as finished is finished, and where all of it fits,
// the reverse holds too.
func TestMetadataNamesWhatIsFinished(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var w Window
		n := rapid.SampledFrom([]int{1, 10, 500, 5000, 30_000}).Draw(t, "n")
		share := rapid.SampledFrom([]int{0, 1, 50, 99, 100}).Draw(t, "share")
		base := rapid.Int64Range(0, 1<<40).Draw(t, "base")
		seed := rapid.Uint32().Draw(t, "seed")
		done := map[int64]bool{}
		next := base
		var offsets []int64
		for range n {
			seed = seed*1664525 + 1013904223
			if seed>>28 == 0 {
				next += int64(seed>>20) % 5
			}
			require.True(t, w.Add(next, 3))
			offsets = append(offsets, next)
			next++
		}
		for i, o := range offsets {
			seed = seed*1664525 + 1013904223
			if i > 0 && int(seed>>16)%100 < share { // the first stays open
				w.Done(o)
				done[o] = true
			}
		}
		text := (&Metadata{}).Encode(&w, topic)
		require.LessOrEqual(t, len(text), MaxMetadata)
		at, _, _ := w.Commit()
		m, err := Parse(text, topic, at)
		require.NoError(t, err)
		f := m.Finished
		missing := 0
		for _, o := range offsets {
			if f.Has(o, 3) {
				require.True(t, done[o], "offset %d is not finished", o)
			} else if done[o] {
				missing++
			}
			require.False(t, f.Has(o, 4), "a newer record under offset %d", o)
		}
		if n <= 20_000 || share >= 99 || share <= 1 {
			require.Zero(t, missing)
		}
	})
}

// An owner that commits before it has read all that an earlier one had finished
// must hand that on.
func TestMetadataHandsOnWhatWasNotReadYet(t *testing.T) {
	t.Parallel()
	var first Window
	for i := range int64(1000) {
		first.Add(i, 2)
		if i >= 500 {
			first.Done(i)
		}
	}
	m, err := Parse((&Metadata{}).Encode(&first, topic), topic, 0)
	require.NoError(t, err)
	var second Window
	for i := range int64(600) {
		second.Add(i, 2)
		if i < 10 || m.Finished.Has(i, 2) {
			second.Done(i)
		}
	}
	at, _, _ := second.Commit()
	require.Equal(t, int64(10), at)
	m, err = Parse(m.Encode(&second, topic), topic, at)
	require.NoError(t, err)
	for i := range int64(1000) {
		require.Equal(t, i >= 500, m.Finished.Has(i, 2), "offset %d", i)
	}
}

// When all three sections want more than there is, each keeps its own room.
func TestNoSectionOfTheMetadataPushesOutAnother(t *testing.T) {
	t.Parallel()
	var w Window
	for i := range int64(60_000) {
		w.Add(i, 2)
		if i%2 == 1 || i > 40_000 {
			w.Done(i)
		}
	}
	now := time.Date(2026, 5, 1, 12, 0, 0, 123_456, time.UTC)
	const most = 1 << 40 * time.Millisecond
	m := Metadata{Notes: map[int64]Note{}, Life: Life{
		Open: true, TakeOvers: 1 << 30, Low: 1 << 61, Until: 1 << 61,
		Mark:    Mark{State: MarkRun, Offset: 1 << 61, Count: 1 << 30, At: now, Age: most, Ran: most, Youngest: most, Probed: most, Longest: most},
		Cleared: 1 << 30,
		Crashed: 1 << 30, CrashedSince: now,
	}}
	for i := range int64(2000) {
		m.Notes[2*i] = Note{Attempt: 1 << 19, Deferrals: 1 << 19, Since: now, Due: now.Add(400 * 24 * time.Hour)}
	}
	text := m.Encode(&w, topic)
	require.LessOrEqual(t, len(text), MaxMetadata)
	back, err := Parse(text, topic, 0)
	require.NoError(t, err)
	m.Life.Mark.At, m.Life.CrashedSince = now.Truncate(time.Millisecond), now.Truncate(time.Millisecond)
	require.Equal(t, m.Life, back.Life)
	require.Greater(t, len(back.Notes), 30)
	require.Contains(t, back.Notes, int64(0))
	require.True(t, back.Finished.Has(10_001, 2))
	require.False(t, back.Finished.Has(10_000, 2))
}

func TestNotesComeBackAndNeverEarlier(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var w Window
		w.Add(100, 0)
		m := Metadata{Notes: map[int64]Note{}}
		base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			n := Note{Attempt: rapid.IntRange(1, 100).Draw(t, "attempt"), Deferrals: rapid.IntRange(0, 100).Draw(t, "deferrals")}
			n.Since = base.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "since")))
			n.Due = n.Since.Add(time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "wait")))
			m.Notes[rapid.Int64Range(100, 1<<40).Draw(t, "offset")] = n
		}
		back, err := Parse(m.Encode(&w, topic), topic, 100)
		require.NoError(t, err)
		require.Len(t, back.Notes, len(m.Notes))
		for o, n := range m.Notes {
			b := back.Notes[o]
			require.Equal(t, n.Attempt, b.Attempt)
			require.Equal(t, n.Deferrals, b.Deferrals)
			require.False(t, b.Due.Before(n.Due))
			require.Less(t, b.Due.Sub(n.Due), 2*time.Millisecond)
		}
	})
}

func TestForeignMetadataIsRefused(t *testing.T) {
	t.Parallel()
	var w Window
	for i := range int64(100) {
		w.Add(i, 1)
		if i%3 == 1 {
			w.Done(i)
		}
	}
	good := (&Metadata{}).Encode(&w, topic)
	m, err := Parse(good, topic, 0)
	require.NoError(t, err)
	require.True(t, m.Finished.Has(1, 1))
	damaged := []byte(good)
	damaged[40] ^= 1
	for name, text := range map[string]string{
		"a member id":    "ax-worker-1f0c6e0e-5d25-4a2b-9c59-8a3ad2c8a1e7",
		"not base64":     "ax!!!!",
		"too short":      "axAA",
		"damaged":        string(damaged),
		"cut":            good[:len(good)-3],
		"longer than ok": "ax" + strings.Repeat("A", MaxMetadata),
		"other prefix":   "bx" + good[2:],
	} {
		_, err := Parse(text, topic, 0)
		require.ErrorIs(t, err, ErrForeign, name)
	}
	_, err = Parse(good, [16]byte{9}, 0)
	require.ErrorIs(t, err, ErrForeign, "another topic")
	_, err = Parse(good, topic, 1)
	require.ErrorIs(t, err, ErrForeign, "another commit")
	m, err = Parse("", topic, 0)
	require.NoError(t, err)
	require.False(t, m.Finished.Has(0, 0))
}

// A later version may say more; what it says of the rest still counts.
func TestAnUnknownSectionIsSkipped(t *testing.T) {
	t.Parallel()
	var w Window
	w.Add(0, 1)
	w.Add(1, 1)
	w.Done(1)
	text := (&Metadata{}).Encode(&w, topic)
	b, err := base64.RawStdEncoding.DecodeString(text[2:])
	require.NoError(t, err)
	b = appendSection(b[:len(b)-4], 99, []byte("whatever"))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	m, err := Parse("ax"+base64.RawStdEncoding.EncodeToString(b), topic, 0)
	require.NoError(t, err)
	require.True(t, m.Finished.Has(1, 1))
}

func FuzzParse(f *testing.F) {
	var w Window
	for i := range int64(5000) {
		w.Add(i, 1)
		if i%2 == 1 {
			w.Done(i)
		}
	}
	m := Metadata{Notes: map[int64]Note{2: {Attempt: 2}}, Life: Life{Open: true, TakeOvers: 2}}
	good, _ := base64.RawStdEncoding.DecodeString(m.Encode(&w, topic)[2:])
	f.Add(good[:len(good)-4], int64(0))
	f.Add([]byte{}, int64(7))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		if len(b) > 17 {
			copy(b[1:], topic[:])
		}
		b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
		m, err := Parse("ax"+base64.RawStdEncoding.EncodeToString(b), topic, at)
		if err != nil {
			require.ErrorIs(t, err, ErrForeign)
			return
		}
		m.Finished.Has(at, 0)
		var w Window
		w.Add(at, 0)
		require.LessOrEqual(t, len(m.Encode(&w, topic)), MaxMetadata)
	})
}

// A topic that is deleted and made anew has the same name, and offsets that
// were another's.
func TestEveryCommitNamesItsTopic(t *testing.T) {
	t.Parallel()
	var w Window
	for i := range int64(100) {
		w.Add(i, 1)
		w.Done(i)
	}
	text := (&Metadata{}).Encode(&w, topic)
	require.NotEmpty(t, text)
	m, err := Parse(text, topic, 100)
	require.NoError(t, err)
	require.Equal(t, Metadata{}, m)
	_, err = Parse(text, [16]byte{9}, 100)
	require.ErrorIs(t, err, ErrForeign)
}
