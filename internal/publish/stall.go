package publish

import (
	"cmp"
	"slices"
	"time"
)

// alarmEvery is how often an alarm that lasts is told.
const alarmEvery = time.Minute

// Stall says that a topic has had a record open for longer than it should.
type Stall struct {
	Topic string
	Open  int       // records of the topic that have no answer
	Since time.Time // when the oldest of them was published
	Err   error     // the last failure; nil where nothing is heard
}

// Stalled returns the topics that have a record open for longer than
// Config.AlarmAfter, by name; none when all is well.
func (p *Publisher) Stalled() []Stall {
	before := time.Now().Add(-p.cfg.AlarmAfter)
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Stall
	for _, t := range p.targets {
		if t.stalled(before) {
			all = append(all, p.stall(t))
		}
	}
	slices.SortFunc(all, func(a, b Stall) int { return cmp.Compare(a.Topic, b.Topic) })
	return all
}

func (t *target) stalled(before time.Time) bool {
	return t.oldest != nil && !t.oldest.began.After(before)
}

// stall describes a stalled target. Called with the lock held.
func (p *Publisher) stall(t *target) Stall {
	err := p.cfg.Watch.Explain(t.err)
	if err == nil {
		err = p.cfg.Watch.Err()
	}
	return Stall{Topic: t.topic, Open: t.n, Since: t.oldest.began, Err: err}
}

// look raises and clears alarms. It returns how long it has nothing to do, and
// why the client must be replaced now, if it must.
func (p *Publisher) look(now time.Time) (next time.Duration, rebuild error) {
	next = time.Hour
	p.mu.Lock()
	if len(p.retries) > 0 {
		next = p.retries[0].at.Sub(now)
	}
	every := min(p.cfg.AlarmAfter, p.cfg.RebuildAfter) / 8
	var raised []Stall
	var cleared []string
	if p.broken != nil || !now.Before(p.checkAt) {
		raised, cleared = p.alarms(now)
		rebuild = p.mustRebuild(now)
		p.checkAt = now.Add(every)
	}
	if p.open.Load() > 0 || p.alarmed() {
		next = min(next, p.checkAt.Sub(now))
	}
	p.mu.Unlock()
	for _, s := range raised {
		p.cfg.Log.Error("publishes have no answer", "topic", s.Topic, "open", s.Open, "oldest", now.Sub(s.Since).Round(time.Millisecond), "error", s.Err)
	}
	for _, topic := range cleared {
		p.cfg.Log.Info("publishes are answered again", "topic", topic)
	}
	return next, rebuild
}

// alarms returns which stalls are to be told now, and which are over. Called
// with the lock held.
func (p *Publisher) alarms(now time.Time) (raised []Stall, cleared []string) {
	before := now.Add(-p.cfg.AlarmAfter)
	for _, t := range p.targets {
		switch {
		case !t.stalled(before):
			if !t.alarmed.IsZero() {
				t.alarmed = time.Time{}
				cleared = append(cleared, t.topic)
			}
		case now.Sub(t.alarmed) >= alarmEvery:
			t.alarmed = now
			raised = append(raised, p.stall(t))
		}
	}
	return raised, cleared
}

// alarmed reports whether an alarm has to be cleared some time. Called with
// the lock held.
func (p *Publisher) alarmed() bool {
	for _, t := range p.targets {
		if !t.alarmed.IsZero() {
			return true
		}
	}
	return false
}
