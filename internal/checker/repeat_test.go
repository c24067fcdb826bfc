package checker_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/internal/checker"
)

// pair is a run and its repeat.
func pair(id string, from, to, again int64) (first, second one) {
	first = one{id: id, run: id + "-1", proc: "w1", from: from, to: to, outcome: checker.Done, offset: from}
	return first, one{id: id, run: id + "-2", proc: "w2", from: again, to: again + 10, outcome: checker.Done, offset: from}
}

func TestAKillExplainsOnlyWhatCanNotHaveBeenCommitted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settled, kill, again int64
		explained            bool
	}{
		"half a second before":           {settled: 1000, kill: 1500, again: 9000, explained: true},
		"a little more":                  {settled: 1000, kill: 1501, again: 9000},
		"a repeat from before the kill":  {settled: 0, kill: 2000, again: 1900},
		"and one in flight, from after":  {settled: 0, kill: 2000, again: 2001, explained: true},
		"finished after it is as flight": {settled: 2000, kill: 1999, again: 9000, explained: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, again := pair("a", 990, c.settled, c.again)
			s := tell(t).task("a", 0, 0).run(first).run(again).fault(checker.Kill, "w1", c.kill, c.kill)
			if c.explained {
				s.holds(checker.Doubled)
			} else {
				s.breaks(checker.Doubled, 1, "task a")
			}
		})
	}
}

// What has waited long for its commit when its process was killed may be
// repeated where the commit could not pass, and nowhere else.
func TestAKillDuringAFaultOfABrokerOrACutExplainsMore(t *testing.T) {
	t.Parallel()
	for what, explained := range map[string]bool{checker.Broker: true, checker.Cut: true, "delay": false, "leader": false} {
		first, again := pair("a", 1000, 1010, 9000)
		s := tell(t).task("a", 0, 0).run(first).run(again).fault(what, "w1", 900, 3000).fault(checker.Kill, "w1", 3500, 3501)
		if explained {
			s.holds(checker.Doubled)
		} else {
			s.breaks(checker.Doubled, 1, "finished too long before a kill")
		}
	}
	first, again := pair("a", 1000, 1010, 9000)
	tell(t).task("a", 0, 0).run(first).run(again).fault(checker.Cut, "w2", 900, 3000).fault(checker.Kill, "w1", 3500, 3501).
		holds(checker.Doubled) // by w2, which was cut off: it did not know better
	again.proc = "w3"
	tell(t).task("a", 0, 0).run(first).run(again).fault(checker.Cut, "w2", 900, 3000).fault(checker.Kill, "w1", 3500, 3501).
		breaks(checker.Doubled, 1, "finished too long before a kill")
}

func TestOnlyAFreezeLongerThanASessionIsAHit(t *testing.T) {
	t.Parallel()
	for until, explained := range map[int64]bool{4000: false, 5900: false, 6010: true, 9000: true} {
		first, again := pair("a", 1000, until+50, until+5000)
		s := tell(t).task("a", 0, 0).run(first).run(again).fault(checker.Freeze, "w1", 1005, until)
		if explained {
			s.holds(checker.Doubled)
		} else {
			s.breaks(checker.Doubled, 1, "without a fault of its process")
		}
	}
}

// A thawed process may start what it had chosen when it was frozen. What it
// chooses later, without asking whether it is still a member, is another's.
func TestAThawedProcessStartsNothingOfAnother(t *testing.T) {
	t.Parallel()
	for from, explained := range map[int64]bool{10_050: true, 10_150: false, 11_000: false} {
		first, again := pair("a", 8000, 8010, from)
		s := tell(t).task("a", 0, 0).run(first).run(again).fault(checker.Freeze, "w2", 1000, 10_000)
		if explained {
			s.holds(checker.Doubled)
		} else {
			s.breaks(checker.Doubled, 1, "by a process that was thawed")
		}
		// The other way round: the new owner repeats what the thawed one ran.
		first, again = pair("a", from, from+10, from+500)
		s = tell(t).task("a", 0, 0).run(first).run(again).fault(checker.Freeze, "w1", 1000, 10_000)
		if explained {
			s.holds(checker.Doubled)
		} else {
			s.breaks(checker.Doubled, 1, "by a process that was thawed")
		}
	}
}

func TestACleanStopOrRebalanceRepeatsNothing(t *testing.T) {
	t.Parallel()
	first, again := pair("a", 1000, 1010, 2000)
	tell(t).task("a", 0, 0).run(first).run(again).fault("stop", "w1", 1005, 1800).breaks(checker.Doubled, 1, "after a clean stop")
	tell(t).task("a", 0, 0).run(first).run(again).fault("stop", "w3", 1005, 1800).breaks(checker.Doubled, 1, "without a fault of its process")
	tell(t).task("a", 0, 0).run(first).run(again).fault(checker.Kill, "w3", 1005, 1006).breaks(checker.Doubled, 1, "without a fault of its process")
	// The next attempt of an ordered task begins at the first again.
	first.outcome = checker.Failed
	tell(t).task("a", 0, 0).run(first).run(again).fault("stop", "w1", 1005, 1800).breaks(checker.Doubled, 1, "after a clean stop")
}

// Had one run of a record been committed, nobody would have read it again,
// whatever became of the others.
func TestAllEarlierRunsOfARecordMustBeExplained(t *testing.T) {
	t.Parallel()
	first, again := pair("a", 1000, 0, 3000)
	third := again
	third.run, third.proc, third.from, third.to = "a-3", "w3", 9000, 9010
	s := func() *story {
		return tell(t).task("a", 0, 0).run(first).run(again).run(third).fault(checker.Kill, "w1", 1005, 1006)
	}
	s().breaks(checker.Doubled, 1, "run a-2 by w2")
	s().fault(checker.Kill, "w2", 3400, 3401).holds(checker.Doubled)
}

func TestMoreRepeatsThanAHitExplainsAreTooMany(t *testing.T) {
	t.Parallel()
	tale := func(inFlight, finished int) *story {
		s := tell(t).fault(checker.Kill, "w1", 5000, 5001)
		s.opts.Slots = 4
		add := func(id string, to, again int64) {
			first, second := pair(id, 4600, to, again)
			first.offset, second.offset = int64(len(s.facts)), int64(len(s.facts))
			s.task(id, 0, 0).run(first).run(second)
		}
		for i := range inFlight {
			add(fmt.Sprintf("flight-%d", i), 0, 9000)
		}
		for i := range finished {
			add(fmt.Sprintf("finished-%d", i), 4700, 9000)
		}
		return s
	}
	tale(4, 10).holds(checker.Doubled)
	tale(5, 0).breaks(checker.Doubled, 1, "kill of w1 at 12:00:05.000: 5 repeats, at most 4 are explained")
	require.Contains(t, tale(3, 10).judge().Promise(checker.Doubled).Note, "kill of w1 at 12:00:05.000, 13 repeats / 14")
}

// The rate is that of the process: two hits of two processes have a bound each.
func TestEachHitHasABoundOfItsOwn(t *testing.T) {
	t.Parallel()
	s := tell(t).fault(checker.Kill, "w1", 5000, 5001).fault(checker.Kill, "w3", 5000, 5001)
	s.opts.Slots = 2
	for i := range 3 {
		id := fmt.Sprint(i)
		first, second := pair(id, 4990, 0, 9000)
		first.offset, second.offset = int64(i), int64(i)
		s.task(id, 0, 0).run(first).run(second)
	}
	s.breaks(checker.Doubled, 1, "kill of w1")
}

func TestACopyIsOfARunThatWasRepeatedOrOfAMoverThatWasHit(t *testing.T) {
	t.Parallel()
	failed := func(run, proc string, from, to int64) one {
		return one{id: "a", run: run, proc: proc, from: from, to: to, outcome: checker.Failed, offset: 10}
	}
	retried := func(run string, from, offset int64) one {
		return one{id: "a", run: run, proc: "w2", from: from, to: from + 5, outcome: checker.Done, attempt: 2, offset: offset}
	}
	// The first attempt is repeated after a kill, and each run of it has a retry.
	twice := func() *story {
		return tell(t).task("a", 0, 0).run(failed("1", "w1", 100, 110)).fault(checker.Kill, "w1", 200, 201).run(failed("2", "w2", 300, 310)).
			run(retried("3", 1000, 20)).run(retried("4", 1100, 21))
	}
	twice().holds(checker.Doubled)
	twice().run(retried("5", 1200, 22)).breaks(checker.Doubled, 1, "a record of its own that no hit explains")
	// A worker that is killed copies nothing; a mover does.
	once := func() *story {
		return tell(t).task("a", 0, 0).run(failed("1", "w1", 100, 110)).run(retried("3", 1000, 20)).run(retried("4", 1100, 21))
	}
	once().fault(checker.Kill, "w1", 500, 501).breaks(checker.Doubled, 1, "a record of its own")
	once().fault(checker.Kill, "m1", 500, 501).holds(checker.Doubled)
	// It had copied nothing yet when another record ran first.
	once().fault(checker.Kill, "m1", 1050, 1051).holds(checker.Doubled)
	again := retried("4", 3000, 21)
	late := func(kill int64) *story {
		return tell(t).task("a", 0, 0).run(failed("1", "w1", 100, 110)).run(retried("3", 1000, 20)).run(again).fault(checker.Kill, "m1", kill, kill)
	}
	late(1490).holds(checker.Doubled)
	late(1510).breaks(checker.Doubled, 1, "a record of its own")
	once().fault("stop", "m1", 500, 501).breaks(checker.Doubled, 1, "a record of its own")
}
