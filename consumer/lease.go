package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/idempotency"
)

// leases renews the claims of running tasks, all from one goroutine.
type leases struct {
	store idempotency.Store
	lease time.Duration
	log   *slog.Logger

	mu   sync.Mutex
	held map[*claim]struct{}
}

// claim is the right to run a task, while the run lasts.
type claim struct {
	key    string
	token  int64
	until  time.Time // of the last renewal, by this process's clock
	cancel context.CancelCauseFunc
	part   *part
}

func newLeases(s idempotency.Store, lease time.Duration, log *slog.Logger) *leases {
	return &leases{store: s, lease: lease, log: log, held: map[*claim]struct{}{}}
}

// storeTimeout bounds one call of the store.
const storeTimeout = 5 * time.Second

func (l *leases) keep(c *claim) {
	c.until = time.Now().Add(l.lease)
	l.mu.Lock()
	l.held[c] = struct{}{}
	l.mu.Unlock()
}

// forget ends the renewals of a claim. It does nothing without one.
func (l *leases) forget(c *claim) {
	if c == nil {
		return
	}
	l.mu.Lock()
	delete(l.held, c)
	l.mu.Unlock()
}

// run renews every claim three times in a lease, until ctx ends. A claim that
// was lost, or could not be renewed before it ended, cancels its run.
func (l *leases) run(ctx context.Context) {
	tick := time.NewTicker(l.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		all := make([]*claim, 0, len(l.held))
		for c := range l.held {
			// A job that waited to be settled was forgotten with its partition.
			if c.cancelled() {
				delete(l.held, c)
				continue
			}
			all = append(all, c)
		}
		l.mu.Unlock()
		for _, c := range all {
			l.renew(ctx, c)
		}
	}
}

func (l *leases) renew(ctx context.Context, c *claim) {
	within, cancel := context.WithTimeout(ctx, min(storeTimeout, l.lease/3))
	defer cancel()
	began := time.Now()
	err := l.store.Renew(within, c.key, c.token, l.lease)
	switch {
	case err == nil:
		c.until = began.Add(l.lease)
	case errors.Is(err, idempotency.ErrLost), !time.Now().Before(c.until):
		l.log.Warn("a lease was lost; its run is cancelled", "task", c.key, "token", c.token, "error", err)
		c.cancel(ax.ErrLeaseLost)
		l.forget(c)
	case ctx.Err() == nil:
		l.log.Error("a lease was not renewed", "task", c.key, "token", c.token, "left", time.Until(c.until), "error", err)
	}
}

// cancelled reports whether nobody stands for the claim any more.
func (c *claim) cancelled() bool { return c.part != nil && !c.part.Owned() }
