package checker

import "time"

// paceStep is how exactly the runs of a process are counted.
const paceStep = int64(100 * time.Millisecond)

// pace counts what each process that runs or submits tasks has settled, over
// time. It grows with the time that processes live, not with what they do.
type pace map[string]*steps

type steps struct {
	first int64   // step
	runs  []int32 // settled in each step since
}

func (p pace) take(f *Fact) {
	if f.Type != Offered && f.Type != Started && f.Type != Settled {
		return
	}
	s := p[f.Proc]
	if s == nil {
		s = &steps{first: f.At / paceStep}
		p[f.Proc] = s
	}
	if f.Type != Settled {
		return
	}
	// Two writers of one process may be a moment out of order.
	i := int(max(f.At/paceStep-s.first, 0))
	for len(s.runs) <= i {
		s.runs = append(s.runs, 0)
	}
	s.runs[i]++
}

// settled returns how many runs the process settled from..to, to a step.
func (p pace) settled(proc string, from, to int64) int64 {
	s := p[proc]
	if s == nil {
		return 0
	}
	var n int64
	for i := max(from/paceStep-s.first, 0); i <= to/paceStep-s.first && i < int64(len(s.runs)); i++ {
		n += int64(s.runs[i])
	}
	return n
}
