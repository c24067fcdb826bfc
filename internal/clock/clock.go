// Package clock is the one place where ax reads the wall clock, so that a test
// build can move it: for one process against the others, or by a jump amid a
// test. Nothing else stands between the code and package time: timers and
// sleeps use package time directly.
package clock

import "time"

// Longest is the furthest that a timer is set which waits for an instant of
// the wall clock. Timers run on another clock, which doesn't jump; so this is
// how late a jump ahead is noticed.
const Longest = 10 * time.Second
