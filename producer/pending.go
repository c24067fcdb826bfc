package producer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/telemetry"
	"github.com/axtasks/ax/internal/uid"
)

// groupSize is how many tasks of a call share a reading of the clock and their
// allocations. It bounds what one record in flight, or one id that the caller
// keeps, holds in memory of the others.
const groupSize = 64

// group is some tasks of a call.
type group struct {
	c       *Client
	ctx     context.Context
	batch   *batch
	first   int // of the batch's tasks
	pending []pending
	encoder ax.Encoder
	ids     string    // left, one after the other
	now     time.Time // by ax's clock
	began   time.Time
	counted bool         // a meter is there
	spans   []trace.Span // nil: nobody traces

	promise  func(*kgo.Record, error) // answer, made once for all
	expected int                      // the next answer is probably this one's
}

// pending is a task between submit and answer. There may be many, so what is
// seldom asked for is read back from the record.
type pending struct {
	record   kgo.Record
	size     int32
	reserved bool // of the client's buffer
	handed   bool // to the Kafka client
}

// submit submits the tasks. Each gets its answer.
func (c *Client) submit(ctx context.Context, tasks []ax.Task, b *batch) {
	for first := 0; first < len(tasks); first += groupSize {
		some := tasks[first:min(first+groupSize, len(tasks))]
		g := b.group
		if g == nil {
			g = &group{pending: make([]pending, len(some))}
		}
		g.c, g.ctx, g.batch, g.first, g.promise = c, ctx, b, first, g.answer
		g.now, g.began, g.counted = clock.Now(), time.Now(), c.tel.Counts(ctx)
		if !c.tel.Idle(ctx) {
			g.spans = make([]trace.Span, len(some))
		}
		g.encoder.Grow(len(some))
		for i, task := range some {
			g.submit(i, &task)
		}
	}
}

// id returns a new id. Each task gets one before it is checked, so that each
// error can name it: after an unknown outcome, the caller submits again under
// it.
func (g *group) id() (id string) {
	if g.ids == "" {
		g.ids = uid.Many(g.now, len(g.pending))
	}
	id, g.ids = g.ids[:uid.Size], g.ids[uid.Size:]
	return id
}

func (g *group) result(i int) *Result { return &g.batch.results[g.first+i] }

// submit checks, completes, routes, encodes and produces the task.
func (g *group) submit(i int, task *ax.Task) {
	c, p, receipt := g.c, &g.pending[i], &g.result(i).Receipt
	if task.ID == "" {
		task.ID = g.id()
	}
	receipt.ID = task.ID
	task.Attempt, task.Deferrals, task.Hop, task.Submitted = 1, 0, "", g.now
	if err := c.domain.Complete(task, g.now); err != nil {
		g.refuse(i, "invalid", err)
		return
	}
	if c.closing.Load() {
		g.refuse(i, "", fail(task.ID, task.Kind, ax.ErrClosed))
		return
	}
	if !c.reached.Load() {
		if err := c.ensureReached(g.ctx); err != nil {
			g.refuse(i, "unreachable", fail(task.ID, task.Kind, err))
			return
		}
		g.now = clock.Now() // the wait has taken time
	}
	if receipt.Due = task.Due; task.Due.IsZero() {
		receipt.Due = task.Submitted
	}
	r := &p.record
	r.Context, r.Timestamp = g.ctx, g.began
	r.Topic = c.router.Next(task, task.Submitted, g.now)
	if g.spans != nil {
		own := *task // a propagator may see it, which would put each on the heap
		r.Context, g.spans[i] = c.tel.Send(g.ctx, &own, c.router.Lane(task.Lane))
		*task = own
	}
	g.encoder.Encode(r, task)
	if c.cfg.full.block {
		receipt.Topic, p.handed = r.Topic, true
		c.kafka.Produce(r.Context, r, g.promise)
		return
	}
	if p.size = int32(len(r.Key) + len(r.Value)); !c.reserve(int64(p.size)) {
		own := *task // the policy may keep it
		g.finish(i, c.cfg.full.run(r.Context, &own))
		return
	}
	receipt.Topic, p.reserved, p.handed = r.Topic, true, true
	c.kafka.TryProduce(r.Context, r, g.promise)
}

// refuse answers a task that has no span yet.
func (g *group) refuse(i int, class string, err error) {
	if class != "" {
		g.c.tel.Rejected(g.ctx, class)
	}
	g.result(i).Err = err
	g.batch.answer(g.first + i)
}

// index returns which record it is. The Kafka client answers in order, but for
// several partitions.
func (g *group) index(r *kgo.Record) int {
	i := g.expected
	for r != &g.pending[i].record {
		i = (i + 1) % len(g.pending)
	}
	g.expected = (i + 1) % len(g.pending)
	return i
}

// answer is called by the Kafka client, for one record after the other.
func (g *group) answer(r *kgo.Record, err error) {
	i := g.index(r)
	if p := &g.pending[i]; p.reserved {
		g.c.release(int64(p.size))
	}
	switch {
	case err == nil:
		receipt := &g.result(i).Receipt
		receipt.Partition, receipt.Offset = r.Partition, r.Offset
	case errors.Is(err, kgo.ErrMaxBuffered):
		err = ax.ErrBusy
	case errors.Is(err, kgo.ErrClientClosed):
		// The client was closed before a broker answered, and doesn't say
		// whether one was asked.
		err = fmt.Errorf("%w: %w", ax.ErrUnknownOutcome, err)
	case g.c.domain.Durability == ax.Fast && g.ctx.Err() != nil:
		// Without idempotence the Kafka client gives a record up that is on
		// its way to a broker.
		err = fmt.Errorf("%w: %w", ax.ErrUnknownOutcome, err)
	}
	g.finish(i, err)
}

func (g *group) finish(i int, err error) {
	c, p, result := g.c, &g.pending[i], g.result(i)
	class := ""
	if err != nil {
		err = c.watch.Explain(err)
		if p.handed {
			err = fmt.Errorf("topic %s: %w", p.record.Topic, err)
		}
		result.Err = fail(result.Receipt.ID, p.header(ax.HeaderKind), err)
		class = classOf(err)
		c.tel.Rejected(p.record.Context, class)
	}
	if p.handed && g.counted {
		c.tel.Sent(p.record.Context, c.router.Lane(p.header(ax.HeaderLane)), class, time.Since(g.began))
	}
	if g.spans != nil {
		telemetry.End(g.spans[i], class)
	}
	g.batch.answer(g.first + i)
}

func (p *pending) header(name string) string {
	for _, h := range p.record.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func fail(id, kind string, err error) error {
	return &ax.TaskError{Op: "submit", ID: id, Kind: kind, Err: err}
}

// reserve takes room in the buffer, and reports false where it is full. A
// single task larger than the buffer is let through alone.
func (c *Client) reserve(size int64) bool {
	n, bytes := c.records.Add(1), c.bytes.Add(size)
	if n > int64(c.cfg.maxRecords) || bytes > int64(c.cfg.maxBytes) && bytes > size {
		c.release(size)
		return false
	}
	return true
}

func (c *Client) release(size int64) {
	c.records.Add(-1)
	c.bytes.Add(-size)
}

// classOf returns a low-cardinality name for an error.
func classOf(err error) string {
	for _, known := range []struct {
		err  error
		name string
	}{
		{ax.ErrBusy, "busy"}, {ax.ErrDropped, "dropped"}, {ax.ErrClosed, "closed"},
		{ax.ErrUnknownOutcome, "unknown_outcome"}, {ax.ErrAuth, "auth"}, {ax.ErrTopicMissing, "topic_missing"},
		{ax.ErrTooLarge, "too_large"}, {ax.ErrUnreachable, "unreachable"},
		{context.DeadlineExceeded, "deadline"}, {context.Canceled, "cancelled"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return "other"
}
