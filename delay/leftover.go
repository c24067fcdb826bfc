package delay

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/router"
)

// adopt lets the far tiers' reader read those too that the domain no longer
// names: what waits there comes out in time all the same.
func (r *reader) adopt(ctx context.Context, watch *kafka.Watch, adm *kadm.Client) error {
	left, err := r.m.router.Leftovers(ctx, adm)
	if err != nil {
		return watch.Explain(err)
	}
	r.m.leftovers = left
	for _, l := range left {
		if l.Lane != "" {
			continue // the workers drain it
		}
		r.m.cfg.log.Info("a tier that the domain no longer names is drained", "domain", r.m.domain.Name, "topic", l.Topic)
		r.ids[l.Topic] = l.ID
		r.topics = append(r.topics, l.Topic)
		r.mu.Lock()
		r.tiers[l.Topic] = l.Tier
		r.track(l.Topic)
		r.mu.Unlock()
	}
	return nil
}

// lost returns the topics that the domain no longer names and that exist.
func (m *Mover) lost() []router.Leftover {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.leftovers)
}

// lookLoop lets the far tiers' client forget leftovers that an operator has
// deleted.
func (m *Mover) lookLoop(ctx context.Context, cl *kgo.Client) {
	tick := time.NewTicker(m.lookEvery)
	defer tick.Stop()
	adm := kadm.NewClient(cl)
	for len(m.lost()) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, l := range m.lost() {
			within, cancel := context.WithTimeout(ctx, 10*time.Second)
			gone, err := l.Gone(within, adm)
			cancel()
			if err != nil || !gone {
				continue // asked again at the next tick
			}
			m.cfg.log.Info("a topic that the domain no longer names was deleted", "domain", m.domain.Name, "topic", l.Topic)
			cl.PurgeTopicsFromConsuming(l.Topic)
			m.mu.Lock()
			m.leftovers = slices.DeleteFunc(m.leftovers, func(have router.Leftover) bool { return have.Topic == l.Topic })
			m.mu.Unlock()
		}
	}
}
