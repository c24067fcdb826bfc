//go:build kafka

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
)

// topicConfig returns a setting of a topic.
func topicConfig(t *testing.T, adm *kadm.Client, topic, key string) string {
	t.Helper()
	got, err := adm.DescribeTopicConfigs(t.Context(), topic)
	require.NoError(t, err)
	rc, err := got.On(topic, nil)
	require.NoError(t, err)
	require.NoError(t, rc.Err)
	for _, c := range rc.Configs {
		if c.Key == key {
			return c.MaybeValue()
		}
	}
	return ""
}

// alterTopic sets a setting of a topic, as an operator does by hand, and waits
// until it is in force.
func alterTopic(t *testing.T, adm *kadm.Client, topic, key, value string) {
	t.Helper()
	got, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: kadm.StringPtr(value)}}, topic)
	require.NoError(t, err)
	for _, r := range got {
		require.NoError(t, r.Err)
	}
	eventually(t, 30*time.Second, func() (bool, string) {
		have := topicConfig(t, adm, topic, key)
		return have == value, fmt.Sprintf("%s of %s is %q", key, topic, have)
	})
}
