package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/axtasks/ax"
)

// mixed runs tasks of very different lengths, due over a window, on many
// slots.
func mixed(ctx context.Context, g *ground) (fs Fields, err error) {
	l := newLateness(g.N, true)
	client, stop, err := g.delaying(ctx, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	last := time.Now().Add(g.Spread)
	took, err := submit(ctx, client, g.N, func(i int) ax.Task {
		// From the submit, so that what is due at once is not late already.
		due := time.Now().Add(rand.N(g.Spread))
		l.timers.add(due)
		return ax.Task{Kind: kind, Due: due, Payload: numbered(uint64(i), g.Payload)}
	})
	if err != nil {
		return nil, err
	}
	if err := l.tally.await(ctx, last.Add(took)); err != nil {
		return nil, err
	}
	if err := stop(); err != nil {
		return nil, err
	}
	fs.add("load_percent", round(100*perSecond(g.N, g.Spread)*meanRun.Seconds()/float64(g.Workers)))
	l.report(&fs)
	return fs, nil
}

// runTime is how long the task of a number runs: 20 % of them 50 ms, 30 %
// 200 ms, 50 % 800 ms.
func runTime(n uint64) time.Duration {
	switch n % 10 {
	case 0, 5:
		return 50 * time.Millisecond
	case 1, 4, 7:
		return 200 * time.Millisecond
	}
	return 800 * time.Millisecond
}

// meanRun is the mean of runTime.
const meanRun = 470 * time.Millisecond
