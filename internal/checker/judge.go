package checker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Options say what is to be judged, and how strictly. The zero value of each
// field has a meaning.
type Options struct {
	// Dir is where the facts are spread, in a folder that is removed again.
	// Empty: the system's folder for temporary files.
	Dir string
	// Bucket is how many bytes of facts are judged at a time. Zero: 16 MiB.
	Bucket int64
	// CommitEvery is the time between two commits of a process. Zero: 200 ms.
	CommitEvery time.Duration
	// RoundTrip is how long a commit may take until it is acknowledged, while
	// no broker is hit and nothing is cut. Zero: 300 ms.
	RoundTrip time.Duration
	// Session is how long a process may be frozen before it is missed. Zero: 6 s.
	Session time.Duration
	// Slots is how many tasks a process runs at once. Zero: repeats are
	// explained one by one, and their number is not judged.
	Slots int64
	// Settle is how long after a fault the processes may take until they have
	// come to terms with it. Zero: 20 s.
	Settle time.Duration
	// Copies is how many tasks the movers move a second, all together: so many
	// of them a hit may copy. Zero: 500.
	Copies int64
	// MaxLate is how late a task may start while nothing is wrong. Zero: it
	// is not judged.
	MaxLate time.Duration
	// Patience is for how long a task may have been due that still waits at
	// the end. Zero: 5 s.
	Patience time.Duration
	// Ordered are the lanes that promise the order of their keys.
	Ordered []string
	// Shares, if not nil, asks for the lanes' shares of slot time.
	Shares *Shares
	// End is when the test ended. Zero: now.
	End time.Time
}

func (o Options) withDefaults() Options {
	set(&o.Bucket, 16<<20)
	set(&o.CommitEvery, 200*time.Millisecond)
	set(&o.RoundTrip, 300*time.Millisecond)
	set(&o.Session, 6*time.Second)
	set(&o.Settle, 20*time.Second)
	set(&o.Copies, 500)
	set(&o.Patience, 5*time.Second)
	if o.End.IsZero() {
		o.End = time.Now()
	}
	return o
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// judge is one judgement at work.
type judge struct {
	opts    Options
	report  *Report
	world   *world
	repeats repeats
	pace    pace
	late    time.Duration // the latest start
	latest  time.Duration // and the latest while nothing was wrong

	tasks   *spill[Fact]
	order   *spill[keyed]
	sources *spill[sourced]
	commits commitLog
	used    map[string]map[string]int64 // slot time by process and lane
}

// Judge decides what the facts in files say. It returns an error only when it
// can't judge: a file can't be read, or holds something that is not a fact.
func Judge(files []string, opts Options) (_ *Report, err error) {
	j := &judge{opts: opts.withDefaults(), report: newReport(), repeats: newRepeats(), pace: pace{}, used: map[string]map[string]int64{}}
	dir, err := os.MkdirTemp(j.opts.Dir, "ax-checker-")
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var total int64
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			return nil, fmt.Errorf("judge: %w", err)
		}
		total += st.Size()
	}
	if err := j.open(dir, total); err != nil {
		return nil, err
	}
	if err := j.run(files); err != nil {
		return nil, errors.Join(err, j.tasks.close(), j.order.close(), j.sources.close())
	}
	return j.report, nil
}

func (j *judge) open(dir string, total int64) (err error) {
	if j.tasks, err = newSpill(dir, total, j.opts.Bucket, 0, func(f *Fact) string { return f.ID }); err != nil {
		return err
	}
	if j.order, err = newSpill(dir, total/4, j.opts.Bucket, 0, func(k *keyed) string { return k.Key }); err != nil {
		return err
	}
	j.sources, err = newSpill(dir, total/2, j.opts.Bucket, 0, (*sourced).key)
	return err
}

func (j *judge) run(files []string) error {
	var faults []*Fact
	for _, path := range files {
		err := read(path, func(f *Fact) error {
			j.report.Facts++
			switch f.Type {
			case Fault:
				faults = append(faults, f)
				return nil
			case Committed:
				return j.committed(f)
			case Offered, Submitted, Started, Settled, Dead, Waiting:
				if f.ID == "" {
					return fmt.Errorf("%s: a fact %q names no task", path, f.Type)
				}
				j.pace.take(f)
				return j.tasks.add(f)
			}
			return fmt.Errorf("%s: fact %q is unknown", path, f.Type)
		})
		if err != nil {
			return err
		}
	}
	j.world = newWorld(faults, j.opts, j.pace)
	if err := j.tasks.each(j.judgeTasks); err != nil {
		return err
	}
	j.judgeHits()
	j.note(Idle, "latest start %s, without what faults explain %s", j.late.Round(time.Millisecond), j.latest.Round(time.Millisecond))
	if err := j.order.each(j.judgeKeys); err != nil {
		return err
	}
	if err := j.sources.each(j.judgeSources); err != nil {
		return err
	}
	j.judgeShares()
	return nil
}

func (j *judge) note(n Name, format string, args ...any) {
	j.report.Promise(n).Note += fmt.Sprintf(format, args...)
}

// judgeTasks judges a bucket of facts, in which all facts of its tasks are.
func (j *judge) judgeTasks(facts []*Fact) error {
	tasks := map[string]*task{}
	for _, f := range facts {
		t := tasks[f.ID]
		if t == nil {
			t = &task{id: f.ID, runs: map[string]*run{}}
			tasks[f.ID] = t
		}
		t.add(f)
	}
	for _, t := range tasks {
		j.report.Tasks++
		rs := t.sorted()
		j.judgeEnd(t)
		j.judgeStarts(t, rs)
		j.judgeAttempts(t, rs)
		j.judgeRepeats(t, rs)
		j.judgeTokens(t, rs)
		if err := j.pass(t, rs); err != nil {
			return err
		}
	}
	return nil
}

// pass hands on what is judged by key, by partition and by lane.
func (j *judge) pass(t *task, rs []*run) error {
	for _, r := range rs {
		s := sourced{
			ID: t.id, Topic: r.start.Topic, Partition: r.start.Partition, Offset: r.start.Offset,
			Run: r.id, Proc: r.start.Proc, At: r.start.At, Settled: r.settledAt(),
		}
		if s.Settled != 0 && r.end.Outcome == Interrupted {
			s.Settled = 0
		}
		if s.Topic != "" {
			if err := j.sources.add(&s); err != nil {
				return err
			}
		}
		j.use(r)
	}
	if !slices.Contains(j.opts.Ordered, t.lane()) {
		return nil
	}
	if k, ok := t.keyed(rs); ok {
		return j.order.add(k)
	}
	return nil
}
