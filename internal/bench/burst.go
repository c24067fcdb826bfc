package bench

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/producer"
)

// burst lets many low tasks be due at one instant while critical ones arrive
// all the time. The control is the critical ones alone, with the same roles.
func burst(ctx context.Context, g *ground) (fs Fields, err error) {
	client, err := g.producer(ctx)
	if err != nil {
		return nil, err
	}
	defer closeClient(ctx, client, &err)
	var calm Fields
	if err := g.both(func() (err error) {
		fs, err = g.underBurst(ctx, client)
		return err
	}, func() (err error) {
		calm, err = g.calm(ctx, client)
		return err
	}); err != nil {
		return nil, err
	}
	fs = append(fs, calm...)
	fs.ratio("critical_p50_ratio", "critical_p50_ms", "calm_critical_p50_ms")
	fs.ratio("critical_p99_ratio", "critical_p99_ms", "calm_critical_p99_ms")
	return fs, nil
}

// underBurst submits the burst, and then critical tasks before it is due, while
// it runs and after that.
func (g *ground) underBurst(ctx context.Context, client *producer.Client) (fs Fields, err error) {
	debug.FreeOSMemory() // what is free is no growth
	grown := watchMemory("self")
	defer grown.stop()
	u, l := g.newUrgent(), newLateness(g.N, false)
	w, stop, err := g.urgency(ctx, client, u, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	lane := watchLane(w, low)
	defer lane.stop()
	// The near tier alone, unless they are very many.
	due := time.Now().Add(time.Second + time.Duration(g.N)*time.Second/40_000)
	if _, err := submit(ctx, client, g.N, func(i int) ax.Task {
		return ax.Task{Kind: low, Due: due, Payload: numbered(uint64(i), g.Payload)}
	}); err != nil {
		return nil, err
	}
	fs.add("submitted_before_due", time.Now().Before(due))
	if err := u.arrive(ctx, client); err != nil {
		return nil, err
	}
	if err := l.tally.await(ctx, due); err != nil {
		return nil, err
	}
	most := lane.stop()
	bound, known := g.laneBound(ctx, low)
	if err := stop(); err != nil {
		return nil, err
	}
	drained := l.tally.began.Add(time.Duration(l.tally.last.Load()))
	fs.quantiles("critical", u.waits(time.Time{}, drained.Add(time.Hour)))
	fs.quantiles("critical_within", u.waits(due.Add(-g.lead), drained))
	fs.add("burst_drain_s", round(drained.Sub(due).Seconds()))
	fs.quantiles("late", &l.late)
	fs.sum("early", int(l.early.Load()))
	fs.max("lane_most", most)
	fs.add("lane_buffer", laneBuffer)
	if known {
		fs.add("lane_bound", bound)
	}
	if before, most, ok := grown.stop(); ok {
		fs.add("rss_growth_mb", megabytes(most-before))
	}
	lost, doubled := l.tally.judge()
	moreLost, moreDoubled := u.tally.judge()
	fs.sum("lost", lost+moreLost)
	fs.sum("doubled", doubled+moreDoubled)
	return fs, nil
}

// calm submits the critical tasks alone.
func (g *ground) calm(ctx context.Context, client *producer.Client) (fs Fields, err error) {
	clean()
	u := g.newUrgent()
	_, stop, err := g.urgency(ctx, client, u, newLateness(0, false))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := u.arrive(ctx, client); err != nil {
		return nil, err
	}
	if err := stop(); err != nil {
		return nil, err
	}
	fs.quantiles("calm_critical", u.waits(u.began, time.Now()))
	fs.counts("calm_", u.tally)
	return fs, nil
}

// urgency starts a worker and a mover, and waits until a critical task and a
// delayed low one were run. stop ends both; a second call does nothing more.
func (g *ground) urgency(ctx context.Context, client *producer.Client, u *urgent, l *lateness) (w *role, stop func() error, err error) {
	mux := consumer.NewMux()
	mux.Handle(critical, u)
	mux.Handle(low, l)
	if w, err = g.worker(ctx, g.router.Domain(), mux, g.Workers); err != nil {
		return nil, nil, err
	}
	m, err := g.mover(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, w.stop())
	}
	stop = func() error { return errors.Join(m.stop(), w.stop()) }
	err = g.warm(ctx, client, ax.Task{Kind: critical}, u.tally)
	if err == nil {
		err = g.warm(ctx, client, ax.Task{Kind: low, Due: time.Now().Add(500 * time.Millisecond)}, l.tally)
	}
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return w, stop, nil
}

// urgent is the critical tasks, which arrive at a steady rate. It is their
// handler.
type urgent struct {
	*ground
	tally *tally
	began time.Time
	sent  []time.Duration // since began; a task is read after it is written
	mu    sync.Mutex
	wait  []time.Duration // by number; zero: not run
}

func (g *ground) newUrgent() *urgent {
	n := int(float64(g.Rate) * g.For.Seconds())
	return &urgent{ground: g, tally: newTally(n), began: time.Now(), sent: make([]time.Duration, n), wait: make([]time.Duration, n)}
}

// HandleTask implements consumer.Handler.
func (u *urgent) HandleTask(_ context.Context, t *ax.Task) error {
	now := time.Since(u.began)
	if n := numberOf(t.Payload); u.tally.mark(n) {
		u.mu.Lock()
		u.wait[n] = now - u.sent[n]
		u.mu.Unlock()
	}
	return nil
}

// arrive submits the tasks, and waits until they were run.
func (u *urgent) arrive(ctx context.Context, client *producer.Client) error {
	var asked answers
	_, err := arrive(ctx, u.Rate, u.For, func(i int) {
		task := ax.Task{Kind: critical, Payload: numbered(uint64(i), u.Payload)}
		u.sent[i] = time.Since(u.began)
		asked.submit(ctx, client, task)
	})
	if err := errors.Join(err, asked.wait()); err != nil {
		return err
	}
	return u.tally.await(ctx, time.Time{})
}

// waits returns how long those waited that were submitted between two instants.
// What was never run is not among them, but lost.
func (u *urgent) waits(from, to time.Time) *samples {
	u.mu.Lock()
	defer u.mu.Unlock()
	var s samples
	for i, wait := range u.wait {
		if at := u.began.Add(u.sent[i]); wait > 0 && !at.Before(from) && at.Before(to) {
			s.add(wait)
		}
	}
	return &s
}

// watched is the most that a worker holds of one lane.
type watched struct {
	most      int
	once      sync.Once
	end, over chan struct{}
}

// watchLane watches a worker until [watched.stop].
func watchLane(w *role, lane string) *watched {
	d := &watched{end: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(d.over)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				for _, l := range w.status().Lanes {
					if l.Lane == lane {
						d.most = max(d.most, l.Buffered+l.Held)
					}
				}
			case <-d.end:
				return
			}
		}
	}()
	return d
}

// stop returns the most. A second call returns the same.
func (d *watched) stop() int {
	d.once.Do(func() { close(d.end) })
	<-d.over
	return d.most
}

// The worker's defaults (consumer.WithBuffer): a lane is polled while it has
// fewer tasks than this that may start, and fewer that may not yet; and this is
// what one poll brings from a broker at most.
const (
	laneBuffer = 2000
	pollBytes  = 4 << 20
)

// laneBound returns how many tasks of a lane a worker may hold at most: what it
// has when it polls for the last time, and what that poll brings. It returns
// false where the brokers don't tell the size of their logs, without which
// nobody knows how many compressed tasks are in a poll.
func (g *ground) laneBound(ctx context.Context, lane string) (int, bool) {
	topic := g.router.Lane(lane)
	ends, err := g.adm.ListEndOffsets(ctx, topic)
	if err != nil || ends.Error() != nil {
		return 0, false
	}
	dirs, err := g.adm.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return 0, false
	}
	tasks, bytes := 0, 0
	ends.Each(func(end kadm.ListedOffset) { tasks += int(end.Offset) })
	dirs.Each(func(d kadm.DescribedLogDir) {
		for _, p := range d.Topics[topic] {
			bytes += int(p.Size)
		}
	})
	if tasks == 0 || bytes == 0 {
		return 0, false
	}
	// Each replica has told its size.
	perTask := float64(bytes) / float64(g.replication) / float64(tasks)
	return 2*laneBuffer + g.brokers*int(pollBytes/perTask), true
}
