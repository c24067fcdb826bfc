//go:build !unix

package bench

import "time"

// cpuTime can't be told here.
func cpuTime() (time.Duration, bool) { return 0, false }
