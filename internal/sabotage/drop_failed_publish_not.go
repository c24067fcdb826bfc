//go:build !sabotage_drop_failed_publish

package sabotage

// DropFailedPublish takes a publish that failed for one that was acknowledged.
const DropFailedPublish = false
