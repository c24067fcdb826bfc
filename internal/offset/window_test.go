package offset

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is a naive set of all offsets.
type model struct {
	all  []*modelled
	next int64
	cut  bool // once
}

type modelled struct {
	offset int64
	epoch  int32
	done   bool
}

func (m *model) open() (open []*modelled) {
	for _, a := range m.all {
		if !a.done {
			open = append(open, a)
		}
	}
	return open
}

func (m *model) check(t require.TestingT, w *Window) {
	open := m.open()
	require.Equal(t, len(open), w.Len())
	offset, epoch, ok := w.Commit()
	require.Equal(t, len(m.all) > 0 || m.cut, ok)
	if !ok {
		return
	}
	want, before := m.next, int32(-1)
	if len(open) > 0 {
		want = open[0].offset
	}
	high := int32(-1)
	for _, a := range m.all {
		if a.offset < want {
			before = a.epoch
		}
		if a.done {
			high = max(high, a.epoch)
		}
	}
	require.Equal(t, want, offset)
	if !m.cut { // after a cut it may be lower than it could be
		require.Equal(t, before, epoch)
	}
	lowest, some := w.Lowest()
	require.Equal(t, len(open) > 0, some)
	require.Equal(t, want, lowest)
	require.Equal(t, m.next, w.Next())

	f := w.finished(Finished{})
	if !m.cut {
		require.Equal(t, high, f.epoch)
	}
	for _, a := range m.all {
		require.Equal(t, a.offset >= want && a.done, f.Has(a.offset, a.epoch) && a.offset >= want, "offset %d", a.offset)
		require.Equal(t, !a.done, w.Unfinished(a.offset), "offset %d", a.offset)
	}
	// What it costs follows from what is unfinished.
	require.LessOrEqual(t, len(w.blocks)-w.head, 2*len(open)+20)
}

func TestWindowAgreesWithANaiveSet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var w Window
		var m model
		m.next = rapid.Int64Range(0, 1000).Draw(t, "start")
		epoch := int32(0)
		seed := rapid.Uint32().Draw(t, "seed")
		dice := func(n int) int {
			seed = seed*1664525 + 1013904223
			return int(seed>>8) % n
		}
		gaps := rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "gaps")
		near := rapid.SampledFrom([]bool{true, false}).Draw(t, "near")
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			switch dice(7) {
			case 0, 1:
				for range dice(20) {
					if gaps > 0 && dice(gaps+2) == 0 {
						m.next += int64(dice(100))
					}
					if dice(50) == 0 {
						epoch += int32(dice(3))
					}
					require.True(t, w.Add(m.next, epoch))
					m.all = append(m.all, &modelled{m.next, epoch, false})
					m.next++
				}
			case 2, 3:
				for range dice(20) {
					open := m.open()
					if len(open) == 0 {
						break
					}
					i := dice(len(open))
					if near {
						i = min(i, 1+dice(8), len(open)-1)
					}
					open[i].done = true
					require.True(t, w.Done(open[i].offset))
				}
			case 4:
				if len(m.all) > 0 {
					a := m.all[dice(len(m.all))]
					if a.done {
						require.False(t, w.Done(a.offset), "done twice")
					}
					require.False(t, w.Add(a.offset, epoch), "added twice")
				}
			case 6:
				if dice(4) > 0 || len(m.all) == 0 {
					break
				}
				at := m.next - int64(dice(150))
				w.Cut(at)
				if at < m.next {
					m.all = slices.DeleteFunc(m.all, func(a *modelled) bool { return a.offset >= at })
					m.next, m.cut, epoch = at, true, epoch+1
				}
			case 5:
				require.False(t, w.Done(m.next+int64(dice(100))))
			}
			if dice(8) == 0 {
				m.check(t, &w)
			}
		}
		m.check(t, &w)
	})
}

func TestWhatWasNeverAddedCannotBeFinished(t *testing.T) {
	t.Parallel()
	var w Window
	require.False(t, w.Done(0))
	w.Add(5, 0)
	w.Add(9, 0)
	for _, o := range []int64{-1, 0, 4, 6, 8, 10, 100} {
		require.False(t, w.Done(o), "offset %d", o)
		require.False(t, w.Unfinished(o), "offset %d", o)
	}
	offset, _, _ := w.Commit()
	require.Equal(t, int64(5), offset)
}

// A task of five minutes with a million behind it: what passes it must cost
// nothing.
func TestOneUnfinishedOffsetCostsNothingHoweverMuchPassesIt(t *testing.T) {
	t.Parallel()
	var w Window
	for i := range int64(1_000_000) {
		require.True(t, w.Add(i, 1))
		if i > 0 {
			require.True(t, w.Done(i))
		}
		if i%1000 == 0 {
			require.LessOrEqual(t, cap(w.blocks), 256)
			require.False(t, w.Scattered())
		}
	}
	offset, _, _ := w.Commit()
	require.Equal(t, int64(0), offset)
	text := (&Metadata{}).Encode(&w, topic)
	require.Less(t, len(text), 64)
	m, err := Parse(text, topic, 0)
	require.NoError(t, err)
	require.True(t, m.Finished.Has(999_999, 1))
	require.False(t, m.Finished.Has(0, 1))
}

// Every second one unfinished, over and over: the worst for the metadata. The
// window must say so while all still fits.
func TestAWindowTellsThatItIsScatteredBeforeItsMetadataIsFull(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]int64{"every second": 2, "every third": 3, "every hundredth": 100} {
		var w Window
		next := int64(0)
		for !w.Scattered() && w.Len() < 10_000 && next < 5_000_000 {
			w.Add(next, 1)
			if next%step != 0 {
				w.Done(next)
			}
			next++
		}
		require.Less(t, next, int64(5_000_000), name)
		text := (&Metadata{}).Encode(&w, topic)
		require.LessOrEqual(t, len(text), MaxMetadata)
		m, err := Parse(text, topic, 0)
		require.NoError(t, err)
		for o := range next {
			require.Equal(t, o%step != 0, m.Finished.Has(o, 1), "%s: offset %d of %d", name, o, next)
		}
		// Once they are finished, it flows again.
		for o := int64(0); o < next; o += step {
			w.Done(o)
		}
		require.False(t, w.Scattered())
		require.Less(t, len((&Metadata{}).Encode(&w, topic)), 48)
	}
}

func BenchmarkWindow(b *testing.B) {
	var w Window
	const behind = 500
	next := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		w.Add(next, 1)
		if next >= behind {
			w.Done(next - behind + (next*7)%8 - 4) // about in order
		}
		next++
	}
}
