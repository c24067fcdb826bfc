package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/axtasks/ax"
)

// Handler runs tasks. HandleTask is called by many goroutines at once. ctx ends
// when the task's timeout has passed, the worker's grace has passed, or the
// task was lost to another worker; context.Cause tells which. The task may be
// read until the handler returns, and must not be changed.
type Handler interface {
	HandleTask(ctx context.Context, t *ax.Task) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, t *ax.Task) error

// HandleTask calls f.
func (f HandlerFunc) HandleTask(ctx context.Context, t *ax.Task) error { return f(ctx, t) }

// Middleware wraps a handler.
type Middleware func(Handler) Handler

// JSON returns a handler that decodes the payload into a T before it calls fn.
// A payload that is no T ends the task in the dead topic at once. ax.FromContext
// gives fn the task.
func JSON[T any](fn func(ctx context.Context, v T) error) Handler {
	return HandlerFunc(func(ctx context.Context, t *ax.Task) error {
		var v T
		if err := json.Unmarshal(t.Payload, &v); err != nil {
			return ax.Permanent(fmt.Errorf("decode payload of %s as %T: %w", t.Kind, v, err))
		}
		return fn(ctx, v)
	})
}

// Mux chooses a handler by the task's kind. Handlers are registered before the
// worker is made; a mistake in that, such as a kind registered twice, is
// reported by [New]. The zero value is ready to use.
type Mux struct {
	handlers   map[string]Handler
	middleware []Middleware
	faults     []error
}

// NewMux returns an empty Mux.
func NewMux() *Mux { return &Mux{} }

// Handle registers h for a kind.
func (m *Mux) Handle(kind string, h Handler) {
	switch {
	case kind == "" || h == nil:
		m.faults = append(m.faults, fmt.Errorf("ax: handler for kind %q: want a kind and a handler", kind))
	case m.handlers[kind] != nil:
		m.faults = append(m.faults, fmt.Errorf("ax: handler for kind %q: registered twice", kind))
	default:
		if m.handlers == nil {
			m.handlers = map[string]Handler{}
		}
		m.handlers[kind] = h
	}
}

// HandleFunc registers a function for a kind.
func (m *Mux) HandleFunc(kind string, fn func(ctx context.Context, t *ax.Task) error) {
	if fn == nil {
		m.Handle(kind, nil)
		return
	}
	m.Handle(kind, HandlerFunc(fn))
}

// Use wraps every handler of the mux, also those registered later, in mw. The
// first given is the outermost.
func (m *Mux) Use(mw ...Middleware) { m.middleware = append(m.middleware, mw...) }

// Kinds returns the kinds that have a handler, sorted.
func (m *Mux) Kinds() []string { return slices.Sorted(maps.Keys(m.handlers)) }

// build returns the wrapped handlers.
func (m *Mux) build() (map[string]Handler, error) {
	if len(m.faults) > 0 {
		return nil, errors.Join(m.faults...)
	}
	if len(m.handlers) == 0 {
		return nil, errors.New("ax: the mux has no handlers")
	}
	out := make(map[string]Handler, len(m.handlers))
	for kind, h := range m.handlers {
		for _, mw := range slices.Backward(m.middleware) {
			h = mw(h)
		}
		out[kind] = h
	}
	return out, nil
}

// Classify returns a handler that hands each error of h to classify, and
// returns what that makes of it: ax.Permanent(err) or ax.RetryAfter(d, err) for an
// error of a library that knows nothing of ax, or nil where the work is done
// after all. classify is not called without an error, nor for a panic, and what
// ends a run from outside (a stop, a lost lease or partition) goes before what it
// returns. It must be safe for concurrent use.
func Classify(h Handler, classify func(error) error) Handler {
	return HandlerFunc(func(ctx context.Context, t *ax.Task) error {
		if err := h.HandleTask(ctx, t); err != nil {
			return classify(err)
		}
		return nil
	})
}
