package main

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/axtasks/ax/internal/checker"
)

const (
	// Until all lanes have a backlog everywhere.
	sharesFrom = 8 * time.Second
	// By how many points of a hundred a lane may miss its share.
	sharesPoints = 3
	// How long a commit may take on a machine that has more to do than it can.
	roundTrip = 300 * time.Millisecond
	// After which a member is missed: what ax asks for in a classic group, and
	// what the rig's brokers are told under KIP-848.
	session = 6 * time.Second
	// A member is missed after 6 s, and the others join again.
	settleFor = 10 * time.Second
	// How late a task may start while nothing is wrong.
	maxLate = 20 * time.Second
)

// judge decides what the facts in a folder say. saturated is the time of which
// a scenario that saturates the workers has shares judged.
func judge(cfg config, dir string, saturated checker.Shares, out io.Writer) (bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "facts", "*.jsonl"))
	if err != nil {
		return false, err
	}
	opts := checker.Options{
		Dir: dir, Ordered: []string{keyedLane}, MaxLate: maxLate, Settle: settleFor,
		CommitEvery: commitEvery, RoundTrip: roundTrip, Session: session, Slots: int64(cfg.slots),
		// Two hops for each task, and a little.
		Copies: int64(2 * cfg.rate),
	}
	if scenarios[cfg.scenario].saturate {
		// A backlog makes every task late, and that is what is wanted here.
		opts.MaxLate = 0
		if !saturated.From.IsZero() {
			saturated.Points, saturated.Weights = sharesPoints, map[string]int{}
			for _, l := range newDomain(cfg).Lanes {
				if l.Name != keyedLane {
					saturated.Weights[l.Name] = l.Weight
				}
			}
			opts.Shares = &saturated
		}
	}
	r, err := checker.Judge(files, opts)
	if err != nil {
		return false, err
	}
	if err := r.Print(out); err != nil {
		return false, err
	}
	if r.Tasks == 0 {
		return false, errors.New("no task was submitted: nothing was judged")
	}
	held := true
	for _, name := range r.Failed() {
		if !slices.Contains(cfg.known, string(name)) {
			held = false
		}
	}
	return held, nil
}

// judgeAgain judges what an earlier run left, all but the shares, whose time
// it does not know.
func judgeAgain(cfg config, out io.Writer) (bool, error) {
	return judge(cfg, cfg.judge, checker.Shares{}, out)
}
