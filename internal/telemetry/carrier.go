package telemetry

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/axtasks/ax"
)

// carrier lets a propagator read and write a task's headers.
type carrier ax.Task

var _ propagation.TextMapCarrier = (*carrier)(nil)

func (c *carrier) Get(name string) string {
	for _, h := range c.Headers {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// Set replaces the header; it never appends a second one. The slice may be the
// caller's own, so it is copied before it is changed.
func (c *carrier) Set(name, value string) {
	hs := slices.Clone(c.Headers)
	if i := slices.IndexFunc(hs, func(h ax.Header) bool { return h.Name == name }); i >= 0 {
		hs[i].Value = []byte(value)
	} else {
		hs = append(hs, ax.Header{Name: name, Value: []byte(value)})
	}
	c.Headers = hs
}

func (c *carrier) Keys() []string {
	names := make([]string, len(c.Headers))
	for i, h := range c.Headers {
		names[i] = h.Name
	}
	return names
}

// fits reports whether a record may carry these headers.
func fits(hs []ax.Header) bool {
	bytes := 0
	for _, h := range hs {
		bytes += len(h.Name) + len(h.Value)
	}
	return len(hs) <= ax.MaxHeaders && bytes <= ax.MaxHeaderBytes
}

// The hop's context is always in W3C form, whatever the user's propagator: ax
// alone writes and reads it.
const hopField = "traceparent"

func traceparent(sc trace.SpanContext) string {
	m := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), sc), m)
	return m[hopField]
}

func parseTraceparent(s string) trace.SpanContext {
	if s == "" {
		return trace.SpanContext{}
	}
	m := propagation.MapCarrier{hopField: s}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), m))
}
