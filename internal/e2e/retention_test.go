//go:build kafka

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/producer"
)

// A hand shortens a tier's retention below the wait of what is in it. The mover
// says so before the broker deletes anything, the check calls it drift, and once
// it is mended all tasks run.
func TestARetentionThatIsSetShortByHandIsAnAlarmBeforeALoss(t *testing.T) {
	t.Parallel()
	r := newDomain(t, func(d *ax.Domain) { d.Delay.Tiers = []time.Duration{5 * time.Second, 80 * time.Second} })
	adm := admin(t)
	var j journal
	mux := consumer.NewMux()
	mux.HandleFunc("job", j.handle)
	m, err := delay.New(r.Domain())
	require.NoError(t, err)
	w, err := consumer.New(r.Domain(), mux)
	require.NoError(t, err)
	work(t, m.Run)
	work(t, w.Run)
	c := client(t, r.Domain())
	for i := range 100 {
		_, err := c.Submit(t.Context(), ax.Task{Kind: "job"}, producer.After(80*time.Second+time.Duration(i)*10*time.Millisecond))
		require.NoError(t, err)
	}
	tier := r.Tiers()[1].Topic
	require.NoError(t, r.Check(t.Context(), adm))
	// Brokers here look for what they may delete twice a second.
	alterTopic(t, adm, tier, "retention.ms", "180000")
	warned := func() bool {
		for _, warning := range m.Status().Warnings {
			if strings.Contains(warning, tier+" retention.ms 180000") {
				return true
			}
		}
		return false
	}
	eventually(t, 75*time.Second, func() (bool, string) { return warned(), "no warning yet" })
	require.ErrorContains(t, r.Check(t.Context(), adm), tier+" retention.ms 180000")
	require.Empty(t, j.list(), "the alarm came after the wait")
	plan, err := r.Plan(t.Context(), adm)
	require.NoError(t, err)
	require.NoError(t, plan.Apply(t.Context(), adm))
	eventually(t, time.Minute, func() (bool, string) { return len(j.list()) == 100, "not all tasks ran" })
	for _, s := range j.list() {
		require.False(t, s.at.Before(s.Due))
	}
}
