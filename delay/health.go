package delay

import (
	"errors"
	"fmt"
	"time"

	"github.com/axtasks/ax"
)

// stallAfter is how long something that should move may stand still before the
// mover says that it is not well.
const stallAfter = 30 * time.Second

// Healthy returns nil while everything moves that should: what is due leaves,
// what is owned is read, commits and publishes are answered. Else it returns an
// error that matches ax.ErrStalled and says why, or ax.ErrNotRunning. It
// doesn't block; what it tells of the brokers is at most some seconds old. For
// an HTTP endpoint see consumer.HealthHandler.
func (m *Mover) Healthy() error {
	if !m.working.Load() {
		return fmt.Errorf("ax: mover of domain %s: %w", m.domain.Name, ax.ErrNotRunning)
	}
	if err := errors.Join(m.problems()...); err != nil {
		return fmt.Errorf("ax: mover of domain %s: %w: %w", m.domain.Name, ax.ErrStalled, err)
	}
	return nil
}

// problems returns what stands still that should move.
func (m *Mover) problems() (errs []error) {
	now := time.Now()
	for _, r := range m.readers {
		for _, s := range r.member.Stalls(now, stallAfter) {
			where := r.name
			if s.Partition >= 0 {
				where += fmt.Sprintf(", partition %d", s.Partition)
			}
			errs = append(errs, fmt.Errorf("%s: %s, for %s", where, s.Why, now.Sub(s.Since).Round(time.Second)))
		}
		for _, s := range r.pub.Stalled() {
			errs = append(errs, fmt.Errorf("%s: topic %s: %d records without an answer, the first since %s ago: %w",
				r.name, s.Topic, s.Open, time.Since(s.Since).Round(time.Second), orSilent(s.Err)))
		}
		errs = append(errs, r.overdue()...)
	}
	return errs
}

var errSilent = errors.New("nothing is heard")

func orSilent(err error) error {
	if err == nil {
		return errSilent
	}
	return err
}

// Ready returns nil once the mover takes part in both of its groups, while it is
// healthy; else an error as of [Mover.Healthy], or one that matches
// ax.ErrNotJoined.
func (m *Mover) Ready() error {
	if err := m.Healthy(); err != nil {
		return err
	}
	for _, r := range m.readers {
		if !r.member.Joined() {
			return fmt.Errorf("ax: mover of domain %s: group %s: %w", m.domain.Name, r.group, ax.ErrNotJoined)
		}
	}
	return nil
}
