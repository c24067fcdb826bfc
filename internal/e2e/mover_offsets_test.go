//go:build kafka

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
)

// An operator deletes the offsets of the movers' groups while no mover runs: the
// whole group of the far tiers, and the offsets of the near tier's. The next
// mover reads all that is in the tiers' logs once more. So the near tier gets at
// most one record for each that was in a far tier, and the lane one for each
// that was in the far tiers or in near, and nothing is lost. What it commits
// then is in force: another stop and start makes no copies.
func TestOffsetsThatAreDeletedMakeOneCopyOfTheTiersAndLoseNothing(t *testing.T) {
	t.Parallel()
	const moved, waiting = 200, 150
	f := newDelayed(t, nil)
	near, lane := f.r.Near(), f.r.Lane("main")
	var far []string
	for _, tier := range f.r.Tiers() {
		far = append(far, tier.Topic)
	}
	worker, mover := f.start("worker"), f.start("mover")
	f.submit(slices.Repeat([]time.Duration{2 * time.Second}, moved)...)
	f.await(time.Minute)
	require.Len(t, f.told.list(), moved, "none was copied until here")
	f.submit(slices.Repeat([]time.Duration{10 * time.Second}, waiting)...)
	f.receipts()
	f.awaitMoved(f.r.NearGroup(), near)
	mover.stop()

	farLog, nearLog, laneLog := f.length(far...), f.length(near), f.length(lane)
	_, err := f.adm.DeleteGroup(t.Context(), f.r.FarGroup())
	require.NoError(t, err)
	gone, err := f.adm.DeleteOffsets(t.Context(), f.r.NearGroup(), kadm.TopicsSet{near: {0: {}, 1: {}, 2: {}}})
	require.NoError(t, err)
	require.NoError(t, gone.Error())
	for _, group := range []string{f.r.FarGroup(), f.r.NearGroup()} {
		require.Empty(t, f.commits(group), "the offsets of %s are still there", group)
	}

	mover = f.start("mover")
	f.await(time.Minute)
	f.awaitMoved(f.r.FarGroup(), far...)
	f.awaitMoved(f.r.NearGroup(), near)
	mover.stop()
	nearBound, laneBound := nearLog+farLog, laneLog+nearLog+farLog
	t.Logf("in the far tiers %d records; near had %d and has %d, at most %d; the lane had %d and has %d, at most %d",
		farLog, nearLog, f.length(near), nearBound, laneLog, f.length(lane), laneBound)
	require.LessOrEqual(t, f.length(near), nearBound)
	require.LessOrEqual(t, f.length(lane), laneBound)

	farLog, nearLog, laneLog = f.length(far...), f.length(near), f.length(lane)
	mover = f.start("mover")
	f.submit(2 * time.Second)
	f.await(time.Minute)
	f.awaitMoved(f.r.FarGroup(), far...)
	f.awaitMoved(f.r.NearGroup(), near)
	mover.stop()
	require.Equal(t, []int{farLog + 1, nearLog + 1, laneLog + 1}, []int{f.length(far...), f.length(near), f.length(lane)},
		"after the offsets are back, a restart makes no copies")
	eventually(t, time.Minute, func() (bool, string) {
		return len(f.told.list()) == f.length(lane), "the worker has to run what is in the lane"
	})
	worker.stop()
	f.worst(promise.since)
}

// length returns how many records the topics have taken.
func (f *delayed) length(topics ...string) (n int) {
	f.t.Helper()
	ends, err := f.adm.ListEndOffsets(f.t.Context(), topics...)
	require.NoError(f.t, err)
	require.NoError(f.t, ends.Error())
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	return n
}

// commits returns the group's offsets, as far as it has some.
func (f *delayed) commits(group string) map[string]map[int32]int64 {
	f.t.Helper()
	all := map[string]map[int32]int64{}
	got, err := f.adm.FetchOffsets(f.t.Context(), group)
	require.NoError(f.t, err)
	got.Each(func(o kadm.OffsetResponse) {
		if all[o.Topic] == nil {
			all[o.Topic] = map[int32]int64{}
		}
		all[o.Topic][o.Partition] = o.At
	})
	return all
}

// awaitMoved waits until the group has committed all of the topics.
func (f *delayed) awaitMoved(group string, topics ...string) {
	f.t.Helper()
	eventually(f.t, time.Minute, func() (bool, string) {
		ends, err := f.adm.ListEndOffsets(f.t.Context(), topics...)
		require.NoError(f.t, err)
		commits := f.commits(group)
		why := ""
		ends.Each(func(o kadm.ListedOffset) {
			if at := commits[o.Topic][o.Partition]; at != o.Offset {
				why = fmt.Sprintf("%s has committed %d of %d of %s/%d", group, at, o.Offset, o.Topic, o.Partition)
			}
		})
		return why == "", why
	})
}
