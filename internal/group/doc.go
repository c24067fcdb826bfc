// Package group reads topics as a member of a consumer group, with offsets of
// its own: worker and mover share it, since both finish records out of order
// and must never commit past one that is not finished.
//
// A [Member] owns one Kafka client. Its callbacks turn what the group decides
// into [Partition] values, each one assignment of one partition: records are
// added to its offset window as they are read, started, and finished in any
// order; the commit is the lowest unfinished offset.
//
// # Rebalance
//
// Revoked: nothing more is started from the partition; what runs may finish
// within a bound; then one synchronous commit, and the partition is fenced: a
// late finish touches nothing. Lost: the partition is fenced at once and nothing is
// committed, since another member owns it. A member that was evicted and has
// joined again gets "revoked" for its old partitions under its new member id,
// and the broker would accept a commit; so the id of the assignment is kept,
// and a revocation under another one counts as lost.
//
// A member that may have been forgotten (no heartbeat was answered for a
// session) is not [Member.Known], and starts nothing.
//
// # Commits
//
// Each commit carries metadata (package offset) beside the offset: what is
// finished above it, notes on what is not, and what the next owner must know if
// this one dies. life.go tells how a record that kills its process is found by
// that.
//
// # Pausing
//
// The reasons to pause form a set, and a partition is read again when the set
// is empty. The Kafka client keeps a pause over a rebalance, so every change
// of ownership clears it.
package group
