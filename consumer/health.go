package consumer

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/telemetry"
)

// stallAfter is how long something that should move may stand still before the
// worker says that it is not well.
const stallAfter = 30 * time.Second

// Status is what a worker does at one moment.
type Status struct {
	Running  bool         `json:"running"` // between Run's beginning and a stop
	Slots    int          `json:"slots"`
	Busy     int          `json:"busy"`               // slots that run a task
	Settling int          `json:"settling"`           // publishes without an answer
	Deaf     int          `json:"deaf"`               // handlers that go on long after their contexts ended
	Problems []string     `json:"problems,omitempty"` // why it is not well
	Lanes    []LaneStatus `json:"lanes"`
	Kinds    []KindStatus `json:"kinds"` // that have a handler, by name
}

// KindStatus is a worker's part in one kind.
type KindStatus struct {
	Kind    string `json:"kind"`
	Running int    `json:"running"`
	// Breaker is "closed", "open" or "half-open", or "held open" or "held
	// closed" where an operator holds it; empty without a breaker. Failures in a
	// row that it has counted, and the last of them.
	Breaker     string `json:"breaker,omitempty"`
	Failures    int    `json:"failures"`
	LastFailure string `json:"last_failure,omitempty"`
	// OverBudget counts the retries that had to wait for longer than their
	// back-off asks, because of the kind's RetryBudget, since New.
	OverBudget int64 `json:"over_budget"`
}

// LaneStatus is a worker's part in one lane.
type LaneStatus struct {
	Lane       string `json:"lane"`
	Joined     bool   `json:"joined"`     // the group gave this worker its partitions, none perhaps
	Partitions int    `json:"partitions"` // that it owns
	Lag        int64  `json:"lag"`        // records of them that it has not read, as far as it knows
	Buffered   int    `json:"buffered"`   // tasks that may start
	Held       int    `json:"held"`       // tasks that are not due yet, or that wait in place

	Running     int     `json:"running"`      // slots that it holds
	SlotSeconds float64 `json:"slot_seconds"` // that it was given since Run
	Starts      uint64  `json:"starts"`       // since Run
	// AgedStarts were made in the part of the time that is set aside for lanes
	// past their MaxWait, GapStarts because of its MaxGap.
	AgedStarts uint64 `json:"aged_starts"`
	GapStarts  uint64 `json:"gap_starts"`
	// WorstHeadWait is the longest that one of its tasks has been the head,
	// in nanoseconds in JSON. The time that a limit held it is in it.
	WorstHeadWait time.Duration `json:"worst_head_wait"`
	// LimitedBy is a kind that fills the lane's buffer while its concurrency is
	// reached, so that the lane's other tasks wait behind it. Give that kind a
	// lane of its own.
	LimitedBy string `json:"limited_by,omitempty"`
}

// Status returns what the worker does now. It asks nobody and doesn't block;
// what it tells of the brokers is at most some seconds old. It may be called at
// any time.
func (w *Worker) Status() Status {
	w.life.mu.Lock()
	s := Status{Running: w.life.working, Slots: w.Settings().Slots}
	w.life.mu.Unlock()
	if !s.Running {
		return s
	}
	now := time.Now()
	w.sched.mu.Lock()
	s.Busy, s.Settling = w.sched.fair.Running(), len(w.sched.settling)
	var most int
	s.Deaf, most = w.sched.deafNow(now, w.cfg.deafAfter)
	if s.Deaf > most {
		s.Problems = append(s.Problems, fmt.Sprintf("%d handlers go on although their contexts have ended; the slots of %d are lent to others", s.Deaf, most))
	}
	for i, l := range w.lanes {
		got := w.sched.fair.Stats(i, now)
		s.Lanes = append(s.Lanes, LaneStatus{
			Lane: l.conf.Name, Buffered: l.buffered, Held: l.held, Running: got.Running, SlotSeconds: got.Used,
			Starts: got.Starts, AgedStarts: got.Aged, GapStarts: got.Gap, WorstHeadWait: got.MaxWait, LimitedBy: w.sched.limitedBy(l),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(w.kinds)) {
		k := w.kinds[name]
		s.Kinds = append(s.Kinds, KindStatus{Kind: name, Running: k.running, OverBudget: k.budget.longer.Load()})
	}
	w.sched.mu.Unlock()
	for i := range s.Kinds {
		k := &s.Kinds[i]
		k.Breaker, k.Failures, k.LastFailure = w.kinds[k.Kind].breaker.state()
	}
	for i, l := range w.lanes {
		ls := &s.Lanes[i]
		ls.Joined = l.member.Joined()
		ls.Partitions, ls.Lag = l.member.Lag()
		for _, stall := range l.member.Stalls(now, stallAfter) {
			where := "lane " + l.conf.Name
			if stall.Partition >= 0 {
				where += fmt.Sprintf(", partition %d", stall.Partition)
			}
			s.Problems = append(s.Problems, fmt.Sprintf("%s: %s, for %s", where, stall.Why, now.Sub(stall.Since).Round(time.Second)))
		}
	}
	for _, stall := range w.pub.Stalled() {
		s.Problems = append(s.Problems, fmt.Sprintf("topic %s: %d records without an answer, the first since %s ago: %v",
			stall.Topic, stall.Open, time.Since(stall.Since).Round(time.Second), stall.Err))
	}
	if p := w.trouble.told(clock.Now()); p != "" {
		s.Problems = append(s.Problems, p)
	}
	return s
}

// measure returns what the metrics tell of the worker.
func (w *Worker) measure() telemetry.Worker {
	out := telemetry.Worker{Slots: w.Settings().Slots, Lanes: make([]telemetry.Lane, len(w.lanes))}
	now := clock.Now()
	w.sched.mu.Lock()
	defer w.sched.mu.Unlock()
	for i, l := range w.lanes {
		got := w.sched.fair.Stats(i, now)
		out.Lanes[i] = telemetry.Lane{
			Name: l.conf.Name, Weight: l.conf.Weight, Running: got.Running, Used: got.Used, Buffered: l.buffered, Held: l.held,
			Starts: map[string]uint64{"share": got.Starts - got.Aged - got.Gap, "aged": got.Aged, "gap": got.Gap},
		}
	}
	return out
}

// trouble is since when the store fails.
type trouble struct {
	failing atomic.Bool

	mu    sync.Mutex
	since time.Time
	last  error
}

// tell takes in what a call of the store returned.
func (t *trouble) tell(err error) {
	if err == nil && !t.failing.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing.Store(err != nil)
	if t.last = err; err == nil {
		t.since = time.Time{}
	} else if t.since.IsZero() {
		t.since = clock.Now()
	}
}

// told returns what is wrong, where that lasts.
func (t *trouble) told(now time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() || now.Sub(t.since) <= stallAfter {
		return ""
	}
	return fmt.Sprintf("the store fails since %s ago, and nothing is started: %v", now.Sub(t.since).Round(time.Second), t.last)
}

// Healthy returns nil while everything moves that should: what it owns and has
// records is read, commits and publishes are answered, the store answers. A
// worker that is idle is healthy, and so is one whose slots are all busy. Else
// it returns an error that matches ax.ErrStalled and says why, or ax.ErrNotRunning.
// It doesn't block.
func (w *Worker) Healthy() error { return w.healthy(w.Status()) }

func (w *Worker) healthy(s Status) error {
	if !s.Running {
		return fmt.Errorf("ax: worker of domain %s: %w", w.domain.Name, ax.ErrNotRunning)
	}
	errs := make([]error, len(s.Problems))
	for i, p := range s.Problems {
		errs[i] = errors.New(p)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ax: worker of domain %s: %w: %w", w.domain.Name, ax.ErrStalled, err)
	}
	return nil
}

// Ready returns nil once the worker takes part in all of its groups, while it
// is healthy; else an error as of [Worker.Healthy], or one that matches
// ax.ErrNotJoined.
func (w *Worker) Ready() error {
	s := w.Status()
	if err := w.healthy(s); err != nil {
		return err
	}
	for _, l := range s.Lanes {
		if !l.Joined {
			return fmt.Errorf("ax: worker of domain %s: lane %s: %w", w.domain.Name, l.Lane, ax.ErrNotJoined)
		}
	}
	return nil
}

// HealthHandler answers with 200 and "ok" while check returns nil, else with
// 503 and the error's text:
//
//	http.Handle("/livez", consumer.HealthHandler(worker.Healthy))
//	http.Handle("/readyz", consumer.HealthHandler(worker.Ready))
func HealthHandler(check func() error) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		rw.Header().Set("Cache-Control", "no-store")
		if err := check(); err != nil {
			rw.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(rw, err)
			return
		}
		_, _ = fmt.Fprintln(rw, "ok")
	})
}
