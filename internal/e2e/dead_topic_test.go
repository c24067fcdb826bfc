//go:build kafka

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
)

// For a minute the dead topic can't be written: the one broker that has it is
// killed. What dies meanwhile stays unfinished and is not run again, everything
// else flows, health says so, and once the broker is back each death is in the
// topic.
//
// It runs alone: it does harm to a broker.
func TestADeadTopicThatIsAwayForAMinuteLosesNothingAndHoldsUpNobody(t *testing.T) {
	const victim = 3
	r := newDomain(t, nil)
	adm := admin(t)
	healLater(t, adm)
	alterTopic(t, adm, r.Dead(), "min.insync.replicas", "1")
	onlyOn(t, adm, victim, r.Dead())
	var j journal
	mux := consumer.NewMux()
	mux.HandleFunc("job", j.handle)
	mux.HandleFunc("bad", func(ctx context.Context, task *ax.Task) error {
		if err := j.handle(ctx, task); err != nil {
			return err
		}
		return ax.Permanent(context.Canceled)
	})
	w, err := consumer.New(r.Domain(), mux)
	require.NoError(t, err)
	work(t, w.Run)
	c := client(t, r.Domain())
	ran := func(kind string) (n int) {
		for _, s := range j.list() {
			if strings.HasPrefix(s.ID, kind) {
				n++
			}
		}
		return n
	}
	const each = 200
	submit(t, c, jobs("warm", 10)...)
	eventually(t, time.Minute, func() (bool, string) { return ran("warm") == 10, "the worker does not work" })
	order(t, "kill %d", victim)
	killed := time.Now()
	bad := jobs("bad", each)
	for i := range bad {
		bad[i].Kind = "bad"
	}
	submit(t, c, append(bad, jobs("job", each)...)...)
	eventually(t, time.Minute, func() (bool, string) { return ran("job") >= each && ran("bad") >= each, "the others don't flow" })
	eventually(t, time.Minute, func() (bool, string) {
		err := w.Healthy()
		return err != nil && strings.Contains(err.Error(), "topic "+r.Dead()), "no alarm"
	})
	require.ErrorIs(t, w.Healthy(), ax.ErrStalled)
	alarm := time.Since(killed)
	submit(t, c, jobs("more", each)...)
	eventually(t, time.Minute, func() (bool, string) { return ran("more") >= each, "the others don't flow beside it" })
	eventually(t, 2*time.Minute, func() (bool, string) { return time.Since(killed) > time.Minute, "a minute" })
	startAll(t, victim)
	eventually(t, 90*time.Second, func() (bool, string) { return w.Healthy() == nil, fmt.Sprintf("it does not recover: %v", w.Healthy()) })
	t.Logf("an alarm after %s, well again %s after the broker was killed", alarm.Round(time.Second), time.Since(killed).Round(time.Second))

	seen := map[string]int{}
	reader := bare(t, kgo.ConsumeTopics(r.Dead()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	eventually(t, time.Minute, func() (bool, string) {
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reader.PollFetches(within).EachRecord(func(rec *kgo.Record) {
			for _, h := range rec.Headers {
				if h.Key == ax.HeaderID {
					seen[string(h.Value)]++
				}
			}
		})
		return len(seen) == each, "not all deaths are there"
	})
	for id, n := range seen {
		// One more where the worker lost its partition with the broker.
		require.LessOrEqual(t, n, 2, id)
	}
	require.Less(t, ran("bad"), 2*each)
}

// onlyOn moves all replicas of a topic to one broker.
func onlyOn(t *testing.T, adm *kadm.Client, broker int32, topic string) {
	t.Helper()
	details, err := adm.ListTopics(t.Context(), topic)
	require.NoError(t, err)
	var moves kadm.AlterPartitionAssignmentsReq
	for p := range details[topic].Partitions {
		moves.Assign(topic, p, []int32{broker})
	}
	got, err := adm.AlterPartitionAssignments(t.Context(), moves)
	require.NoError(t, err)
	require.NoError(t, got.Error())
	eventually(t, time.Minute, func() (bool, string) {
		details, err := adm.ListTopics(t.Context(), topic)
		if err != nil {
			return false, err.Error()
		}
		for _, p := range details[topic].Partitions {
			if len(p.Replicas) != 1 || p.Leader != broker {
				return false, "its replicas are still elsewhere"
			}
		}
		return true, ""
	})
}
