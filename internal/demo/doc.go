// Package demo is what "ax demo" runs: a domain with a load, a worker and a
// mover, and a balance at the end that does not trust any of them.
//
// # The load
//
// Tasks of several kinds go to the four default lanes. Half of all are of lane
// low and come as a flood, all within the first two of every ten seconds, so
// that lane has a backlog while the others should not wait. Some tasks are
// delayed by up to 20 s and pass through tiers of 2 s, 5 s and 10 s; some fail
// and come back, some of these until they are dead; some snooze once.
//
// # The balance
//
// Each task that was submitted, by the receipt of its id, must be one of: done,
// its handler returned nil; dead, its id was read in the dead topic; waiting,
// its id was read in a lane or tier behind what the group there has committed,
// once all roles had stopped. An id found nowhere is lost. Counters of the
// library play no part in it. Ids that are done or dead are forgotten, so that
// a run without end needs bounded memory.
package demo
