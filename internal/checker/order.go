package checker

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

func num(n int) string { return strconv.Itoa(n) }

// keyed is what the order of a key is judged by: one task.
type keyed struct {
	Key       string     `json:"k"`
	ID        string     `json:"id"`
	Topic     string     `json:"t"`
	Partition int32      `json:"p"`
	Offset    int64      `json:"o"`
	Ended     int64      `json:"e"` // the first end; zero: none
	Runs      []keyedRun `json:"r"`
}

type keyedRun struct {
	Proc        string `json:"p"`
	From        int64  `json:"f"`
	To          int64  `json:"t"` // zero: it never returned
	Interrupted bool   `json:"i,omitempty"`
}

// keyed returns the task's part in the order of its key. Its place in the log
// is that of the record which first ran, else that of its submit.
func (t *task) keyed(rs []*run) (*keyed, bool) {
	k := &keyed{ID: t.id}
	switch {
	case len(rs) > 0:
		s := rs[0].start
		k.Key, k.Topic, k.Partition, k.Offset = s.Key, s.Topic, s.Partition, s.Offset
	case t.submitted != nil && t.offered != nil && t.offered.Due == 0:
		k.Key, k.Topic, k.Partition, k.Offset = t.offered.Key, t.submitted.Topic, t.submitted.Partition, t.submitted.Offset
	}
	if k.Key == "" {
		return nil, false
	}
	for _, r := range rs {
		k.Runs = append(k.Runs, keyedRun{Proc: r.start.Proc, From: r.start.At, To: r.settledAt(), Interrupted: r.outcome() == Interrupted})
		over := false
		switch r.outcome() {
		case Done, Cancelled, Permanent:
			over = true
		case Failed:
			limit := r.start.Limit
			if t.offered != nil {
				limit = t.offered.Limit
			}
			over = r.start.Attempt >= limit
		}
		if over && (k.Ended == 0 || r.end.At < k.Ended) {
			k.Ended = r.end.At
		}
	}
	return k, true
}

// judgeKeys judges a bucket in which all tasks of its keys are.
func (j *judge) judgeKeys(tasks []*keyed) error {
	slices.SortFunc(tasks, func(a, b *keyed) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	for len(tasks) > 0 {
		n := 1
		for n < len(tasks) && tasks[n].Key == tasks[0].Key && tasks[n].Topic == tasks[0].Topic {
			n++
		}
		j.judgeOrder(tasks[:n])
		j.judgeOverlap(tasks[:n])
		tasks = tasks[n:]
	}
	return nil
}

// judgeOrder requires that all tasks before one in the log had an end when it
// started.
func (j *judge) judgeOrder(tasks []*keyed) {
	p := j.report.Promise(Order)
	var last *keyed // of those before, the one that ended last
	for _, t := range tasks {
		p.Checked++
		for _, r := range t.Runs {
			switch {
			case last == nil || r.From >= last.end():
				continue
			case last.Ended == 0:
				p.violated("key %s: task %s (%s/%d@%d) starts at %s by %s, and task %s (@%d) before it has no end", t.Key, t.ID,
					t.Topic, t.Partition, t.Offset, clockTime(r.From), r.Proc, last.ID, last.Offset)
			default:
				p.violated("key %s: task %s (%s/%d@%d) starts at %s by %s, %s before the end of task %s (@%d)", t.Key, t.ID,
					t.Topic, t.Partition, t.Offset, clockTime(r.From), r.Proc, span(last.Ended-r.From), last.ID, last.Offset)
			}
			break
		}
		if last == nil || t.end() > last.end() {
			last = t
		}
	}
}

func (k *keyed) end() int64 {
	if k.Ended == 0 {
		return math.MaxInt64
	}
	return k.Ended
}

// judgeOverlap requires that no two runs of a key are at work at once, unless
// the process of one was hit and its partition taken over.
func (j *judge) judgeOverlap(tasks []*keyed) {
	p := j.report.Promise(Order)
	type one struct {
		keyedRun
		id string
	}
	var runs []one
	for _, t := range tasks {
		for _, r := range t.Runs {
			runs = append(runs, one{r, t.ID})
		}
	}
	slices.SortFunc(runs, func(a, b one) int { return cmp.Compare(a.From, b.From) })
	var last one
	for i, r := range runs {
		if i > 0 && (last.To == 0 || last.To > r.From) && !last.Interrupted && j.world.hit(last.Proc, last.From, r.From, r.From) == nil && j.world.hit(r.Proc, r.From, r.From, r.From) == nil {
			p.violated("key %s: task %s starts at %s by %s while task %s runs, since %s by %s", tasks[0].Key, r.id,
				clockTime(r.From), r.Proc, last.id, clockTime(last.From), last.Proc)
		}
		if i == 0 || r.To == 0 || r.To > last.To {
			last = r
		}
	}
}
