package consumer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/publish"
)

// maxUnfinished is how many records of one partition may be read and not
// finished.
const maxUnfinished = 10_000

// open makes the client that publishes and a member for each lane. On an error
// nothing is left open.
func (w *Worker) open(ctx, tasks context.Context) error {
	base, watch, err := kafka.Options(w.domain, "worker", w.log)
	if err != nil {
		return err
	}
	ids, err := w.ask(ctx, slices.Concat(base, w.cfg.kafka), watch)
	if err != nil {
		return err
	}
	w.pub, err = publish.Open(publish.Config{
		Open: func(own ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(slices.Concat(base, kafka.Producing(w.domain), w.router.Options(), w.cfg.kafka, own)...)
		},
		Watch: watch, Log: w.log,
	})
	if err != nil {
		return err
	}
	if w.cfg.store != nil {
		w.leases = newLeases(w.cfg.store, w.cfg.lease, w.log)
	}
	maps.Copy(ids, w.leftovers(ctx, slices.Concat(base, w.cfg.kafka)))
	w.settings.mu.Lock()
	now := w.settings.now
	w.sched = newScheduler(now.Slots, w.lanes, w.kinds)
	w.sched.apply(now, clock.Now()) // it may have been changed since New
	w.settings.mu.Unlock()
	for i, l := range w.lanes {
		l.member, err = group.New(group.Config{
			Name: "worker", Group: l.group, Protocol: w.domain.Kafka.GroupProtocol, Topics: []string{l.topic}, IDs: ids,
			// The fetch buffers are what a lane holds beside its own buffer.
			Opts:  slices.Concat(base, []kgo.Opt{kgo.FetchMaxBytes(4 << 20), kgo.FetchMaxPartitionBytes(1 << 20)}, w.cfg.kafka),
			Watch: watch, Log: w.log, Base: tasks,
			CommitEvery: w.cfg.commitEvery, RevokeWait: min(w.cfg.grace, 15*time.Second),
			MaxUnfinished: maxUnfinished, Exact: true, Quarantine: true,
			Dropped: func(ps []*group.Partition) { w.sched.drop(l, ps) },
			Moved:   w.sched.poke,
		})
		if err != nil {
			w.pub.Close()
			w.lanes = w.lanes[:i]
			return errors.Join(err, w.closeMembers())
		}
	}
	return nil
}

// ask makes sure that the worker can work before it joins a group, and takes
// partitions from one that can. It returns the ids of the domain's topics.
func (w *Worker) ask(ctx context.Context, opts []kgo.Opt, watch *kafka.Watch) (map[string][16]byte, error) {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	if err := kafka.Ping(ctx, cl, watch, 10*time.Second); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return kafka.TopicIDs(ctx, cl, watch, w.router.Topics()...)
}
