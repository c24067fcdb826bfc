package checker

import (
	"cmp"
	"fmt"
	"slices"
)

// stretch is how many offsets of a partition are judged together.
const stretch = 1 << 14

// tolerance is how much the clocks of one machine's writers may disagree: a
// broker stamps a commit in whole milliseconds.
const tolerance = 2_000_000

// sourced is a run as one of its record, or a commit that passed records.
type sourced struct {
	Topic     string `json:"t"`
	Partition int32  `json:"p"`
	Offset    int64  `json:"o"` // of the record; of a commit, the offset it came from
	Stretch   int64  `json:"s"`
	At        int64  `json:"at"`

	// Of a run.
	ID      string `json:"id,omitempty"`
	Run     string `json:"run,omitempty"`
	Proc    string `json:"proc,omitempty"`
	Settled int64  `json:"e,omitempty"` // zero: never, or interrupted

	// Of a commit.
	Group      string `json:"g,omitempty"`
	To         int64  `json:"to,omitempty"`
	Generation int32  `json:"n,omitempty"`
}

func (s *sourced) key() string {
	if s.Group == "" {
		s.Stretch = s.Offset / stretch
	}
	return fmt.Sprintf("%s/%d/%d", s.Topic, s.Partition, s.Stretch)
}

type groupPartition struct {
	group, topic string
	partition    int32
}

// commitLog is the last commit of each partition.
type commitLog map[groupPartition]*Fact

// committed takes in the next commit.
func (j *judge) committed(f *Fact) error {
	if j.commits == nil {
		j.commits = commitLog{}
	}
	p := j.report.Promise(Commits)
	k := groupPartition{f.Group, f.Topic, f.Partition}
	last := j.commits[k]
	if f.Offset < 0 {
		delete(j.commits, k)
		return nil
	}
	j.commits[k] = f
	p.Checked++
	from := int64(0)
	if last != nil {
		from = last.Offset
		if f.Offset < from {
			p.violated("group %s: %s/%d goes back from %d (generation %d, %s) to %d (generation %d, %s)", f.Group, f.Topic, f.Partition,
				from, last.Generation, clockTime(last.At), f.Offset, f.Generation, clockTime(f.At))
			return nil
		}
	}
	if f.Offset == from {
		return nil
	}
	for s := from / stretch; s <= (f.Offset-1)/stretch; s++ {
		err := j.sources.add(&sourced{
			Topic: f.Topic, Partition: f.Partition, Offset: from, To: f.Offset, Stretch: s,
			At: f.At, Group: f.Group, Generation: f.Generation,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// judgeSources judges whether commits passed runs that had not settled. All
// runs of a record, and all commits that passed it, are in one bucket.
func (j *judge) judgeSources(all []*sourced) error {
	p := j.report.Promise(Commits)
	slices.SortStableFunc(all, func(a, b *sourced) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Stretch, b.Stretch))
	})
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Topic == all[0].Topic && all[n].Partition == all[0].Partition && all[n].Stretch == all[0].Stretch {
			n++
		}
		j.judgeStretch(p, all[:n])
		all = all[n:]
	}
	return nil
}

func (j *judge) judgeStretch(p *Promise, all []*sourced) {
	var commits []*sourced // in the order of their log
	runs := map[int64][]*sourced{}
	for _, s := range all {
		if s.Group != "" {
			commits = append(commits, s)
		} else {
			runs[s.Offset] = append(runs[s.Offset], s)
		}
	}
	for _, o := range slices.Sorted(mapsKeys(runs)) {
		i := slices.IndexFunc(commits, func(c *sourced) bool { return c.Offset <= o && c.To > o })
		if i < 0 {
			continue
		}
		c := commits[i]
		p.Checked++
		if !slices.ContainsFunc(runs[o], func(r *sourced) bool { return r.Settled != 0 && r.Settled <= c.At+tolerance }) {
			r := runs[o][0]
			p.violated("group %s: %s/%d@%d was passed by the commit %d of generation %d at %s: task %s, run %s by %s, started at %s and settled at %s",
				c.Group, c.Topic, c.Partition, o, c.To, c.Generation, clockTime(c.At), r.ID, r.Run, r.Proc, clockTime(r.At), settledText(r.Settled))
		}
	}
}

func settledText(ns int64) string {
	if ns == 0 {
		return "no time"
	}
	return clockTime(ns)
}
