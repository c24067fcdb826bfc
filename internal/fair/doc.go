// Package fair chooses the lane that starts next. It is a pure structure: no
// Kafka, no goroutine, no clock of its own, one caller at a time, and a decision
// costs time in proportion to the lanes and allocates nothing.
//
// # How it decides
//
// What is shared is the time of a pool of slots. A decision is made for each
// slot that is free:
//
//  1. A lane that has work and nothing running, and has had no start for its
//     MaxGap, goes next, the earliest overdue first.
//  2. Else, one of two accounts is next: that of all lanes, or, while a lane's
//     head has waited past its MaxWait, that of such aged lanes, to which the
//     part Aging of the time belongs. The one that is further behind is next.
//  3. In that account the lane goes next that has had the least time for its
//     weight. With Strict the account of all lanes takes the first that has work.
//
// In each of the three, only lanes that no reserve forbids take part.
//
// So with weights w, W their sum over the lanes with work, W' over the aged ones
// and a for Aging, a lane gets the part (1-a)·w/W of the time, and an aged one a·w/W'
// more. When all are aged or none is, those are the weights. Others lose at most
// a to aged lanes, however many there are. (What rule 1 gives comes on top: a slot
// at most for each lane, where its runs last longer than its MaxGap.) Picking the lane that is overdue for
// longest would not do: each takes its turn then, and a heavy lane, whose head
// never waits for long, gets nothing more than a light one.
//
// Rules 2 and 3 are weighted fair queueing of two levels, with time in the place of
// bits: Demers, Keshav, Shenker, Analysis and simulation of a fair queueing algorithm
// (1989); Bennett, Zhang, Hierarchical packet fair queueing algorithms (1996);
// Goyal, Vin, Cheng, Start-time fair queueing (1996), whose virtual time is used here.
//
// # What a start costs its lane
//
// Each account of a lane holds the slot time that it was given, and a lane's tag
// is that divided by its weight. The runs of a lane that are not over yet count
// with what is expected of them or with what they have taken, whichever is more
// in sum. Two numbers do for that: the sum of what is expected, and the sum of their
// start instants, which tells at any moment what they have taken. Charged with
// nothing before its end, a burst of starts would all see the same low tag;
// charged with the expected time and corrected at the end, one run of 300 s
// among runs of 10 ms would look like 10 ms for 300 s, and others like it would
// be started beside it meanwhile. The sums are compared and not each run: that
// charges at least half of what the runs would be charged with one by one, and
// the sum at their end is exact.
//
// # Lent, never banked, never owed
//
// A lane that had no work, or could not run it, resumes at the tag at which the
// last start was made, so it can't claim what it did not use; but not below what
// each of those that may start has used until then, so that a lane that had the
// slots for itself doesn't pay for that. Where no lane had any work, those that
// come are level as to all that is past. In both cases what still runs counts as
// before. What a lane gets by rule 1 beyond its share is charged in full: until
// the others have caught up, rules 1 and 2 alone start it. Lanes that a reserve holds back while others start are moved
// along with those, all by the same amount: they can't claim what they
// were kept from, and go on sharing among themselves what the reserve leaves.
//
// # The bound on the wait of a head
//
// The wait of a lane's head, of a task that no limit or key holds, is at most
//
//	max(MaxGap, own) + ⌈m/n⌉ · longest
//
// own is the longest run of its lane and longest that of any, m is the number of
// lanes, and n how many slots its lane may hold: all of them less the reserves of
// the lanes before it, at least one. [Bound] computes it. Why it holds:
//
//   - A task becomes the head at the last start of its lane, or later. All runs
//     of the lane have begun by then, so own later none is left. So at T, which is
//     max(MaxGap, own) after it became the head, the lane is overdue, and stays so
//     until its next start.
//   - Rule 1 gives a slot that comes free, and that the lane may take, to it or to
//     a lane that is overdue for longer. A lane that is started is not overdue for its
//     MaxGap, counted from that start, which is after T. So each of the other m-1
//     lanes goes before it at most once.
//   - Where a reserve forbids the lane a start, it forbids it to all lanes after
//     the one that has the reserve, so what they hold together only falls until it is
//     allowed again. So within longest of T, and again within each longest
//     after that, n slots come free that the lane may take. It takes one after at
//     most m-1 others: in the round ⌊(m-1)/n⌋ + 1 = ⌈m/n⌉ at the latest.
//
// With these rules no lower bound holds: three lanes on one slot come within two
// milliseconds of it (TestTheBoundIsReached).
//
// Only the head's wait has a bound. How long those behind it wait depends on how
// many they are; the rate at which they leave has a floor, the lane's share.
package fair
