//go:build !sabotage_start_early

package sabotage

// StartEarly lets a task start before it is due.
const StartEarly = false
