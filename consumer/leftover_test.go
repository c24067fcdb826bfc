package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/router"
)

// A lane is taken out of the file while tasks wait in it: they are run, and
// what fails goes on in a lane that there is.
func TestALaneThatTheDomainNoLongerNamesIsDrained(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 4}, {Name: "old", Weight: 2}}})
		for range 20 {
			b.submit(ax.Task{Kind: "job", Lane: "old"})
		}
		b.submit(ax.Task{ID: "fails", Kind: "fails", Lane: "old", MaxAttempts: 2})
		r, err := router.New(c.Domain(ax.Domain{Name: "orders", Lanes: []ax.Lane{{Name: "main", Weight: 4}}}))
		require.NoError(t, err)
		b.r, b.domain = r, r.Domain()
		var got starts
		mux := consumer.NewMux()
		mux.HandleFunc("job", func(_ context.Context, task *ax.Task) error { got.add(task); return nil })
		mux.HandleFunc("fails", func(_ context.Context, task *ax.Task) error {
			got.add(task)
			if task.Attempt == 1 {
				return ax.RetryAfter(time.Second, errors.New("not yet"))
			}
			return nil
		})
		b.mover()
		w := newWorker(b, mux)
		run(t, w.Run)
		time.Sleep(10 * time.Second)
		all := got.list()
		require.Len(t, all, 22)
		require.Equal(t, 2, all[21].Attempt)
		require.Equal(t, r.Lane("main"), all[21].Source.Topic)
		left, err := r.Leftovers(t.Context(), c.Admin(t))
		require.NoError(t, err)
		require.Len(t, left, 1)
		os, err := c.Admin(t).FetchOffsets(t.Context(), left[0].Group)
		require.NoError(t, err)
		sum := int64(0)
		os.Each(func(o kadm.OffsetResponse) { sum += o.At })
		require.Equal(t, int64(21), sum)
		// It is empty, so it may be deleted; the worker goes on.
		_, err = c.Admin(t).DeleteTopics(t.Context(), left[0].Topic)
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		require.NotContains(t, consumer.Consumed(w, "old"), left[0].Topic)
		b.submit(ax.Task{Kind: "job", Lane: "main"})
		time.Sleep(time.Second)
		require.Len(t, got.list(), 23)
	})
}
