package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fair"
)

// share is a lane of the fair work: its weight, and how long its tasks run.
// The runs are a hundred times apart, and neither rise nor fall with the
// weights.
type share struct {
	lane   string
	weight int
	run    time.Duration
}

func shares() []share {
	return []share{
		{"critical", 8, 30 * time.Millisecond},
		{"high", 4, 10 * time.Millisecond},
		{"normal", 2, 100 * time.Millisecond},
		{"low", 1, time.Millisecond},
	}
}

func fourLanes(*Config) ax.Domain {
	d := ax.Domain{Kinds: map[string]ax.Kind{}}
	for _, s := range shares() {
		d.Lanes = append(d.Lanes, ax.Lane{Name: s.lane, Weight: s.weight, MaxWait: maxWait, MaxGap: maxWait})
		d.Kinds[s.lane] = ax.Kind{Lane: s.lane}
	}
	return d
}

// maxWait is after how long without a start a lane goes next.
const maxWait = time.Second

// fairness floods four lanes and compares their shares of worker time with
// their weights.
func fairness(ctx context.Context, g *ground) (fs Fields, err error) {
	client, err := g.producer(ctx)
	if err != nil {
		return nil, err
	}
	defer closeClient(ctx, client, &err)
	lanes := make([]*history, len(shares()))
	mux := consumer.NewMux()
	weight := 0
	for _, s := range shares() {
		weight += s.weight
	}
	for i, s := range shares() {
		// Twice the share of the time that is measured and settles, and what
		// the worker holds in memory.
		slotTime := float64(g.Workers) * (g.For + 3*settleTime).Seconds() * float64(s.weight) / float64(weight)
		n := 2*int(slotTime/s.run.Seconds()) + 4000
		lanes[i] = &history{share: s, tally: newTally(n)}
		if _, err := submit(ctx, client, n, func(j int) ax.Task {
			return ax.Task{Kind: s.lane, Payload: numbered(uint64(j), g.Payload)}
		}); err != nil {
			return nil, err
		}
		mux.Handle(s.lane, lanes[i])
	}
	clean()
	w, err := g.worker(ctx, g.router.Domain(), mux, g.Workers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	for _, l := range lanes {
		if err := l.tally.awaitFirst(ctx, l.share.lane); err != nil {
			return nil, err
		}
	}
	from := time.Now().Add(settleTime)
	to := from.Add(g.For)
	if err := waitUntil(ctx, to); err != nil {
		return nil, err
	}
	for _, l := range lanes {
		if l.tally.different.Load() == int64(len(l.tally.seen)) {
			return nil, fmt.Errorf("lane %s ran dry: its share says nothing", l.share.lane)
		}
	}
	if err := w.stop(); err != nil {
		return nil, err
	}
	return fairFields(g.router.Domain(), lanes, from, to, g.Workers), nil
}

// fairFields judges what the lanes did between two instants.
func fairFields(d ax.Domain, lanes []*history, from, to time.Time, slots int) (fs Fields) {
	var weights, starts []int
	var used, gaps []time.Duration
	var longest time.Duration
	longestOf := make([]time.Duration, len(lanes))
	doubled := 0
	for i, l := range lanes {
		weights = append(weights, l.share.weight)
		busy, count, gap, run := l.within(from, to)
		used, starts, gaps = append(used, busy), append(starts, count), append(gaps, gap)
		longestOf[i] = run
		longest = max(longest, run)
		_, again := l.tally.judge()
		doubled += again
	}
	points, percent := shareError(weights, used)
	fs.add("share_error_points", round(points))
	// The lane that came closest to its bound, or went furthest beyond.
	worst, of := 0, -1.0
	var bounds []time.Duration
	shares := fair.ConfigOf(slots, d.Sharing, d.Lanes)
	for i := range lanes {
		bounds = append(bounds, fair.Bound(shares, i, longestOf[i], longest))
		if part := float64(gaps[i]) / float64(bounds[i]); part > of {
			worst, of = i, part
		}
	}
	fs.max("worst_wait_ms", millis(gaps[worst]))
	fs.max("worst_wait_bound_ms", millis(bounds[worst]))
	fs.add("worst_wait_lane", lanes[worst].share.lane)
	for i, l := range lanes {
		fs.add("share_percent_"+l.share.lane, percent[i])
		fs.add("starts_"+l.share.lane, starts[i])
	}
	fs.sum("doubled", doubled)
	return fs
}

// history is the runs of one lane. It is the lane's handler.
type history struct {
	share share
	tally *tally
	mu    sync.Mutex
	runs  []interval
}

type interval struct{ start, end time.Time }

// HandleTask implements consumer.Handler.
func (h *history) HandleTask(ctx context.Context, t *ax.Task) error {
	h.tally.mark(numberOf(t.Payload))
	i := interval{start: time.Now()}
	err := run(ctx, h.share.run)
	i.end = time.Now()
	h.mu.Lock()
	h.runs = append(h.runs, i)
	h.mu.Unlock()
	return err
}

// within returns, for the time between two instants, the slot time that the
// lane had, its starts, the longest time without a start, which is how long
// the head of a lane that never runs dry has waited, and the longest run.
func (h *history) within(from, to time.Time) (used time.Duration, starts int, gap, longest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	began := make([]time.Duration, 0, len(h.runs)) // since from
	for _, r := range h.runs {
		start, end := max(r.start.Sub(from), 0), min(r.end.Sub(from), to.Sub(from))
		used += max(end-start, 0)
		if !r.start.Before(from) && r.start.Before(to) {
			began = append(began, r.start.Sub(from))
			longest = max(longest, r.end.Sub(r.start))
		}
	}
	return used, len(began), longestGap(began, to.Sub(from)), longest
}
