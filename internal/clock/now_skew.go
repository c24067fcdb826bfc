//go:build axskew || synctests

package clock

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// skew is AX_CLOCK_SKEW, where that is set.
var skew = func() *atomic.Int64 {
	var skew atomic.Int64
	if text := os.Getenv("AX_CLOCK_SKEW"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(fmt.Sprintf("clock: AX_CLOCK_SKEW %q: %v", text, err))
		}
		skew.Store(int64(d))
	}
	return &skew
}()

// Now returns the current time, shifted by what AX_CLOCK_SKEW said at the
// start, or Shift since.
func Now() time.Time { return time.Now().Add(Skew()) }

// Skew returns how far Now is ahead of package time.
func Skew() time.Duration { return time.Duration(skew.Load()) }

// Shift moves the clock, for the whole process: a test that calls it can't run
// beside others, and must move it back.
func Shift(to time.Duration) { skew.Store(int64(to)) }
