//go:build kafka

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
)

// A mover is killed four times, each time when half of a stream of tasks has
// been seen in the topic to which one of its hops writes: twice in the one from
// the far tier to near, twice in the one from near to the lane. So it dies
// between publishes and their commit.
//
// A copy is made of what was published and not committed, and of nothing else.
// A publish is committed one commit interval later (200 ms) plus what the commit
// itself takes, so whatever is copied was published at most that long before a
// kill, or was on its way to the broker at the kill. The number of copies is
// bounded by what was published then: the rate times that time.
//
// The wait is such that a copy which is made after a session's time (6 s) still
// goes from the far tier to near: so each hop's copies are counted by themselves.
func TestAMoverThatIsKilledCopiesOnlyWhatItHadNotCommitted(t *testing.T) {
	t.Parallel()
	const (
		wait         = 19 * time.Second // 9.5 s in the far tier and 9.5 s in near
		each, rounds = 80, 10           // each 50 ms ten tasks: 200 a second for 4 s
		wave         = each * rounds
		inFlight     = 300 * time.Millisecond
		restart      = 9 * time.Second // a process starts and joins, on a machine that does much else
	)
	f := newDelayed(t, func(d *ax.Domain) {
		d.Delay.Tiers = []time.Duration{10 * time.Second, 30 * time.Second}
		d.Delay.Rate = 1000
	})
	far, near, lane := f.r.Tiers()[0].Topic, f.r.Near(), f.r.Lane("main")
	worker, mover := f.start("worker"), f.start("mover")
	inNear, inLane := f.watch(near), f.watch(lane)
	var kills []time.Time
	kill := func() {
		mover.kill()
		kills = append(kills, time.Now())
		mover = f.start("mover")
	}
	for i := range 2 {
		tick := time.NewTicker(50 * time.Millisecond)
		for range each {
			waits := [rounds]time.Duration{}
			for i := range waits {
				waits[i] = wait
			}
			f.submit(waits[:]...)
			<-tick.C
		}
		tick.Stop()
		inNear.reach(t, i*wave+wave/2, time.Minute)
		kill()
		inLane.reach(t, i*wave+wave/2, time.Minute)
		kill()
	}
	f.await(time.Minute)
	mover.stop()
	worker.stop()
	late := f.worst(promise.since)

	inFar, nears, lanes, starts := f.seen(far), f.seen(near), f.seen(lane), f.told.starts()
	require.Len(t, inFar, 2*wave)
	// recent returns the kill shortly before which the record was written.
	recent := func(rec *kgo.Record) (time.Duration, bool) {
		for _, at := range kills {
			if age := at.Sub(rec.Timestamp); age > -inFlight && age < commitEvery+commitTrip {
				return age, true
			}
		}
		return 0, false
	}
	type hop struct {
		name            string
		copies, exposed int // made, and written so shortly before a kill
		oldest          time.Duration
	}
	farHop, nearHop := &hop{name: "far to near"}, &hop{name: "near to lane"}
	count := func(h *hop, id string, recs []*kgo.Record, want int) {
		explained := 0
		for _, rec := range recs {
			if age, ok := recent(rec); ok {
				explained++
				h.exposed++
				if len(recs) > want {
					h.oldest = max(h.oldest, age)
				}
			}
		}
		h.copies += len(recs) - want
		require.LessOrEqual(t, len(recs)-want, explained, "%s: task %s was copied though none of its records was written shortly before a kill: %s",
			h.name, id, describe(recs, kills))
	}
	for id := range f.tasks {
		require.Len(t, inFar[id], 1, "the far tier takes each task once")
		require.NotEmpty(t, nears[id], id)
		require.GreaterOrEqual(t, len(lanes[id]), len(nears[id]), id)
		require.Equal(t, len(lanes[id]), starts[id], "a worker that lives runs each record of its lane once")
		count(farHop, id, nears[id], 1)
		count(nearHop, id, lanes[id], len(nears[id]))
	}
	for _, h := range []*hop{farHop, nearHop} {
		t.Logf("%s: %d tasks, %d kills: %d copies of %d that were written so shortly before a kill; the oldest %s before it",
			h.name, len(f.tasks), len(kills), h.copies, h.exposed, h.oldest.Round(time.Millisecond))
		require.Less(t, h.exposed, 2*wave, "all was written shortly before a kill: this shows nothing")
	}
	t.Logf("at most %s late", late.Round(time.Millisecond))
	require.Less(t, late, session+restart)
}

// describe says when the records were written, before or after each kill.
func describe(recs []*kgo.Record, kills []time.Time) (text []string) {
	for _, rec := range recs {
		for i, at := range kills {
			text = append(text, fmt.Sprintf("%d@%d kill %d %+d ms", rec.Partition, rec.Offset, i+1, rec.Timestamp.Sub(at).Milliseconds()))
		}
	}
	return text
}
