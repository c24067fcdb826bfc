package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/producer"
)

const (
	critical = "critical"
	low      = "low"
	reserve  = 1 // of the slots, for critical tasks
)

// settleTime passes between the first start of a phase and its measurement.
const settleTime = 2 * time.Second

func twoLanes(*Config) ax.Domain {
	return ax.Domain{
		Lanes: []ax.Lane{{Name: critical, Weight: 8, Reserve: reserve}, {Name: low, Weight: 1}},
		Kinds: map[string]ax.Kind{critical: {Lane: critical}, low: {Lane: low}},
	}
}

// priority lets low tasks flood all slots while critical ones arrive. Their
// control is the bare client, which reads the same records at the same time and
// has no low ones to run; that of the flood is the same flood alone, on the slots
// that the reserve leaves.
func priority(ctx context.Context, g *ground) (fs Fields, err error) {
	client, err := g.producer(ctx)
	if err != nil {
		return nil, err
	}
	defer closeClient(ctx, client, &err)
	if _, err := submit(ctx, client, g.N, func(i int) ax.Task {
		return ax.Task{Kind: low, Payload: numbered(uint64(i), g.Payload)}
	}); err != nil {
		return nil, err
	}
	f := &flood{g: g, client: client, low: newTally(g.N)}
	var ours, alone float64
	n := int(float64(g.Rate) * g.For.Seconds())
	u := &arrivals{sent: make([]time.Duration, n), ours: newTally(n), theirs: newTally(n)}
	err = g.both(func() (err error) {
		ours, err = f.phase(ctx, g.router.Domain(), g.Workers, u)
		return err
	}, func() (err error) {
		d := g.router.Domain()
		d.Lanes = append([]ax.Lane{}, d.Lanes...)
		d.Lanes[0].Reserve = 0 // those slots are not there
		alone, err = f.phase(ctx, d, g.Workers-reserve, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	left, doubled := f.low.judge()
	if left == 0 {
		return nil, fmt.Errorf("%d low tasks were not enough to keep the workers busy: want a larger -n", g.N)
	}
	fs.quantiles("critical", &u.wait)
	fs.quantiles("raw_critical", &u.rawWait)
	fs.ratio("critical_p99_ratio", "critical_p99_ms", "raw_critical_p99_ms")
	fs.over("critical_p99_over_ms", "critical_p99_ms", "raw_critical_p99_ms")
	fs.add("low_per_s", int(ours))
	fs.add("raw_low_per_s", int(alone))
	fs.ratio("low_ratio", "low_per_s", "raw_low_per_s")
	fs.add("low_left", left)
	lost, again := u.ours.judge()
	fs.sum("lost", lost)
	fs.sum("doubled", again+doubled)
	fs.counts("raw_", u.theirs)
	return fs, nil
}

// flood is a lane full of low tasks.
type flood struct {
	g      *ground
	client *producer.Client
	low    *tally
}

// arrivals are the critical tasks, and how long each of two readers took to start
// them.
type arrivals struct {
	began         time.Time
	sent          []time.Duration // since began; a task is read after it is written
	ours, theirs  *tally
	wait, rawWait samples
}

func (u *arrivals) mark(t *tally, s *samples, payload []byte) {
	if i := numberOf(payload); t.mark(i) {
		s.add(time.Since(u.began) - u.sent[i])
	}
}

// phase runs a worker for a while and returns how many low tasks a second it
// ran, with critical ones among them unless that is nil.
func (f *flood) phase(ctx context.Context, d ax.Domain, slots int, u *arrivals) (perS float64, err error) {
	g := f.g
	clean()
	flooded := newTally(0) // warm with the first low task
	mux := consumer.NewMux()
	mux.HandleFunc(low, func(ctx context.Context, t *ax.Task) error {
		flooded.mark(warmUp)
		if err := run(ctx, g.Busy); err != nil {
			return err
		}
		f.low.mark(numberOf(t.Payload))
		return nil
	})
	mux.HandleFunc(critical, func(_ context.Context, t *ax.Task) error {
		if u != nil {
			u.mark(u.ours, &u.wait, t.Payload)
		}
		return nil
	})
	w, err := g.worker(ctx, d, mux, slots)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := flooded.awaitWarm(ctx, "the worker"); err != nil {
		return 0, err
	}
	if u != nil {
		u.began = time.Now()
		r, err := g.read(ctx, g.router.Lane(critical), slots, func(_ context.Context, rec *kgo.Record) { u.mark(u.theirs, &u.rawWait, rec.Value) })
		if err != nil {
			return 0, err
		}
		defer r.stop()
		if err := g.warm(ctx, f.client, ax.Task{Kind: critical}, u.ours, u.theirs); err != nil {
			return 0, err
		}
	}
	if err := waitUntil(ctx, time.Now().Add(settleTime)); err != nil {
		return 0, err
	}
	from, at := f.low.different.Load(), time.Now()
	if u == nil {
		err = waitUntil(ctx, at.Add(g.For))
	} else {
		var asked answers
		_, err = arrive(ctx, g.Rate, g.For, func(i int) {
			task := ax.Task{Kind: critical, Payload: numbered(uint64(i), g.Payload)}
			u.sent[i] = time.Since(u.began)
			asked.submit(ctx, f.client, task)
		})
		err = errors.Join(err, asked.wait())
	}
	if err != nil {
		return 0, err
	}
	perS = perSecond(int(f.low.different.Load()-from), time.Since(at))
	if u != nil {
		err = errors.Join(u.ours.await(ctx, time.Time{}), u.theirs.await(ctx, time.Time{}))
	}
	return perS, err
}
