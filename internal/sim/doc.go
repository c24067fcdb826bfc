// Package sim says what a domain's worker would do with a load, before anything
// is deployed: it is what "ax sim" runs.
//
// # How data flows
//
// Arrivals come from feeds: the loads that a file describes ([ParseLoad]), or the
// rows of a recording ([Recording]). Each passes the domain's router, the one
// that producer, mover and worker ask, from tier to tier to its lane. There it
// waits for the scheduler of package fair, which is asked as the worker asks it.
// What fails takes the router again after its kind's back-off:
//
//	feeds → router ⇄ tiers
//	          ↓  ↑ retries
//	        lanes → fair.Scheduler → slots → tallies → Result
//
// All of it happens in virtual time. The next event, an arrival, a task that
// leaves a tier or is due, or a run that ends, is taken from a heap and the
// instant is set to its own; nothing sleeps, and there is one goroutine. Random
// numbers come from the seed alone, so that a run can be repeated, and those of
// arrivals from a generator of their own for each load: the arrivals of two runs
// are the same, whatever the domains that are compared.
//
// # What is left out
//
// Kafka, movers and the processor cost no time, and one worker owns all
// partitions. There are no keys, breakers, snoozes and stores. See docs/sim.md.
package sim
