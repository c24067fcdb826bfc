//go:build !sabotage_forget_pause

package sabotage

// ForgetPause leaves a partition paused that has come back.
const ForgetPause = false
