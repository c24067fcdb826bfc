package offset

import (
	"encoding/base64"
	"strings"
	"testing"

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
		var tickets []Ticket
		var offsets []int64
		for range n {
			seed = seed*1664525 + 1013904223
			if seed>>28 == 0 {
				next += int64(seed>>20) % 5
			}
			ticket, ok := w.Add(next, 3)
			require.True(t, ok)
			tickets, offsets = append(tickets, ticket), append(offsets, next)
			next++
		}
		for i, ticket := range tickets {
			seed = seed*1664525 + 1013904223
			if i > 0 && int(seed>>16)%100 < share { // the first stays open
				w.Done(ticket)
				done[offsets[i]] = true
			}
		}
		text := w.Metadata(topic, Finished{})
		require.LessOrEqual(t, len(text), MaxMetadata)
		at, _, _ := w.Commit()
		f, err := ParseMetadata(text, topic, at)
		require.NoError(t, err)
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
		ticket, _ := first.Add(i, 2)
		if i >= 500 {
			first.Done(ticket)
		}
	}
	f, err := ParseMetadata(first.Metadata(topic, Finished{}), topic, 0)
	require.NoError(t, err)
	var second Window
	for i := range int64(600) {
		ticket, _ := second.Add(i, 2)
		if i < 10 || f.Has(i, 2) {
			second.Done(ticket)
		}
	}
	at, _, _ := second.Commit()
	require.Equal(t, int64(10), at)
	f, err = ParseMetadata(second.Metadata(topic, f), topic, at)
	require.NoError(t, err)
	for i := range int64(1000) {
		require.Equal(t, i >= 500, f.Has(i, 2), "offset %d", i)
	}
}

func TestForeignMetadataIsRefused(t *testing.T) {
	t.Parallel()
	var w Window
	for i := range int64(100) {
		ticket, _ := w.Add(i, 1)
		if i%3 == 1 {
			w.Done(ticket)
		}
	}
	good := w.Metadata(topic, Finished{})
	f, err := ParseMetadata(good, topic, 0)
	require.NoError(t, err)
	require.True(t, f.Has(1, 1))
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
		_, err := ParseMetadata(text, topic, 0)
		require.ErrorIs(t, err, ErrForeign, name)
	}
	_, err = ParseMetadata(good, [16]byte{9}, 0)
	require.ErrorIs(t, err, ErrForeign, "another topic")
	_, err = ParseMetadata(good, topic, 1)
	require.ErrorIs(t, err, ErrForeign, "another commit")
	f, err = ParseMetadata("", topic, 0)
	require.NoError(t, err)
	require.False(t, f.Has(0, 0))
}

func FuzzParseMetadata(f *testing.F) {
	var w Window
	for i := range int64(5000) {
		ticket, _ := w.Add(i, 1)
		if i%2 == 1 {
			w.Done(ticket)
		}
	}
	good, _ := base64.RawStdEncoding.DecodeString(w.Metadata(topic, Finished{})[2:])
	f.Add(good, int64(0))
	f.Add([]byte{}, int64(7))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		set, err := ParseMetadata("ax"+base64.RawStdEncoding.EncodeToString(b), topic, at)
		if err != nil {
			require.ErrorIs(t, err, ErrForeign)
			return
		}
		set.Has(at, 0)
	})
}
