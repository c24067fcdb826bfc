package consumer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
)

func TestJSONDecodesThePayloadAndARefusedOneIsPermanent(t *testing.T) {
	t.Parallel()
	var got Close
	h := consumer.JSON(func(ctx context.Context, c Close) error {
		got = c
		task, ok := ax.FromContext(ctx)
		require.True(t, ok)
		require.Equal(t, "order.close", task.Kind)
		return nil
	})
	call := func(payload string) error {
		task := &ax.Task{Kind: "order.close", Payload: []byte(payload)}
		return h.HandleTask(ax.NewContext(t.Context(), task), task)
	}
	require.NoError(t, call(`{"order":7}`))
	require.Equal(t, 7, got.Order)
	var permanent *ax.PermanentError
	err := call(`{"order":"seven"}`)
	require.ErrorAs(t, err, &permanent)
	require.ErrorContains(t, err, "order.close")
	require.ErrorAs(t, call(``), &permanent)
}

func TestTheFirstMiddlewareIsTheOutermost(t *testing.T) {
	t.Parallel()
	var order []string
	wrap := func(name string) consumer.Middleware {
		return func(next consumer.Handler) consumer.Handler {
			return consumer.HandlerFunc(func(ctx context.Context, t *ax.Task) error {
				order = append(order, name)
				return next.HandleTask(ctx, t)
			})
		}
	}
	mux := consumer.NewMux()
	mux.Use(wrap("a"), wrap("b"))
	mux.HandleFunc("job", func(context.Context, *ax.Task) error { order = append(order, "handler"); return nil })
	mux.Use(wrap("c"))
	handlers, err := consumer.Build(mux)
	require.NoError(t, err)
	require.NoError(t, handlers["job"].HandleTask(t.Context(), &ax.Task{}))
	require.Equal(t, []string{"a", "b", "c", "handler"}, order)
}
