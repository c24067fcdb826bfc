// Package trim deletes from a domain's lanes and tiers what all groups that read
// them have committed. It is a role of its own, which needs the permission
// DELETE on the topics; a mover can play it beside its own.
//
// # What may be deleted
//
// A commit is the lowest offset that is not finished, so what is below it is
// done with. Of each partition, what is below the lowest commit of all its
// readers goes: ax's own group and, of a lane, those that the domain's file
// names beside it. The partition stays as it is while one of them has no
// commit, can't be asked, or has one that is not to be trusted:
//
//   - it is beyond the log's end, or
//   - it is of ax's own group and its metadata names another topic. A topic that
//     was deleted and made anew has the name of the old one, whose commits may
//     outlive it; below them are records that nobody has read. Metadata that is
//     empty, as an operator's tools commit it, is taken on trust.
//
// Of other groups only the range can be checked. The dead topic is never asked
// for: it is compacted.
//
// # How a round goes
//
//	topics and their ids → commits of each group → starts, then ends of the logs
//	→ topics and ids again → one DeleteRecords
//
// The order matters: an end that is asked for after the commits is not below a
// commit that belongs to the log, and a topic that was made anew meanwhile has
// another id. Each question has a deadline, and one that fails blocks what it
// was asked for and nothing else.
package trim

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/router"
)

// Bounds of the calls of a round. What a broker answers within none of them is
// asked again in the next.
const (
	askTimeout    = 10 * time.Second
	deleteTimeout = 20 * time.Second
)

// Trimmer trims one domain. Make it with [New]. Rounds must not overlap.
type Trimmer struct {
	router *router.Router
	adm    *kadm.Client
	watch  *kafka.Watch
	log    *slog.Logger
}

// New returns a trimmer that asks through adm, whose connections watch sees. It
// talks to nobody.
func New(r *router.Router, adm *kadm.Client, watch *kafka.Watch, log *slog.Logger) *Trimmer {
	return &Trimmer{router: r, adm: adm, watch: watch, log: log}
}

// Run trims at once and then at the domain's interval, until ctx ends. What
// fails is logged, once in a round, and tried again in the next.
func (t *Trimmer) Run(ctx context.Context) {
	tick := time.NewTicker(t.router.Domain().Trim.Every)
	defer tick.Stop()
	for {
		report, err := t.Once(ctx)
		if ctx.Err() != nil {
			return
		}
		t.tell(report, err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (t *Trimmer) tell(r Report, err error) {
	domain := t.router.Domain().Name
	if err != nil {
		t.log.Error("trim failed; nothing is lost, but disk is not freed", "domain", domain, "error", err)
	}
	if waits := r.waits(t.router.Domain().Trim.Groups); len(waits) > 0 {
		t.log.Warn("nothing is trimmed for want of a commit of a group that the domain lists", "domain", domain, "topics", waits)
	}
	t.log.Debug("trimmed", "domain", domain, "deleted", r.Deleted())
}

// Once makes one round and says what it did. Its error joins all that kept it
// from what it should have deleted; the rest was deleted all the same. A group
// that has not committed yet is no error: it is in the report only.
func (t *Trimmer) Once(ctx context.Context) (Report, error) {
	before, err := t.list(ctx)
	if err != nil {
		return Report{}, err
	}
	topics, err := t.topics(ctx, before)
	if err != nil {
		return Report{}, err
	}
	f := facts{commits: t.commits(ctx, topics)}
	f.starts, f.startErr = t.offsets(ctx, topics, t.adm.ListStartOffsets)
	f.ends, f.endErr = t.offsets(ctx, topics, t.adm.ListEndOffsets)
	now, err := t.list(ctx)
	if err != nil {
		return Report{}, err
	}
	var b book
	below := kadm.Offsets{}
	for _, topic := range topics {
		switch d, ok := now[topic.name]; {
		case topic.unknown, !ok && !topic.leftover:
			b.block(topic.name, allPartitions, obstacle{err: errUnknown})
		case !ok: // a leftover that was deleted meanwhile
		case d.ID != topic.id:
			b.block(topic.name, allPartitions, obstacle{err: errAnew})
		default:
			for p := range topic.partitions {
				at, obstacles := f.bound(topic, p)
				for _, o := range obstacles {
					b.block(topic.name, p, o)
				}
				if len(obstacles) == 0 && at > f.start(topic.name, p) {
					below.AddOffset(topic.name, p, at, -1)
				}
			}
		}
	}
	t.delete(ctx, below, &f, &b)
	return b.report(), b.err(t.watch.Explain)
}

// delete deletes what is below the offsets and books it.
func (t *Trimmer) delete(ctx context.Context, below kadm.Offsets, f *facts, b *book) {
	if len(below) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	answers, err := t.adm.DeleteRecords(ctx, below)
	below.Each(func(o kadm.Offset) {
		d, ok := answers.Lookup(o.Topic, o.Partition)
		switch {
		case ok && d.Err != nil:
			b.block(o.Topic, o.Partition, obstacle{doing: "delete records", err: d.Err})
		case ok:
			b.deleted(o.Topic, o.At-f.start(o.Topic, o.Partition))
		case err != nil:
			b.block(o.Topic, o.Partition, obstacle{doing: "delete records", err: err})
		default:
			b.block(o.Topic, o.Partition, obstacle{doing: "delete records", err: errSilent})
		}
	})
}
