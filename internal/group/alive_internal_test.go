package group

import (
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
		answer(kmsg.Heartbeat, 8*time.Second)
		require.False(t, a.fresh(time.Now()), "what was sent before the freeze says nothing of now")
		answer(kmsg.Heartbeat, time.Millisecond)
		require.False(t, a.fresh(time.Now()))
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
		a.forgotten()
		require.False(t, a.fresh(time.Now()))
	})
}
