package publish_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/publish"
)

func TestAnAlarmIsRaisedToldAndCleared(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		err  *kerr.Error
		says string
	}{
		"refused": {kerr.TopicAuthorizationFailed, "TOPIC_AUTHORIZATION_FAILED"},
		"silent":  {kerr.NotEnoughReplicas, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				o := own(t, c, publish.Config{AlarmAfter: 20 * time.Second, RebuildAfter: time.Hour, MaxRecords: 5})
				bad := fault(c, topic, f.err)
				began := time.Now()
				o.publish(topic, "a", 30)
				o.publish(other, "b", 30)
				time.Sleep(19 * time.Second)
				o.publish(topic, "young", 1)
				require.Empty(t, o.Stalled())
				require.Empty(t, o.log.with("have no answer"))
				time.Sleep(5 * time.Second)
				list := o.Stalled()
				require.Len(t, list, 1)
				require.Equal(t, topic, list[0].Topic)
				require.Equal(t, 31, list[0].Open, "with what waits for room")
				require.Equal(t, began, list[0].Since)
				if f.says == "" {
					require.NoError(t, list[0].Err)
				} else {
					require.ErrorContains(t, list[0].Err, f.says)
				}
				alarms := o.log.with("have no answer")
				require.Len(t, alarms, 1)
				for _, part := range []string{"level=ERROR", "topic=" + topic, "open=31", "oldest=2", f.says} {
					require.Contains(t, alarms[0], part)
				}
				time.Sleep(2 * time.Minute)
				require.Len(t, o.log.with("have no answer"), 3, "one a minute")

				bad.Remove()
				time.Sleep(10 * time.Second)
				require.Empty(t, o.Stalled())
				require.Len(t, o.log.with("answered again"), 1)
				time.Sleep(time.Hour)
				require.Len(t, o.log.with("have no answer"), 3)
				require.Len(t, o.log.with("answered again"), 1)
				o.requireAnswered(61)

				fault(c, topic, kerr.NotEnoughReplicas)
				o.publish(topic, "c", 1)
				time.Sleep(30 * time.Second)
				require.Len(t, o.Stalled(), 1)
				require.NoError(t, o.Stalled()[0].Err, "what failed before is over")
			})
		})
	}
}

// Many records that each take a moment are no alarm.
func TestABusyTopicIsNoAlarm(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{AlarmAfter: 5 * time.Second, MaxRecords: 10})
		for range 600 {
			o.publish(topic, time.Now().String(), 10)
			time.Sleep(100 * time.Millisecond)
			require.Empty(t, o.Stalled())
		}
		require.Empty(t, o.log.with("have no answer"))
		o.requireAnswered(6000)
	})
}
