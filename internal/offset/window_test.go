package offset

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The model is a naive set of all offsets.
func TestWindowAgreesWithANaiveSet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var w Window
		type added struct {
			offset int64
			epoch  int32
			ticket Ticket
			done   bool
		}
		var all []added
		next := rapid.Int64Range(0, 1000).Draw(t, "start")
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"add", "add", "done", "done", "again", "old"}).Draw(t, "do") {
			case "add":
				next += rapid.SampledFrom([]int64{0, 0, 0, 1, 7}).Draw(t, "gap")
				epoch := int32(rapid.IntRange(0, 3).Draw(t, "epoch"))
				ticket, ok := w.Add(next, epoch)
				require.True(t, ok)
				all = append(all, added{next, epoch, ticket, false})
				next++
			case "done":
				var open []int
				for i, a := range all {
					if !a.done {
						open = append(open, i)
					}
				}
				if len(open) > 0 {
					i := rapid.SampledFrom(open).Draw(t, "which")
					all[i].done = true
					w.Done(all[i].ticket)
				}
			case "again":
				for _, a := range all {
					if a.done {
						w.Done(a.ticket)
					}
				}
			case "old":
				if len(all) > 0 {
					_, ok := w.Add(all[rapid.IntRange(0, len(all)-1).Draw(t, "seen")].offset, 0)
					require.False(t, ok)
				}
			}
			unfinished, span, lowest := 0, 0, -1
			for i, a := range all {
				if !a.done {
					unfinished++
					if lowest < 0 {
						lowest = i
					}
				}
			}
			require.Equal(t, unfinished, w.Unfinished())
			if lowest >= 0 {
				span = len(all) - lowest
			}
			require.Equal(t, span, w.Span())
			offset, epoch, ok := w.Commit()
			switch {
			case len(all) == 0:
				require.False(t, ok)
			case lowest == 0:
				require.True(t, ok)
				require.Equal(t, all[0].offset, offset)
				require.Equal(t, int32(-1), epoch)
			case lowest < 0:
				last := all[len(all)-1]
				require.Equal(t, last.offset+1, offset)
				require.Equal(t, last.epoch, epoch)
			default:
				before := all[lowest-1]
				require.True(t, ok)
				// Gaps below the lowest unfinished offset may be committed or not.
				require.Equal(t, before.offset+1, offset)
				require.Equal(t, before.epoch, epoch)
				require.LessOrEqual(t, offset, all[lowest].offset)
			}
		}
	})
}

func TestATicketOfNothingDoesNothing(t *testing.T) {
	t.Parallel()
	var w Window
	w.Done(0)
	w.Done(17)
	ticket, _ := w.Add(5, 1)
	w.Done(ticket)
	w.Done(ticket)
	require.Zero(t, w.Unfinished())
	offset, epoch, ok := w.Commit()
	require.True(t, ok)
	require.Equal(t, int64(6), offset)
	require.Equal(t, int32(1), epoch)
}

func BenchmarkAddAndDone(b *testing.B) {
	var w Window
	var tickets [1024]Ticket
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		slot := i % int64(len(tickets))
		if i >= int64(len(tickets)) {
			w.Done(tickets[slot])
		}
		tickets[slot], _ = w.Add(i, 0)
	}
}
