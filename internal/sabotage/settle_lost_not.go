//go:build !sabotage_settle_lost

package sabotage

// SettleLost settles and commits what a partition's next owner has already.
const SettleLost = false
