// Package router is the one place that knows the names of a domain's topics
// and groups, and to which topic a task goes next. Producer, mover and worker
// all ask it, so that they can't disagree.
//
// # Routing
//
// A task that is due within the lead goes to its lane. What waits longer goes
// through fixed-wait hops: as often as it fits through the largest tier, then
// the next smaller, and at last through the near tier, whose records are due
// within the shortest tier and may stand in any order.
//
// Let W be the window and T1 < … < Tn the tiers. A record waits Ti - W in tier
// Ti, so that a delay of exactly Ti comes out with W left and needs one far hop
// and the near one. With at the instant from which the wait counts and
// d = due - at, the task goes to the largest Ti ≤ d + W/4, else to the near
// tier; the quarter window forgives a submit that comes a moment after the
// caller computed the due time. The record carries the nominal instant
// at + Ti - W as its leave time, and the next hop counts from that instant and
// not from the clock, so that the few milliseconds that each hop is late don't
// add up. The nominal instant is clamped to now - W/2 … now + W/10: neither a
// mover far behind nor a forged header can misplace a record.
//
// # Provisioning
//
// [Router.Plan] compares a cluster with the domain and lists what it would
// create or change; [Plan.Apply] does it; [Router.Check] fails unless there is
// nothing to do. None of them ever deletes, shrinks or re-creates a topic, or
// touches one that the domain does not name.
//
// What the domain no longer names is found by [Router.Leftovers]. Workers and
// movers go on reading it, and [Leftover.Backlog] says how much is left.
package router
