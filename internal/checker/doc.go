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
// At-least-once means repeats, but not any number of them. A run may be
// repeated when it was interrupted, or when its process was hit while it ran,
// or at most a slack before, so that it was finished but not committed: by
// kill, freeze or cut (of that process), or broker (of them all); and it may be a repeat itself
// where its process was hit by freeze, cut or broker, and did not know yet that
// another has taken over. A task may
// be copied when a process was hit between its submit and its start, and only
// so often for each hit. A reset, which deletes a group's commits, excuses
// what was read from those topics before. All other faults (stop, leader,
// partitions, skew, delay) excuse no repeat. Nothing excuses a lost task, an
// early start or a commit that goes back.
//
// # Files of any length
//
// [Judge] reads the facts once and spreads them by the hash of the task's id
// over files small enough to be judged one at a time; what this leaves to be
// judged by key, and by stretches of a partition, goes the same way. Faults
// and what is counted by process, lane or partition stay in memory.
package checker
