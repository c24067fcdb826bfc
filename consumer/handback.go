package consumer

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/axtasks/ax"
)

// unfinished returns copies of all tasks that were read and not finished, by
// partition and offset.
func (s *scheduler) unfinished() []ax.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[*job]bool{}
	var tasks []ax.Task
	add := func(j *job) {
		if j == nil || j.task == nil || seen[j] || !j.part.Open(j.ticket) {
			return
		}
		seen[j] = true
		tasks = append(tasks, copyOf(j.task))
	}
	for _, l := range s.lanes {
		for _, p := range l.parts {
			p.each(add)
		}
	}
	for _, j := range s.gate.jobs {
		add(j)
	}
	for _, sl := range s.slots {
		add(sl.job)
	}
	for j := range s.settling {
		add(j)
	}
	for _, j := range s.interrupted {
		add(j)
	}
	slices.SortFunc(tasks, func(a, b ax.Task) int {
		return cmp.Or(cmp.Compare(a.Source.Topic, b.Source.Topic), cmp.Compare(a.Source.Partition, b.Source.Partition),
			cmp.Compare(a.Source.Offset, b.Source.Offset))
	})
	return tasks
}

// copyOf returns a copy that shares nothing with t.
func copyOf(t *ax.Task) ax.Task {
	c := *t
	c.Payload = bytes.Clone(t.Payload)
	c.Headers = slices.Clone(t.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = bytes.Clone(c.Headers[i].Value)
	}
	return c
}
