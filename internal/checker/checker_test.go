package checker_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/internal/checker"
)

// story builds facts. Its times are milliseconds since a beginning.
type story struct {
	t     *testing.T
	facts []checker.Fact
	opts  checker.Options
}

var beginning = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(ms int64) int64 { return beginning.Add(time.Duration(ms) * time.Millisecond).UnixNano() }

func tell(t *testing.T) *story {
	return &story{t: t, opts: checker.Options{Dir: t.TempDir(), End: beginning.Add(time.Hour), Ordered: []string{"keyed"}}}
}

func (s *story) add(f checker.Fact) *story {
	s.facts = append(s.facts, f)
	return s
}

// task submits a task; due is zero for one due at once.
func (s *story) task(id string, ms, due int64) *story {
	f := checker.Fact{Type: checker.Offered, At: at(ms), Proc: "p", ID: id, Lane: "high", Limit: 3}
	if due != 0 {
		f.Due = at(due)
	}
	return s.add(f).add(checker.Fact{Type: checker.Submitted, At: at(ms + 1), Proc: "p", ID: id, Topic: "high", Offset: ms})
}

// one is a run of a task.
type one struct {
	id, run, proc      string
	from, to           int64 // to zero: it never returned
	outcome            string
	attempt, deferrals int
	due, skew          int64
	offset             int64
	token              int64
	key, lane          string
	wait               time.Duration
}

func (s *story) run(o one) *story {
	start := checker.Fact{
		Type: checker.Started, At: at(o.from), Own: at(o.from + o.skew), Proc: o.proc, ID: o.id, Run: o.run, Attempt: max(o.attempt, 1),
		Deferrals: o.deferrals, Topic: "high", Offset: o.offset, Token: o.token, Key: o.key, Lane: o.lane,
	}
	if o.due != 0 {
		start.Due = at(o.due)
	}
	s.add(start)
	if o.to != 0 {
		s.add(checker.Fact{Type: checker.Settled, At: at(o.to), Own: at(o.to + o.skew), Proc: o.proc, ID: o.id, Run: o.run,
			Outcome: o.outcome, Wait: int64(o.wait)})
	}
	return s
}

func (s *story) fault(what, proc string, from, to int64) *story {
	return s.add(checker.Fact{Type: checker.Fault, What: what, Proc: proc, At: at(from), Until: at(to)})
}

func (s *story) commit(ms, offset int64) *story {
	return s.add(checker.Fact{Type: checker.Committed, At: at(ms), Proc: "-", Group: "g", Topic: "high", Offset: offset, Generation: 1})
}

func (s *story) judge() *checker.Report {
	s.t.Helper()
	files := map[string]*bytes.Buffer{}
	for _, f := range s.facts {
		if files[f.Proc] == nil {
			files[f.Proc] = &bytes.Buffer{}
		}
		require.NoError(s.t, json.NewEncoder(files[f.Proc]).Encode(f))
	}
	dir := s.t.TempDir()
	var paths []string
	for name, b := range files {
		path := filepath.Join(dir, name+".jsonl")
		require.NoError(s.t, os.WriteFile(path, b.Bytes(), 0o600))
		paths = append(paths, path)
	}
	r, err := checker.Judge(paths, s.opts)
	require.NoError(s.t, err)
	left, err := os.ReadDir(s.opts.Dir)
	require.NoError(s.t, err)
	require.Empty(s.t, left, "the judge cleans up")
	return r
}

// holds requires that no promise was broken.
func (s *story) holds(judged ...checker.Name) {
	s.t.Helper()
	r := s.judge()
	for _, n := range r.Failed() {
		s.t.Errorf("%s: %v", n, r.Promise(n).Examples)
	}
	for _, n := range judged {
		require.True(s.t, r.Promise(n).OK(), "%s was not judged", n)
	}
}

// breaks requires that this promise was broken, by that many violations, and
// no other.
func (s *story) breaks(n checker.Name, violations int64, example string) {
	s.t.Helper()
	r := s.judge()
	require.Equal(s.t, []checker.Name{n}, r.Failed(), "%v", r.Promise(n).Examples)
	require.Equal(s.t, violations, r.Promise(n).Violations, "%v", r.Promise(n).Examples)
	require.Contains(s.t, strings.Join(r.Promise(n).Examples, "\n"), example)
}

func done(id string, from, to int64) one {
	return one{id: id, run: id + "-1", proc: "w1", from: from, to: to, outcome: checker.Done, offset: from}
}

func TestAnOrdinaryTaskBreaksNothing(t *testing.T) {
	t.Parallel()
	tell(t).task("a", 0, 0).run(done("a", 10, 20)).commit(30, 11).
		holds(checker.Lost, checker.Early, checker.Attempts, checker.Doubled, checker.Commits)
}

func TestATaskWithoutAnEndIsLost(t *testing.T) {
	t.Parallel()
	t.Run("that never started", func(t *testing.T) {
		t.Parallel()
		tell(t).task("a", 0, 0).task("b", 0, 0).run(done("b", 10, 20)).breaks(checker.Lost, 1, "task a ()")
	})
	t.Run("whose retry never came", func(t *testing.T) {
		t.Parallel()
		r := done("a", 10, 20)
		r.outcome = checker.Failed
		tell(t).task("a", 0, 0).run(r).breaks(checker.Lost, 1, "ended failed")
	})
	t.Run("whose death was lost", func(t *testing.T) {
		t.Parallel()
		r := done("a", 10, 20)
		r.outcome = checker.Permanent
		tell(t).task("a", 0, 0).run(r).breaks(checker.Lost, 1, "ended permanent")
	})
	t.Run("that nobody has submitted", func(t *testing.T) {
		t.Parallel()
		tell(t).run(done("a", 10, 20)).breaks(checker.Lost, 1, "nobody has submitted it")
	})
}

func TestOtherEndsAreEndsToo(t *testing.T) {
	t.Parallel()
	s := tell(t).task("dead", 0, 0).task("waits", 0, 0).task("cancelled", 0, 0)
	r := done("dead", 10, 20)
	r.outcome = checker.Permanent
	s.run(r).add(checker.Fact{Type: checker.Dead, At: at(30), ID: "dead", Reason: "permanent", Proc: "-"})
	r = done("cancelled", 12, 22)
	r.outcome = checker.Cancelled
	s.run(r)
	s.add(checker.Fact{Type: checker.Waiting, At: at(40), ID: "waits", Due: at(2 * 3600_000), Proc: "-"})
	s.add(checker.Fact{Type: checker.Offered, At: at(0), ID: "expired", Expires: at(5), Limit: 3, Proc: "p"})
	s.add(checker.Fact{Type: checker.Submitted, At: at(1), ID: "expired", Proc: "p"})
	s.add(checker.Fact{Type: checker.Offered, At: at(0), ID: "unknown outcome", Limit: 3, Proc: "p"})
	s.holds(checker.Lost, checker.Idle)
}

func TestAStartBeforeItsTimeIsEarly(t *testing.T) {
	t.Parallel()
	t.Run("before the task is due", func(t *testing.T) {
		t.Parallel()
		tell(t).task("a", 0, 1000).run(done("a", 999, 1005)).breaks(checker.Early, 1, "1ms before it is due")
	})
	t.Run("by the clock of the process", func(t *testing.T) {
		t.Parallel()
		r := done("a", 990, 1005)
		r.skew = 20
		tell(t).task("a", 0, 1000).run(r).holds(checker.Early)
		r = done("a", 1010, 1015)
		r.skew = -20
		tell(t).task("a", 0, 1000).run(r).breaks(checker.Early, 1, "10ms before")
	})
	t.Run("before a wait is over", func(t *testing.T) {
		t.Parallel()
		first := one{id: "a", run: "1", proc: "w1", from: 10, to: 20, outcome: checker.Failed, wait: time.Second}
		tell(t).task("a", 0, 0).run(first).
			run(one{id: "a", run: "2", proc: "w1", from: 1019, to: 1025, outcome: checker.Done, attempt: 2, due: 1010, offset: 5}).
			breaks(checker.Early, 1, "1ms before the wait is over that run 1 asked for")
	})
}

func TestAttemptsAreCountedRight(t *testing.T) {
	t.Parallel()
	failed := func(attempt int, from int64) one {
		return one{id: "a", run: fmt.Sprint(attempt), proc: "w1", from: from, to: from + 5, outcome: checker.Failed, attempt: attempt, offset: from}
	}
	dead := checker.Fact{Type: checker.Dead, At: at(90), ID: "a", Reason: "failed", Proc: "-"}
	t.Run("three of three", func(t *testing.T) {
		t.Parallel()
		tell(t).task("a", 0, 0).run(failed(1, 10)).run(failed(2, 20)).run(failed(3, 30)).add(dead).holds(checker.Attempts, checker.Lost)
	})
	t.Run("one above the limit", func(t *testing.T) {
		t.Parallel()
		tell(t).task("a", 0, 0).run(failed(1, 10)).run(failed(2, 20)).run(failed(3, 30)).run(failed(4, 40)).add(dead).
			breaks(checker.Attempts, 1, "attempt 4 of 3")
	})
	t.Run("one that nothing has spent", func(t *testing.T) {
		t.Parallel()
		last := failed(3, 30)
		last.outcome = checker.Done
		tell(t).task("a", 0, 0).run(failed(1, 10)).run(last).breaks(checker.Attempts, 1, "attempt 2 has not failed")
	})
	t.Run("dead too soon", func(t *testing.T) {
		t.Parallel()
		tell(t).task("a", 0, 0).run(failed(1, 10)).run(failed(2, 20)).add(dead).breaks(checker.Attempts, 1, "after attempt 2 of 3")
	})
	t.Run("dead for no reason", func(t *testing.T) {
		t.Parallel()
		for _, reason := range []string{"permanent", "malformed"} {
			d := dead
			d.Reason = reason
			tell(t).task("a", 0, 0).add(d).breaks(checker.Attempts, 1, "dead ("+reason+")")
		}
	})
}

func TestARepeatNeedsAFaultThatExplainsIt(t *testing.T) {
	t.Parallel()
	again := one{id: "a", run: "2", proc: "w2", from: 9000, to: 9010, outcome: checker.Done, offset: 1000}
	first := one{id: "a", run: "1", proc: "w1", from: 1000, to: 1010, outcome: checker.Done, offset: 1000}
	flight := first
	flight.to = 0
	interrupted := first
	interrupted.outcome = checker.Interrupted
	copied := again
	copied.offset = 2000
	for name, c := range map[string]struct {
		first, again      one
		what, proc        string
		from, to          int64
		explained, copied bool
	}{
		"nothing happened":               {first: first, again: again},
		"killed in flight":               {first: flight, again: again, what: checker.Kill, proc: "w1", from: 1005, to: 1006, explained: true},
		"killed before the commit":       {first: first, again: again, what: checker.Kill, proc: "w1", from: 1200, to: 1201, explained: true},
		"killed long after":              {first: first, again: again, what: checker.Kill, proc: "w1", from: 4000, to: 4001},
		"killed before it began":         {first: first, again: again, what: checker.Kill, proc: "w1", from: 500, to: 501},
		"another process was killed":     {first: first, again: again, what: checker.Kill, proc: "w3", from: 1005, to: 1006},
		"stopped":                        {first: first, again: again, what: "stop", proc: "w1", from: 1005, to: 1200},
		"interrupted by a hit":           {first: interrupted, again: again, what: checker.Freeze, proc: "w1", from: 1005, to: 7000, explained: true},
		"interrupted at a clean stop":    {first: interrupted, again: again, what: "stop", proc: "w1", from: 1005, to: 1200},
		"interrupted by nothing":         {first: interrupted, again: again},
		"frozen while it ran":            {first: first, again: again, what: checker.Freeze, proc: "w1", from: 1005, to: 7000, explained: true},
		"the one that repeats was cut":   {first: first, again: again, what: checker.Cut, proc: "w2", from: 3000, to: 8990, explained: true},
		"a broker was down":              {first: first, again: again, what: checker.Broker, proc: "-", from: 900, to: 4000, explained: true},
		"a copy of a killed mover":       {first: first, again: copied, what: checker.Kill, proc: "m1", from: 900, to: 901, explained: true},
		"a copy out of nowhere":          {first: first, again: copied},
		"the same record, and no copy":   {first: first, again: again, what: checker.Kill, proc: "m1", from: 900, to: 901},
		"a copy older than any fault":    {first: first, again: copied, what: checker.Kill, proc: "m1", from: 12000, to: 12001},
		"frozen, but the run came later": {first: first, again: again, what: checker.Freeze, proc: "w1", from: -90_000, to: -80_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tell(t).task("a", 0, 0).run(c.first).run(c.again)
			if c.what != "" {
				s.fault(c.what, c.proc, c.from, c.to)
			}
			if c.explained {
				s.holds(checker.Doubled)
			} else {
				s.breaks(checker.Doubled, 1, "task a: attempt 1 (deferrals 0) starts again")
			}
		})
	}
}

func TestAResetExplainsWhatWasReadBeforeIt(t *testing.T) {
	t.Parallel()
	first := one{id: "a", run: "1", proc: "w1", from: 1000, to: 1010, outcome: checker.Done, offset: 1000}
	again := one{id: "a", run: "2", proc: "w2", from: 9000, to: 9010, outcome: checker.Done, offset: 1000}
	reset := checker.Fact{Type: checker.Fault, What: checker.Reset, Proc: "-", At: at(5000), Until: at(5001), Topics: []string{"high"}}
	tell(t).task("a", 0, 0).run(first).run(again).add(reset).holds(checker.Doubled)
	reset.Topics = []string{"low"}
	tell(t).task("a", 0, 0).run(first).run(again).add(reset).breaks(checker.Doubled, 1, "task a")
}

// A deferral starts the same attempt again, and is no repeat.
func TestASnoozeIsNoRepeat(t *testing.T) {
	t.Parallel()
	tell(t).task("a", 0, 0).
		run(one{id: "a", run: "1", proc: "w1", from: 10, to: 20, outcome: checker.Snoozed, wait: time.Second, offset: 10}).
		run(one{id: "a", run: "2", proc: "w1", from: 1030, to: 1040, outcome: checker.Done, deferrals: 1, due: 1020, offset: 20}).
		holds(checker.Doubled, checker.Early)
}

func TestSoManyCopiesNoHitCanExplain(t *testing.T) {
	t.Parallel()
	s := tell(t).fault(checker.Kill, "m1", 50, 51)
	s.opts.Copies = 4 // a second, of which half a one counts
	for i := range 3 {
		id := fmt.Sprint(i)
		s.task(id, 0, 0)
		s.run(one{id: id, run: id + "-1", proc: "w1", from: 100, to: 110, outcome: checker.Done, offset: int64(i)})
		s.run(one{id: id, run: id + "-2", proc: "w1", from: 200, to: 210, outcome: checker.Done, offset: int64(10 + i)})
	}
	s.breaks(checker.Doubled, 1, "kill of m1 at 12:00:00.050: 3 copies of tasks, at most 2 are explained")
}

func TestACommitNeverGoesBackAndPassesNothingUnfinished(t *testing.T) {
	t.Parallel()
	t.Run("back", func(t *testing.T) {
		t.Parallel()
		tell(t).task("a", 0, 0).run(done("a", 10, 20)).commit(30, 11).commit(40, 11).commit(50, 9).
			breaks(checker.Commits, 1, "high/0 goes back from 11 (generation 1, 12:00:00.040) to 9")
	})
	t.Run("back after it was deleted", func(t *testing.T) {
		t.Parallel()
		tell(t).task("a", 0, 0).run(done("a", 10, 20)).commit(30, 11).commit(40, -1).commit(50, 9).holds(checker.Commits)
	})
	t.Run("past a running task", func(t *testing.T) {
		t.Parallel()
		tell(t).task("a", 0, 0).run(done("a", 10, 20)).commit(15, 11).breaks(checker.Commits, 1, "high/0@10 was passed by the commit 11")
	})
	t.Run("just up to a running task", func(t *testing.T) {
		t.Parallel()
		tell(t).task("a", 0, 0).run(done("a", 10, 20)).commit(15, 10).commit(30, 11).holds(checker.Commits)
	})
	t.Run("past one that was only interrupted", func(t *testing.T) {
		t.Parallel()
		r := done("a", 10, 20)
		r.outcome = checker.Interrupted
		again := done("a", 40, 50)
		again.run, again.offset = "a-2", 10
		tell(t).task("a", 0, 0).fault(checker.Cut, "w1", 5, 9).run(r).run(again).commit(30, 11).breaks(checker.Commits, 1, "settled at no time")
	})
	t.Run("past one that another run had settled", func(t *testing.T) {
		t.Parallel()
		late := done("a", 12, 60)
		late.run, late.offset, late.proc = "a-2", 10, "w2"
		tell(t).task("a", 0, 0).fault(checker.Cut, "w2", 5, 9).run(done("a", 10, 20)).run(late).commit(30, 11).holds(checker.Commits)
	})
	t.Run("far ahead", func(t *testing.T) {
		t.Parallel()
		r := done("a", 10, 20)
		r.offset = 100_000
		tell(t).task("a", 0, 0).run(r).commit(5, 1).commit(12, 200_000).breaks(checker.Commits, 1, "high/0@100000 was passed")
	})
}

func TestADueTaskThatWaitsForNothingStandsIdle(t *testing.T) {
	t.Parallel()
	t.Run("at the end", func(t *testing.T) {
		t.Parallel()
		tell(t).task("a", 0, 1000).add(checker.Fact{Type: checker.Waiting, At: at(9000), ID: "a", Due: at(1000), Topic: "near", Offset: 7, Proc: "-"}).
			breaks(checker.Idle, 1, "waits at near/0@7")
	})
	t.Run("on its way", func(t *testing.T) {
		t.Parallel()
		s := tell(t).task("a", 0, 1000).run(done("a", 32_000, 32_010))
		s.opts.MaxLate = 30 * time.Second
		s.breaks(checker.Idle, 1, "31s late while nothing was wrong")
	})
	t.Run("while something was wrong", func(t *testing.T) {
		t.Parallel()
		s := tell(t).task("a", 0, 1000).run(done("a", 32_000, 32_010)).fault("leader", "-", 5000, 5001)
		s.opts.MaxLate = 30 * time.Second
		s.holds(checker.Idle)
	})
}

func TestTokensRise(t *testing.T) {
	t.Parallel()
	first := one{id: "a", run: "1", proc: "w1", from: 10, to: 20, outcome: checker.Interrupted, token: 5}
	second := one{id: "a", run: "2", proc: "w2", from: 30, to: 40, outcome: checker.Done, token: 6}
	tell(t).task("a", 0, 0).fault(checker.Cut, "w1", 15, 16).run(first).run(second).holds(checker.Lease)
	second.token = 5
	tell(t).task("a", 0, 0).fault(checker.Cut, "w1", 15, 16).run(first).run(second).breaks(checker.Lease, 1, "has token 5, the run before it 5")
	first.outcome, second.token = checker.Done, 6
	tell(t).task("a", 0, 0).fault(checker.Kill, "w1", 15, 16).run(first).run(second).breaks(checker.Lease, 1, "done by run 1")
}

func TestTheTasksOfAKeyRunOneAtATimeAndInOrder(t *testing.T) {
	t.Parallel()
	keyed := func(id string, offset, from, to int64) one {
		return one{id: id, run: id + "-1", proc: "w1", from: from, to: to, outcome: checker.Done, offset: offset, key: "k", lane: "keyed"}
	}
	tasks := func(t *testing.T) *story {
		s := tell(t)
		for _, id := range []string{"a", "b"} {
			s.add(checker.Fact{Type: checker.Offered, At: at(0), Proc: "p", ID: id, Lane: "keyed", Key: "k", Limit: 3})
			s.add(checker.Fact{Type: checker.Submitted, At: at(1), Proc: "p", ID: id, Topic: "high", Offset: map[string]int64{"a": 1, "b": 2}[id]})
		}
		return s
	}
	t.Run("in order", func(t *testing.T) {
		t.Parallel()
		tasks(t).run(keyed("a", 1, 10, 20)).run(keyed("b", 2, 20, 30)).holds(checker.Order)
	})
	t.Run("out of order", func(t *testing.T) {
		t.Parallel()
		tasks(t).run(keyed("b", 2, 10, 20)).run(keyed("a", 1, 30, 40)).breaks(checker.Order, 1, "30ms before the end of task a (@1)")
	})
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		tasks(t).run(keyed("a", 1, 10, 20)).run(keyed("b", 2, 15, 30)).breaks(checker.Order, 2, "while task a runs")
	})
	t.Run("before the failed one is tried again", func(t *testing.T) {
		t.Parallel()
		failed := keyed("a", 1, 10, 20)
		failed.outcome = checker.Failed
		again := keyed("a", 1, 40, 50)
		again.run, again.attempt = "a-2", 2
		tasks(t).run(failed).run(keyed("b", 2, 25, 35)).run(again).breaks(checker.Order, 1, "25ms before the end of task a")
	})
	t.Run("again by one that did not know that it was evicted", func(t *testing.T) {
		t.Parallel()
		late := keyed("a", 1, 9000, 9010)
		late.run, late.proc = "a-2", "w2"
		tasks(t).fault(checker.Cut, "w2", 1000, 8990).run(keyed("a", 1, 10, 20)).run(keyed("b", 2, 9005, 9030)).run(late).holds(checker.Order, checker.Doubled)
	})
}

func TestSharesOfSlotTime(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.opts.Shares = &checker.Shares{Weights: map[string]int{"high": 3, "low": 1}, From: beginning, Until: beginning.Add(time.Second), Points: 2}
	add := func(id, lane string, from, to int64) {
		s.task(id, 0, 0)
		s.run(one{id: id, run: id, proc: "w1", from: from, to: to, outcome: checker.Done, lane: lane, offset: from})
	}
	add("a", "high", 0, 740)
	add("b", "low", 0, 260)
	add("c", "low", 2000, 9000) // outside of the window
	s.holds(checker.Share)
	add("d", "low", 300, 400)
	s.breaks(checker.Share, 2, "w1: lane low had 32.7 %")
}

func TestHalfALineAtTheEndIsLeftOutAndOtherNonsenseIsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.jsonl")
	w, err := checker.NewWriter(path, "p")
	require.NoError(t, err)
	w.Write(checker.Fact{Type: checker.Offered, ID: "a"})
	require.NoError(t, w.Close())
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"f":"submitted","id":"a"`)
	require.NoError(t, err)
	r, err := checker.Judge([]string{path}, checker.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, int64(1), r.Facts)

	_, err = f.WriteString("\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = checker.Judge([]string{path}, checker.Options{Dir: t.TempDir()})
	require.ErrorContains(t, err, "f.jsonl:2")

	for line, want := range map[string]string{`{"f":"guessed","id":"a"}`: `"guessed" is unknown`, `{"f":"started"}`: "names no task"} {
		require.NoError(t, os.WriteFile(path, []byte(line+"\n"), 0o600))
		_, err = checker.Judge([]string{path}, checker.Options{Dir: t.TempDir()})
		require.ErrorContains(t, err, want)
	}
	_, err = checker.Judge([]string{path + "x"}, checker.Options{Dir: t.TempDir()})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTheReportsLastLineCounts(t *testing.T) {
	t.Parallel()
	r := tell(t).task("a", 0, 0).task("b", 0, 1000).run(done("a", 10, 20)).judge()
	var b strings.Builder
	require.NoError(t, r.Print(&b))
	require.True(t, strings.HasSuffix(b.String(), "\n3 passed, 1 failed\n"), b.String())
	require.Contains(t, b.String(), "FAILED  lost ")
	require.Contains(t, b.String(), "-       share")
}
