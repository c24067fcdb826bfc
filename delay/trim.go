package delay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// trimLoop deletes at each interval what all groups are done with.
func (m *Mover) trimLoop(ctx context.Context, cl *kgo.Client) {
	tick := time.NewTicker(m.domain.Trim)
	defer tick.Stop()
	adm := kadm.NewClient(cl)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		within, cancel := context.WithTimeout(ctx, 30*time.Second)
		if err := m.trim(within, adm); err != nil && ctx.Err() == nil {
			m.cfg.log.Error("trim failed; nothing is lost, but disk is not freed", "domain", m.domain.Name, "error", err)
		}
		cancel()
	}
}

// trim deletes the records of lanes and tiers below the committed offset of
// the group that reads them. A group without a commit, or one that can't be
// asked, keeps its records.
func (m *Mover) trim(ctx context.Context, adm *kadm.Client) error {
	readers := map[string][]string{m.router.NearGroup(): {m.router.Near()}}
	for _, t := range m.router.Tiers() {
		readers[m.router.FarGroup()] = append(readers[m.router.FarGroup()], t.Topic)
	}
	for _, l := range m.domain.Lanes {
		readers[m.router.LaneGroup(l.Name)] = []string{m.router.Lane(l.Name)}
	}
	for _, l := range m.lost() {
		readers[l.Group] = append(readers[l.Group], l.Topic)
	}
	var errs []error
	below := kadm.Offsets{}
	for group, topics := range readers {
		commits, err := adm.FetchOffsetsForTopics(ctx, group, topics...)
		if errors.Is(err, kerr.GroupIDNotFound) {
			continue // nobody has read yet: everything is kept
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("commits of group %s: %w", group, err))
			continue
		}
		for _, topic := range topics {
			for partition, c := range commits[topic] {
				if c.Err == nil && c.At > 0 {
					below.AddOffset(topic, partition, c.At, -1)
				}
			}
		}
	}
	if len(below) == 0 {
		return errors.Join(errs...)
	}
	deleted, err := adm.DeleteRecords(ctx, below)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	deleted.Each(func(d kadm.DeleteRecordsResponse) {
		if d.Err != nil {
			errs = append(errs, fmt.Errorf("%s/%d below %d: %w", d.Topic, d.Partition, below[d.Topic][d.Partition].At, d.Err))
		}
	})
	return errors.Join(errs...)
}
