package group

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// watch is what a member knows of its own health.
type watch struct {
	commits  error     // why the last commit failed
	since    time.Time // the first of the failures in a row
	lookErr  error
	lookFrom time.Time // the first failure of these in a row
}

const (
	// After so long without news, the end of a partition is asked for.
	lookEvery = 10 * time.Second
	// After so long a commit is made again though nothing has changed: what a
	// broker has forgotten of it, or an operator has deleted, would let the next
	// owner begin at the start of the log.
	commitAgain = 10 * time.Minute
)

// Stall is something that should move and doesn't.
type Stall struct {
	Partition int32 // -1: the whole member
	Since     time.Time
	Why       string
}

func (m *Member) commitResult(err error, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watch.commits = err; err == nil {
		m.watch.since = time.Time{}
	} else if m.watch.since.IsZero() {
		m.watch.since = now
	}
}

// tickLoop notes that the process runs, until ctx ends. Nothing may hold it up.
func (m *Member) tickLoop(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.alive.tick(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// lookLoop looks at the ends of quiet logs, until ctx ends.
func (m *Member) lookLoop(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.look(ctx, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// look asks where the logs end of which nothing was heard for a while: only so
// it can be told whether they are idle or stand still.
func (m *Member) look(ctx context.Context, now time.Time) {
	quiet := map[string][]*Partition{}
	unread := false // where reading begins is not known of some
	for _, p := range m.Partitions() {
		p.mu.Lock()
		if !p.took.IsZero() && now.Sub(p.took) >= commitAgain && !p.stale {
			p.stale = true
			m.wake()
		}
		if now.Sub(p.read) >= lookEvery {
			quiet[p.Topic] = append(quiet[p.Topic], p)
			unread = unread || p.window.Next() == 0
		}
		p.mu.Unlock()
	}
	var failed error
	adm := kadm.NewClient(m.kafka)
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	for topic, ps := range quiet {
		ends, err := adm.ListEndOffsets(ctx, topic)
		starts := kadm.ListedOffsets{}
		if err == nil && unread {
			starts, err = adm.ListStartOffsets(ctx, topic)
		}
		if err != nil {
			failed = err
			continue
		}
		for _, p := range ps {
			p.heard(starts, ends, now)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watch.lookErr = failed; failed == nil {
		m.watch.lookFrom = time.Time{}
	} else if m.watch.lookFrom.IsZero() {
		m.watch.lookFrom = now
	}
}

// heard takes in where the partition's log begins and ends.
func (p *Partition) heard(starts, ends kadm.ListedOffsets, now time.Time) {
	end, ok := ends.Lookup(p.Topic, p.ID)
	if !ok || end.Err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if start, ok := starts.Lookup(p.Topic, p.ID); ok && start.Err == nil {
		p.from = max(p.from, start.Offset)
	}
	switch p.end = end.Offset; {
	case p.lag() == 0:
		p.behind = time.Time{}
	case p.behind.IsZero() && !p.member.busy.Load():
		p.behind = now
	}
}

// lag returns how many records are not read yet. Called with the lock held.
func (p *Partition) lag() int64 {
	if next := max(p.window.Next(), p.from); next > 0 || p.from == 0 {
		return max(p.end-next, 0)
	}
	return 0
}

// Lag returns how many records of the partition are not read yet, as far as it
// is known.
func (p *Partition) Lag() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lag()
}

// Joined reports whether the member was given its partitions, none perhaps.
func (m *Member) Joined() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.joined
}

// Lag returns how many partitions the member owns, and how many records of them
// it has not read yet, as far as it knows: what it last heard of their ends.
func (m *Member) Lag() (owned int, lag int64) {
	for _, p := range m.Partitions() {
		owned++
		p.mu.Lock()
		lag += p.lag()
		p.mu.Unlock()
	}
	return owned, lag
}

// Stalls returns what has not moved for longer than bound although it should:
// commits that fail, a group that has forgotten the member, partitions that are
// owned and not read although their log goes on.
func (m *Member) Stalls(now time.Time, bound time.Duration) (stalls []Stall) {
	m.mu.Lock()
	w := m.watch
	m.mu.Unlock()
	if w.commits != nil && now.Sub(w.since) > bound {
		stalls = append(stalls, Stall{Partition: -1, Since: w.since, Why: fmt.Sprintf("commits fail: %v", w.commits)})
	}
	if w.lookErr != nil && now.Sub(w.lookFrom) > bound {
		stalls = append(stalls, Stall{Partition: -1, Since: w.lookFrom, Why: fmt.Sprintf("no broker tells where the log ends: %v", m.cfg.Watch.Explain(w.lookErr))})
	}
	if since, ok := m.alive.unknownSince(); ok && m.Joined() && now.Sub(since) > bound {
		stalls = append(stalls, Stall{Partition: -1, Since: since, Why: "no heartbeat was answered: nothing is started"})
	}
	for _, p := range m.Partitions() {
		if s, ok := p.stall(now, bound); ok {
			stalls = append(stalls, s)
		}
	}
	return stalls
}

func (p *Partition) stall(now time.Time, bound time.Duration) (Stall, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stall{Partition: p.ID}
	switch {
	case p.pauses&PauseWindow != 0:
		o, _ := p.window.Lowest()
		s.Since, s.Why = p.full, fmt.Sprintf("%d unfinished records, the first of them at offset %d, hold up what is behind them", p.window.Len(), o)
	case p.pauses != 0 || p.stopping || p.behind.IsZero() || p.member.busy.Load():
		return s, false
	default:
		s.Since, s.Why = p.behind, fmt.Sprintf("owned and not read, though %d records wait", p.lag())
	}
	return s, now.Sub(s.Since) > bound
}
