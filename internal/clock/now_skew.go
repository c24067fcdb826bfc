//go:build axskew

package clock

import (
	"fmt"
	"os"
	"time"
)

// skew is read once; a test build has no other way to be told.
var skew = func() time.Duration {
	text := os.Getenv("AX_CLOCK_SKEW")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("clock: AX_CLOCK_SKEW %q: %v", text, err))
	}
	return d
}()

// Now returns the current time, shifted by AX_CLOCK_SKEW.
func Now() time.Time { return time.Now().Add(skew) }
