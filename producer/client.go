package producer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/telemetry"
	"github.com/axtasks/ax/router"
)

// Client submits tasks to one domain. It is safe for concurrent use; a service
// needs one. Make it with [New], end it with [Client.Close].
type Client struct {
	cfg    config
	domain ax.Domain
	router *router.Router
	tel    *telemetry.Telemetry
	watch  *kafka.Watch
	kafka  *kgo.Client

	reached atomic.Bool   // a broker answered once
	reach   chan struct{} // held while one submit asks

	records atomic.Int64 // in the buffer, where the policy is not to block
	bytes   atomic.Int64

	closing atomic.Bool
	close   sync.Once
	closed  error
}

// New returns a client for the domain. It checks everything that can be
// checked without a broker, and talks to nobody; see [Client.Ping].
func New(d ax.Domain, opts ...Option) (*Client, error) {
	cfg := defaults()
	for _, o := range opts {
		o(&cfg)
	}
	if cfg.maxRecords < 1 || cfg.maxBytes < 1 {
		return nil, fmt.Errorf("ax: producer: buffer of %d tasks and %d bytes: want at least 1 of each", cfg.maxRecords, cfg.maxBytes)
	}
	if cfg.timeout <= 0 {
		return nil, fmt.Errorf("ax: producer: timeout %s: want more than 0", cfg.timeout)
	}
	if !cfg.full.block && cfg.full.run == nil {
		return nil, errors.New("ax: producer: full: want Block, Busy, Drop or Call with a function")
	}
	r, err := router.New(d)
	if err != nil {
		return nil, fmt.Errorf("ax: producer: %w", err)
	}
	tel, err := telemetry.New(telemetry.Config{Tracer: cfg.tracer, Meter: cfg.meter, Propagator: cfg.propagator})
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, domain: r.Domain(), router: r, tel: tel, reach: make(chan struct{}, 1)}
	kopts, watch, err := kafka.Options(c.domain, "producer", cfg.log)
	if err != nil {
		return nil, err
	}
	kopts = append(kopts, kafka.Producing(c.domain)...)
	kopts = append(kopts, r.Options()...)
	if cfg.full.block {
		kopts = append(kopts, kgo.MaxBufferedRecords(cfg.maxRecords),
			// The Kafka client refuses a record larger than the whole buffer.
			kgo.MaxBufferedBytes(max(cfg.maxBytes, c.domain.MaxPayload+kafka.HeaderRoom)))
	} else {
		// The bound is kept here, where the submitter's goroutine learns of
		// it at once; the client's own would answer in another one.
		kopts = append(kopts, kgo.MaxBufferedRecords(2*cfg.maxRecords))
	}
	c.watch = watch
	if c.kafka, err = kgo.NewClient(append(kopts, cfg.kafka...)...); err != nil {
		return nil, fmt.Errorf("ax: producer for domain %s: %w", d.Name, err)
	}
	return c, nil
}

// Ping returns nil once a broker has answered and accepted the credentials. It
// waits for at most 10 s; its error matches ax.ErrUnreachable or ax.ErrAuth
// where that is the reason.
func (c *Client) Ping(ctx context.Context) error {
	if err := kafka.Ping(ctx, c.kafka, c.watch, 10*time.Second); err != nil {
		return fmt.Errorf("ax: producer for domain %s: ping: %w", c.domain.Name, err)
	}
	c.reached.Store(true)
	return nil
}

// ensureReached asks for a broker before the first task is handed over: wrong
// credentials would otherwise show as nothing but a timeout.
func (c *Client) ensureReached(ctx context.Context) error {
	if c.reached.Load() {
		return nil
	}
	select {
	case c.reach <- struct{}{}:
		defer func() { <-c.reach }()
	case <-ctx.Done():
		// Another submit asks, and has had no answer.
		return kafka.NoAnswer(c.kafka, c.watch, context.Cause(ctx))
	}
	if c.reached.Load() {
		return nil
	}
	return c.Ping(ctx)
}

// Close sends what is buffered and ends the client. What has no answer when
// ctx ends fails with an error that matches ax.ErrUnknownOutcome or
// ax.ErrClosed. Close returns nil when all was acknowledged or had failed
// before, and the same at each further call.
func (c *Client) Close(ctx context.Context) error {
	c.closing.Store(true)
	c.close.Do(func() {
		if err := c.kafka.Flush(ctx); err != nil {
			c.closed = fmt.Errorf("ax: producer for domain %s: close: %d tasks unanswered: %w",
				c.domain.Name, c.kafka.BufferedProduceRecords(), err)
		}
		c.kafka.Close()
	})
	return c.closed
}
