package delay_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
)

func TestAMoversHealthSaysWhatStandsStill(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		m, err := delay.New(b.domain, delay.WithKafka(c.Opts()...))
		require.NoError(t, err)
		require.ErrorIs(t, m.Ready(), ax.ErrNotRunning)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(10 * time.Second)
		require.NoError(t, m.Ready())
		fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: b.r.Lane("high"), Err: kerr.TopicAuthorizationFailed, Count: -1})
		b.put(b.r.Near(), 0, tasks("t", 1, "high", always(time.Now().Add(time.Second)))...)
		time.Sleep(20 * time.Second)
		require.NoError(t, m.Healthy())
		time.Sleep(20 * time.Second)
		require.ErrorIs(t, m.Healthy(), ax.ErrStalled)
		require.ErrorContains(t, m.Ready(), "topic "+b.r.Lane("high"))
		fault.Remove()
		time.Sleep(10 * time.Second)
		require.NoError(t, m.Ready())
		stop()
		require.NoError(t, <-done)
		require.ErrorIs(t, m.Healthy(), ax.ErrNotRunning)
	})
}
