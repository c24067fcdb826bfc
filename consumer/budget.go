package consumer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/axtasks/ax"
)

// budget bounds the retries of a kind: a bucket of tokens that fills by the
// second and with each success, and may be in debt. Who draws on it in debt
// waits until it would be full enough. After the retry budgets of Finagle and
// gRPC, which refuse what is past them; a task must not be refused.
type budget struct {
	perSecond, ratio float64 // not above zero: no bound, and nothing for a success

	// Most runs succeed, so that is cheap.
	succeeded atomic.Int64
	longer    atomic.Int64 // retries that had to wait for longer

	mu     sync.Mutex
	tokens float64
	at     time.Time // when they were counted
}

func (b *budget) set(c ax.RetryBudget) { b.perSecond, b.ratio = c.PerSecond, c.Ratio }

func (b *budget) success() {
	if b.ratio > 0 {
		b.succeeded.Add(1)
	}
}

// retry takes a token, and returns for how much longer than its back-off asks
// the retry has to wait.
func (b *budget) retry(now time.Time) time.Duration {
	if b.perSecond <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// It holds a second's worth at most, so that a quiet hour does not pay
	// for a storm.
	full := max(b.perSecond, 1)
	if b.at.IsZero() {
		b.tokens, b.at = full, now
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens += passed.Seconds() * b.perSecond
		b.at = now
	}
	b.tokens = min(b.tokens+float64(b.succeeded.Swap(0))*b.ratio, full) - 1
	if b.tokens >= 0 {
		return 0
	}
	b.longer.Add(1)
	return time.Duration(-b.tokens / b.perSecond * float64(time.Second))
}
