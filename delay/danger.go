package delay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// A broker looks for what it may delete each five minutes.
	dangerEvery = time.Minute
	// An alarm that lasts is told again.
	alarmEvery = 10 * time.Minute
)

// danger watches the topics for settings that would lose tasks that wait: an
// operator's hand may change them at any time.
type danger struct {
	mu     sync.Mutex
	found  []string
	denied string // why nothing can be found
}

// list returns what was found.
func (d *danger) list() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Clone(d.found)
	if d.denied != "" {
		all = append(all, d.denied)
	}
	return all
}

// count returns how many settings were found.
func (d *danger) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.found)
}

// watch looks until ctx ends.
func (d *danger) watch(ctx context.Context, m *Mover, cl *kgo.Client) {
	adm := kadm.NewClient(cl)
	tick := time.NewTicker(dangerEvery)
	defer tick.Stop()
	var told time.Time // when the log was last told
	for {
		within, cancel := context.WithTimeout(ctx, 10*time.Second)
		changes, err := m.router.Endangered(within, adm, m.lost()...)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case denied(err):
			if d.deny(err) {
				m.cfg.log.Warn("the topics' settings may not be read: a retention that loses tasks would not be noticed", "domain", m.domain.Name, "error", err)
			}
		case err != nil:
			m.cfg.log.Warn("the topics' settings could not be read", "domain", m.domain.Name, "error", err)
		default:
			now := make([]string, len(changes))
			for i, c := range changes {
				now[i] = c.String()
			}
			if d.set(now) || time.Since(told) >= alarmEvery {
				told = time.Now()
				for _, c := range changes {
					m.cfg.log.Error("a topic's setting loses tasks", "domain", m.domain.Name, "topic", c.Topic, "setting", c.What, "is", c.From, "want", c.To, "why", c.Reason)
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// set takes in what was found, and reports whether that is news.
func (d *danger) set(now []string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	news := !slices.Equal(now, d.found)
	d.found, d.denied = now, ""
	return news
}

// deny notes that the settings may not be read, and reports whether that is news.
func (d *danger) deny(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	news := d.denied == ""
	d.denied = fmt.Sprintf("the topics' settings may not be read, so that one that loses tasks would not be noticed: %v", err)
	return news
}

func denied(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed)
}
