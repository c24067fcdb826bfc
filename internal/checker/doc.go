// Package checker is the judge of ax: from facts that the processes of a test
// wrote, it decides which promises held. It shares no code with what it
// judges, so that one mistake can't hide the other.
//
// # Facts
//
// A fact is one line of JSON, a [Fact], appended by one write to a file that
// belongs to one process ([Writer]). A process that is killed can leave half a
// line at the end of its file; it is ignored. Instants are nanoseconds since
// the epoch by the machine's clock ("at", "until"); "own" is the clock of the
// process that wrote the fact, which a test may skew, and "due" and "expires"
// were given by whoever submitted.
//
//	offered     before a submit: id kind lane key due expires limit
//	submitted   when it is acknowledged: id topic partition offset
//	started     a handler begins: id run own due lane key attempt deferrals limit token topic partition offset
//	settled     before it returns: id run own outcome attempt wait
//	dead        found in the dead topic at the end: id reason
//	waiting     found above the commits at the end: id due topic partition offset
//	committed   a commit, in the order of the log of commits: group topic partition offset generation;
//	            offset -1: the commit was deleted
//	fault       what the test did: what proc until, and topics for a reset
//
// The outcomes are done, failed (an attempt is spent), snoozed, permanent,
// cancelled, and interrupted (the context ended because the worker stops or
// lost the partition).
//
// # Faults and what they excuse
//
// At-least-once means repeats, but not any number of them. A record may run
// again where its process was hit: killed, frozen for longer than a session,
// cut off, or with a broker that was hit, which hits them all. All of the
// record's earlier runs must be explained by such a hit: had one been
// committed, nobody would have read the record again. A hit explains what
//
//   - ran when it came, which is [Options].Slots at most, or
//   - had settled less than a window before it: the time between two commits
//     and the time that one takes.
//
// A cut and the fault of a broker also explain what ran while they lasted, and
// until they were settled: nothing could be committed meanwhile. So a kill in
// that time explains no more than they do. A process that is cut off may start
// itself what has another owner by now; one that was frozen only what it had
// chosen before, in the first 100 ms after. An interrupted run needs a hit as
// any other. A clean stop, a start and a rebalance explain nothing.
//
// The repeats of a hit are counted for each process that it hit, and the number
// is judged against the slots and what the process settles in a window. That
// is its rate in the second before the hit, or in the window, if that is more.
//
// A task may have a second record where each run that asked for one was
// explained, or where a process that runs no tasks, a mover, was hit, or a
// broker; then at most as many for each hit as are moved in the time of which
// the hit can have prevented the commits. A reset, which deletes a group's
// commits, excuses what was read from those topics before. All other faults
// (stop, leader, partitions, skew, delay) excuse no repeat. Nothing excuses a
// lost task, an early start or a commit that goes back.
//
// # Files of any length
//
// [Judge] reads the facts once and spreads them by the hash of the task's id
// over files small enough to be judged one at a time; what this leaves to be
// judged by key, and by stretches of a partition, goes the same way. Faults
// and what is counted by process, lane or partition stay in memory; for each
// process that is a number for each tenth of a second of its life.
package checker
