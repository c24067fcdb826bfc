package ax_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
)

func header(r *kgo.Record, name string) []string {
	var out []string
	for _, h := range r.Headers {
		if h.Key == name {
			out = append(out, string(h.Value))
		}
	}
	return out
}

func TestDeadRecordKeepsWhatDiedAndSaysWhy(t *testing.T) {
	t.Parallel()
	r := record("ax-kind", "k", "x", "1", "ax-attempt", "nonsense")
	r.Key = []byte("customer-7")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	dead := ax.DeadRecord(r, ax.Death{Reason: ax.ReasonFailed, Error: "no such order", At: at, Attempt: 10, TopicID: topicID})

	require.Equal(t, r.Value, dead.Value)
	require.Equal(t, r.Headers, dead.Headers[:3], "its own headers first, also malformed ones")
	require.Equal(t, []string{"failed"}, header(dead, ax.HeaderDeadReason))
	require.Equal(t, []string{"no such order"}, header(dead, ax.HeaderDeadError))
	require.Equal(t, []string{"2026-01-02T03:04:05Z"}, header(dead, ax.HeaderDeadAt))
	require.Equal(t, []string{"10"}, header(dead, ax.HeaderDeadAttempt))
	require.Equal(t, []string{"orders.lane.normal/3/42/7"}, header(dead, ax.HeaderDeadSource))
	require.Equal(t, []string{"customer-7"}, header(dead, ax.HeaderDeadKey))
	require.Len(t, r.Headers, 3, "the record that died is left alone")
}

// In a compacted topic keyed by task, the second death of an id would wipe out
// the first.
func TestDeadRecordIsKeyedByTheDeath(t *testing.T) {
	t.Parallel()
	death := ax.Death{Reason: ax.ReasonPanic, TopicID: topicID}
	first := record("ax-kind", "k", "ax-id", "same")
	second := record("ax-kind", "k", "ax-id", "same")
	second.Offset++
	require.Equal(t, "ab0000000000000000000000000000cd-3-42-7", string(ax.DeadRecord(first, death).Key))
	require.NotEqual(t, ax.DeadRecord(first, death).Key, ax.DeadRecord(second, death).Key)
	again := *first
	require.Equal(t, ax.DeadRecord(first, death).Key, ax.DeadRecord(&again, death).Key, "a repeated write is the same death")
	require.Empty(t, header(ax.DeadRecord(first, death), ax.HeaderDeadKey), "it had no key")
}

func TestDeadRecordReplacesWhatWasForged(t *testing.T) {
	t.Parallel()
	r := record("ax-kind", "k", "ax-dead-reason", "permanent", "ax-dead-reason", "x", "ax-dead-key", "victim", "ax-dead-future", "x")
	dead := ax.DeadRecord(r, ax.Death{Reason: ax.ReasonMalformed})
	require.Equal(t, []string{"malformed"}, header(dead, ax.HeaderDeadReason))
	require.Empty(t, header(dead, ax.HeaderDeadKey))
	require.Empty(t, header(dead, "ax-dead-future"))
	require.Equal(t, []string{"k"}, header(dead, ax.HeaderKind))
}

func TestDeadRecordStaysTheSameSizeOverAHundredDeaths(t *testing.T) {
	t.Parallel()
	size := func(r *kgo.Record) (n int) {
		for _, h := range r.Headers {
			n += len(h.Key) + len(h.Value)
		}
		return n + len(r.Key) + len(r.Value)
	}
	death := ax.Death{Reason: ax.ReasonFailed, Error: strings.Repeat("stack ", 10_000), At: time.Unix(1e9, 0), Attempt: 10, TopicID: topicID}
	r := record("ax-kind", "k", "ax-id", "i", "x", "1")
	r.Key = []byte("key")
	first := ax.DeadRecord(r, death)
	require.LessOrEqual(t, len(header(first, ax.HeaderDeadError)[0]), 1024)
	dead := first
	for range 100 {
		again := *dead // driven again as it lies there, but for the key
		again.Topic, again.Partition, again.Offset, again.LeaderEpoch = r.Topic, r.Partition, r.Offset, r.LeaderEpoch
		again.Key = r.Key
		_, err := ax.Decode(&again, topicID)
		require.NoError(t, err, "a task that died can be read")
		dead = ax.DeadRecord(&again, death)
	}
	require.Equal(t, size(first), size(dead))
	require.Len(t, dead.Headers, len(first.Headers))
}

func TestDeadRecordTakesAnyRecord(t *testing.T) {
	t.Parallel()
	dead := ax.DeadRecord(&kgo.Record{}, ax.Death{Error: "bad \xff text"})
	require.Empty(t, dead.Value)
	require.Equal(t, []string{"bad \uFFFD text"}, header(dead, ax.HeaderDeadError))
	require.Empty(t, header(dead, ax.HeaderDeadAttempt))
}

// In a compacted topic a record without a value deletes those of its key: a
// task without a payload would be lost where it died.
func TestTheDeathOfATaskWithoutPayloadIsNoTombstone(t *testing.T) {
	t.Parallel()
	for _, payload := range [][]byte{nil, {}} {
		dead := ax.DeadRecord(ax.Encode(&ax.Task{Kind: "k", Payload: payload}), ax.Death{Reason: ax.ReasonFailed})
		require.NotNil(t, dead.Value)
		require.Empty(t, dead.Value)
	}
}
