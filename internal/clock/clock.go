// Package clock is the one place where ax reads the wall clock, so that a test
// build can skew one process against the others. Nothing else stands between
// the code and package time: timers and sleeps use package time directly.
package clock
