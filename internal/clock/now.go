//go:build !axskew && !synctests

package clock

import "time"

// Now returns the current time.
func Now() time.Time { return time.Now() }

// Skew returns how far Now is ahead of package time.
func Skew() time.Duration { return 0 }
