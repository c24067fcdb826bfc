//go:build sabotage_commit_early

package sabotage

// CommitEarly lets a commit pass an unfinished record.
const CommitEarly = true
