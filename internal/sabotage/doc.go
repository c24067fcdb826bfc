// Package sabotage breaks ax on purpose, so that the judge can be judged: each
// build tag makes one constant true, and a promise must be seen to break. In
// every other build the constants are false and the compiler removes what they
// guard.
//
//	go build -tags sabotage_commit_early ./...
//
// internal/soak/sabotage.sh builds each of them and requires that the checker
// turns the right promise red.
package sabotage
