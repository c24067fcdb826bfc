package dead

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/router"
)

// writeTimeout bounds each write, and settle is how long the client then has
// to give it up: what it doesn't, a broker may hold.
const (
	writeTimeout = 30 * time.Second
	settle       = 250 * time.Millisecond
)

// Writer drives and purges deaths. Make it with [NewWriter], end it with
// [Writer.Close]. It is for one goroutine.
type Writer struct {
	router *router.Router
	domain ax.Domain
	watch  *kafka.Watch
	tasks  *kgo.Client
	// tombs writes tombstones to the partition that it is told: the one where
	// the death is. The topic may have grown since, and a hash would choose
	// another one, where the tombstone buries nothing.
	tombs *kgo.Client
}

// NewWriter returns a writer for the domain of r. It talks to nobody. more is
// added to the options of its clients.
func NewWriter(r *router.Router, more ...kgo.Opt) (*Writer, error) {
	d := r.Domain()
	opts, watch, err := kafka.Options(d, "dead", nil)
	if err != nil {
		return nil, err
	}
	opts = append(opts, kafka.Producing(d)...)
	opts = append(opts, r.Options()...)
	opts = append(opts, more...)
	w := &Writer{router: r, domain: d, watch: watch}
	if w.tasks, err = kgo.NewClient(opts...); err != nil {
		return nil, fmt.Errorf("ax: domain %s: kafka client: %w", d.Name, err)
	}
	if w.tombs, err = kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		w.tasks.Close()
		return nil, fmt.Errorf("ax: domain %s: kafka client: %w", d.Name, err)
	}
	return w, nil
}

// Close ends the writer.
func (w *Writer) Close() {
	w.tasks.Close()
	w.tombs.Close()
}

// Result is what a run has done so far.
type Result struct {
	Done int            `json:"done"`
	Left map[string]int `json:"left,omitempty"` // deaths that were left alone, by why
}

func (r *Result) leave(why string) {
	if r.Left == nil {
		r.Left = map[string]int{}
	}
	r.Left[why]++
}

// LeftAlone returns how many deaths were left alone.
func (r *Result) LeftAlone() (n int) {
	for _, k := range r.Left {
		n += k
	}
	return n
}

// each does do for the deaths that f chooses, one after the other. A ctx that
// ends lets the one at hand be finished. told may be nil.
func (w *Writer) each(ctx context.Context, s *Scan, f *Filter, told func(Result), do func(context.Context, *Entry) (why string, err error)) (Result, error) {
	var r Result
	err := s.Each(ctx, func(e *Entry) error {
		if !f.Match(e) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		why, err := do(ctx, e)
		switch {
		case err != nil:
			return err
		case why != "":
			r.leave(why)
		default:
			r.Done++
		}
		if told != nil {
			told(r)
		}
		return nil
	})
	return r, err
}

// Purge writes the tombstones of the deaths that f chooses and says how many
// of them are acknowledged, also beside an error. It stops at the first write
// that fails, and after the death at hand when ctx ends. told, which may be
// nil, is called after each.
func (w *Writer) Purge(ctx context.Context, s *Scan, f *Filter, told func(Result)) (Result, error) {
	return w.each(ctx, s, f, told, func(ctx context.Context, e *Entry) (string, error) {
		if err := w.bury(ctx, e); err != nil {
			return "", fmt.Errorf("ax: purge domain %s: death %s: %w", w.domain.Name, e.Death, err)
		}
		return "", nil
	})
}

// bury writes the tombstone of a death.
func (w *Writer) bury(ctx context.Context, e *Entry) error {
	tomb := &kgo.Record{Topic: e.Topic, Partition: e.Partition, Key: e.Record.Key}
	if err := w.write(ctx, w.tombs, tomb); err != nil {
		return fmt.Errorf("write its tombstone to %s/%d: %w", e.Topic, e.Partition, err)
	}
	return nil
}

// write writes a record and waits for the acknowledgement, also past the end of
// ctx: a death at hand is finished. Its error matches [ax.ErrUnknownOutcome]
// where a broker may hold the record.
func (w *Writer) write(ctx context.Context, cl *kgo.Client, r *kgo.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	answer := make(chan error, 1)
	cl.Produce(ctx, r, func(_ *kgo.Record, err error) { answer <- err })
	late := time.NewTimer(writeTimeout + settle)
	defer late.Stop()
	select {
	case err := <-answer:
		if err != nil && errors.Is(err, context.DeadlineExceeded) && w.domain.Durability == ax.Fast {
			// Without idempotence the client gives up what is on its way.
			err = fmt.Errorf("%w: %w", ax.ErrUnknownOutcome, err)
		}
		return w.watch.Explain(err)
	case <-late.C:
		err := fmt.Errorf("%w: no answer for %s", ax.ErrUnknownOutcome, writeTimeout)
		if last := w.watch.Err(); last != nil {
			err = fmt.Errorf("%w; last: %w", err, last)
		}
		return err
	}
}
