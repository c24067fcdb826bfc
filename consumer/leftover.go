package consumer

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
)

// goneEvery is how often it is asked whether a leftover was deleted.
const goneEvery = 15 * time.Second

// leftovers adds the lanes that the domain does not name any more: their tasks
// are drained, at the lowest weight. It returns the ids of their topics. Where
// the cluster can't be asked, the worker works without them.
func (w *Worker) leftovers(ctx context.Context, opts []kgo.Opt) map[string][16]byte {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found, err := w.router.Leftovers(ctx, kadm.NewClient(cl))
	if err != nil {
		w.log.Warn("lanes that the domain no longer names are not looked for", "domain", w.domain.Name, "error", err)
		return nil
	}
	weight := slices.MinFunc(w.domain.Lanes, func(a, b ax.Lane) int { return cmp.Compare(a.Weight, b.Weight) })
	ids := map[string][16]byte{}
	for _, l := range found {
		if l.Lane == "" {
			continue
		}
		w.log.Warn("a lane that the domain no longer names is drained", "domain", w.domain.Name, "lane", l.Lane, "topic", l.Topic)
		w.addLane(ax.Lane{Name: l.Lane, Weight: weight.Weight, MaxWait: weight.MaxWait, MaxGap: weight.MaxGap, Partitions: l.Partitions}, l.Topic)
		w.lanes[len(w.lanes)-1].leftover = &l
		ids[l.Topic] = l.ID
	}
	return ids
}

// watchLeftover lets the lane's client forget its topic when an operator has
// deleted it, which they may once it is drained: the client would go on asking
// for it as fast as it can. It returns when there is nothing left to watch, or
// ctx ends.
func (w *Worker) watchLeftover(ctx context.Context, l *lane) {
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	adm := kadm.NewClient(l.member.Kafka())
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		within, cancel := context.WithTimeout(ctx, 10*time.Second)
		gone, err := l.leftover.Gone(within, adm)
		cancel()
		if err == nil && gone {
			w.log.Info("a topic that the domain no longer names was deleted", "domain", w.domain.Name, "topic", l.topic)
			l.member.Kafka().PurgeTopicsFromConsuming(l.topic)
			return
		}
	}
}
