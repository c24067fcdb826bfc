package producer

import (
	"context"
	"sync/atomic"

	"github.com/axtasks/ax"
)

// batch collects the answers to the tasks of one call. The submitter writes
// what it knows of a receipt before it hands the record over, and the Kafka
// client's goroutine writes the rest.
type batch struct {
	results  []Result
	answered []atomic.Bool // nobody writes to this result again
	open     atomic.Int64

	done   chan struct{}           // closed with the last answer, or
	then   func(ax.Receipt, error) // called with the only one, after
	cancel context.CancelFunc

	group *group // of the only one
}

// newBatch returns a batch for n answers.
func newBatch(n int) *batch {
	if n > 1 {
		b := &batch{results: make([]Result, n), answered: make([]atomic.Bool, n)}
		b.open.Store(int64(n))
		return b
	}
	var one struct { // all that a single task needs, in one allocation
		batch    batch
		results  [1]Result
		answered [1]atomic.Bool
		group    group
		pending  [1]pending
	}
	b := &one.batch
	b.results, b.answered = one.results[:], one.answered[:]
	b.open.Store(1)
	b.group = &one.group
	b.group.pending = one.pending[:]
	return b
}

// answer says that the i-th result is there.
func (b *batch) answer(i int) {
	b.answered[i].Store(true)
	switch {
	case b.open.Add(-1) > 0:
	case b.then != nil:
		b.cancel()
		r := b.all()[0]
		b.then(r.Receipt, r.Err)
	default:
		close(b.done)
	}
}

// all returns the results. All of them are there.
func (b *batch) all() []Result {
	for i := range b.results {
		if r := &b.results[i]; r.Err != nil {
			r.Receipt = ax.Receipt{}
		}
	}
	return b.results
}

// sofar returns a copy of the results, with an error for each that is not
// there: it may still come.
func (b *batch) sofar(missing func(i int, id string) error) []Result {
	results := make([]Result, len(b.results))
	for i := range results {
		r := &results[i]
		if !b.answered[i].Load() {
			r.Err = missing(i, b.results[i].Receipt.ID)
		} else if r.Err = b.results[i].Err; r.Err == nil {
			r.Receipt = b.results[i].Receipt
		}
	}
	return results
}
