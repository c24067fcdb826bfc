package consumer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/group"
)

// A job that ends its run by waiting in place, after its partition was given
// up, must leave nothing behind: no room of its lane, and not the right of a
// suspect to be alone.
func TestAJobThatWaitsInPlaceAfterItsPartitionWasGivenUpLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]group.Verdict{"any": group.Free, "one that is kept from running": group.Probe} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &lane{conf: ax.Lane{Name: "main", Weight: 1, MaxWait: time.Second}, maxKeep: 10, maxBytes: 1000, room: make(chan struct{}, 1)}
			s := newScheduler(2, []*lane{l}, nil)
			s.begin(func(*slot) {})
			p := &group.Partition{}
			now := time.Now()
			j := &job{task: &ax.Task{}, kind: &kind{}, part: s.partOf(l, p), size: 10, ready: now}
			s.push([]*job{j}, now)
			require.Same(t, j, s.next(s.slots[0]))
			if j.verdict = verdict; verdict != group.Free {
				s.alone = j
			}
			s.drop(l, []*group.Partition{p})
			s.again(j, now.Add(time.Second))
			s.drop(l, []*group.Partition{p})
			s.release(now.Add(time.Minute))
			s.stop()
			require.Nil(t, s.next(s.slots[0]))
			require.Zero(t, l.buffered)
			require.Zero(t, l.bytes)
			require.Zero(t, l.held)
			require.Empty(t, l.parts)
			require.Nil(t, s.alone)
		})
	}
}
