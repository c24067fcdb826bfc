package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/group"
)

// deafEvery is how often it is asked which handlers are deaf.
const deafEvery = time.Second

// watchDeaf lends the slots of handlers that go on after their contexts have
// ended, and gives up those that do for too long, until ctx ends.
func (w *Worker) watchDeaf(ctx context.Context) {
	tick := time.NewTicker(deafEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := clock.Now()
		deaf, over := w.sched.lend(now, w.cfg.deafAfter, w.cfg.deafLimit)
		for _, j := range deaf {
			t := j.task
			w.log.Error("a handler goes on although its context has ended", "task", t.ID, "run", t.Run, "kind", t.Kind,
				"attempt", t.Attempt, "lane", t.Lane, "after", w.cfg.deafAfter, "lent", j.lent)
		}
		for _, j := range over {
			w.giveUp(j, now)
		}
	}
}

// mostDeaf is how many slots are lent at most.
func (s *scheduler) mostDeaf() int { return max(s.want/4, 1) }

// lend finds the handlers that are deaf since the last call, and lends their
// slots, and those that are to be given up.
func (s *scheduler) lend(now time.Time, after, limit time.Duration) (deaf, over []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sl := range s.slots {
		j := sl.job
		if j == nil {
			continue
		}
		r := j.active.Load()
		if r == nil || r.settled.Load() || !r.over(now) {
			continue
		}
		if r.deafSince.IsZero() {
			r.deafSince = now
		}
		waits := now.Sub(r.deafSince)
		if waits >= after && waits-deafEvery < after {
			deaf = append(deaf, j)
		}
		if waits >= after && !j.lent && s.deaf < s.mostDeaf() && !s.stopping {
			j.lent = true
			s.deaf++
			s.fair.End(now, j.run)
			s.resize(s.want)
		}
		if waits >= limit {
			over = append(over, j)
		}
	}
	return deaf, over
}

// deafNow returns how many handlers are deaf, and how many may be before the
// worker is unwell. Called with the lock held.
func (s *scheduler) deafNow(now time.Time, after time.Duration) (n, most int) {
	for _, sl := range s.slots {
		if sl.job == nil {
			continue
		}
		if r := sl.job.active.Load(); r != nil && !r.deafSince.IsZero() && now.Sub(r.deafSince) >= after {
			n++
		}
	}
	return n, s.mostDeaf()
}

// giveUp settles a run whose handler has not returned, and may never.
func (w *Worker) giveUp(j *job, now time.Time) {
	r := j.active.Load()
	if r == nil || !r.settled.CompareAndSwap(false, true) {
		return // it has returned
	}
	// The job stays that of the slot, which holds the kind's limit and the
	// partition's permit until the handler returns. What is settled is a copy.
	took := now.Sub(j.picked)
	own := w.sched.copyOf(j)
	if own.verdict == group.Alone {
		own.part.Unmark(own.ticket)
	}
	r.end(r.cause()) // so that it stays the cause, whatever comes
	cause := r.cause()
	err := &interrupted{cause: cause, err: fmt.Errorf("%w for %s", errDeaf, w.cfg.deafLimit)}
	r.report(err)
	w.leases.forget(r.claim)
	w.releaseClaim(r.claim)
	t := own.task
	w.log.Error("a handler that does not return is given up", "task", t.ID, "run", t.Run, "kind", t.Kind, "attempt", t.Attempt,
		"duration", took, "cause", cause, "then", string(own.kind.conf.OnDeaf))
	switch class := classOf(err); {
	case class == "partition_lost" || class == "shutdown":
		w.ended(own, class, took)
		w.forget(own)
	case class == "lease_lost":
		w.deferral(own, class, w.cfg.lease)
	case own.kind.conf.OnDeaf == ax.Retry:
		w.retry(own, "deaf", err, took)
	default:
		w.dead(own, ax.ReasonDeaf, err, t.Attempt, took)
	}
}

var errDeaf = errors.New("the handler did not return although its context had ended")

// copyOf returns what is settled of a job in its place.
func (s *scheduler) copyOf(j *job) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &job{
		task: j.task, kind: j.kind, part: j.part, ticket: j.ticket, size: j.size, ready: j.ready, picked: j.picked,
		since: j.since, noted: j.noted, keyed: j.keyed, verdict: j.verdict, detached: j.detached,
	}
}
