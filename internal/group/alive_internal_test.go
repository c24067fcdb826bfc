package group

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A process was frozen for longer than its session. The answer to its first
// heartbeat says that it was forgotten, which nobody has read yet.
func TestOneAnswerAfterTooLongATimeIsNoSignOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		heard := 0
		a := alive{began: time.Now(), heard: func() { heard++ }}
		a.setSession(6 * time.Second)
		answer := func(key kmsg.Key, took time.Duration) {
			a.OnBrokerE2E(kgo.BrokerMetadata{}, key.Int16(), kgo.BrokerE2E{ReadWait: took})
		}
		time.Sleep(time.Millisecond)
		require.False(t, a.fresh(time.Now()), "nothing was answered yet")
		answer(kmsg.SyncGroup, time.Millisecond)
		require.True(t, a.fresh(time.Now()))
		for range 20 {
			time.Sleep(500 * time.Millisecond)
			answer(kmsg.Heartbeat, time.Millisecond)
			require.True(t, a.fresh(time.Now()))
		}
		time.Sleep(8 * time.Second)
		require.False(t, a.fresh(time.Now()))
		answer(kmsg.Heartbeat, 8*time.Second) // it was sent before the freeze
		require.False(t, a.fresh(time.Now()))
		heard = 0
		answer(kmsg.Heartbeat, time.Millisecond)
		require.False(t, a.fresh(time.Now()), "what was sent before the freeze was counted")
		require.Zero(t, heard)
		time.Sleep(500 * time.Millisecond)
		answer(kmsg.Heartbeat, time.Millisecond)
		require.True(t, a.fresh(time.Now()))
		require.Equal(t, 1, heard)

		// A new session is a sign of life at once.
		time.Sleep(8 * time.Second)
		require.False(t, a.fresh(time.Now()))
		answer(kmsg.SyncGroup, time.Millisecond)
		require.True(t, a.fresh(time.Now()))
		// A commit was the first to learn that the member is forgotten; the
		// heartbeat that learns it too is answered a moment later.
		a.forgotten()
		require.False(t, a.fresh(time.Now()))
		answer(kmsg.Heartbeat, time.Millisecond)
		require.False(t, a.fresh(time.Now()))
	})
}

// While the group waits for its members there are no heartbeats, and what a
// member holds is still its own; but not if it was frozen meanwhile, or begins
// to join only after it may have been forgotten.
func TestAJoinIsASignOfLifeOnlyForWhoWasNotFrozen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, frozenFor := range []time.Duration{0, 10 * time.Second} {
			a := alive{began: time.Now()}
			a.setSession(6 * time.Second)
			join := func() { a.OnBrokerWrite(kgo.BrokerMetadata{}, kmsg.JoinGroup.Int16(), 1, 0, 0, nil) }
			a.OnBrokerE2E(kgo.BrokerMetadata{}, kmsg.SyncGroup.Int16(), kgo.BrokerE2E{})
			time.Sleep(time.Second)
			join()
			for range 20 {
				time.Sleep(tickEvery)
				a.tick(time.Now())
			}
			require.True(t, a.fresh(time.Now()), "the join takes long")
			if frozenFor == 0 {
				continue
			}
			time.Sleep(frozenFor)
			require.False(t, a.fresh(time.Now()))
			a.tick(time.Now())
			require.False(t, a.fresh(time.Now()), "it was frozen during the join")
			join()
			require.False(t, a.fresh(time.Now()), "it joins as a stranger")
			a.OnBrokerE2E(kgo.BrokerMetadata{}, kmsg.SyncGroup.Int16(), kgo.BrokerE2E{})
			require.True(t, a.fresh(time.Now()))
		}
	})
}

// The connection died, or the packets vanished, while the member joined: the
// others went on without it.
func TestAJoinThatFailsOrTakesTooLongIsNoSignOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for fails, beats := range map[bool]int{true: 30, false: 120} {
			a := alive{began: time.Now()}
			a.setSession(6 * time.Second)
			a.OnBrokerE2E(kgo.BrokerMetadata{}, kmsg.SyncGroup.Int16(), kgo.BrokerE2E{})
			time.Sleep(time.Second)
			a.OnBrokerWrite(kgo.BrokerMetadata{}, kmsg.JoinGroup.Int16(), 1, 0, 0, nil)
			if fails {
				a.OnBrokerE2E(kgo.BrokerMetadata{}, kmsg.JoinGroup.Int16(), kgo.BrokerE2E{ReadErr: io.EOF})
			}
			for range beats {
				time.Sleep(tickEvery)
				a.tick(time.Now())
			}
			require.False(t, a.fresh(time.Now()))
		}
	})
}

// With KIP-848 the broker sets the interval, 5 s by default; a member must be
// known all the time, also before two beats have shown the interval.
func TestAMemberOfAConsumerGroupIsKnownBetweenItsBeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := alive{began: time.Now()}
		beat := func() {
			a.OnBrokerE2E(kgo.BrokerMetadata{}, kmsg.ConsumerGroupHeartbeat.Int16(), kgo.BrokerE2E{ReadWait: time.Millisecond})
		}
		beat()
		for i := range 40 {
			if i%10 == 5 {
				for range 12 { // in a rebalance
					time.Sleep(20 * time.Millisecond)
					beat()
				}
			}
			for range 50 {
				time.Sleep(100 * time.Millisecond)
				require.True(t, a.fresh(time.Now()), "beat %d", i)
			}
			beat()
		}
	})
}
