package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax/delay"
)

func tiersCommand() *cli.Command {
	return &cli.Command{
		Name: "tiers", Usage: "show how much waits in each tier, when the next one leaves, and how fast they go",
		Description: "Asks the brokers and no mover, changes nothing. A tier that is overdue, or has no\n" +
			"member, is marked. A mover tells more of its own part: see --admin of \"ax mover\"." + flagsWin + `

Example:
   ax tiers --spec orders.yaml --for 10s`,
		Flags: append(domainFlags(),
			&cli.DurationFlag{Name: "for", Value: 2 * time.Second, Usage: "`TIME` over which the rate is measured"},
		),
		Action: showTiers,
	}
}

// tierLine is a tier as it is printed.
type tierLine struct {
	delay.TierState
	// NextIn is until the next one leaves, in seconds: negative when overdue.
	NextIn *float64 `json:"next_in_s,omitempty"`
}

func showTiers(ctx context.Context, cmd *cli.Command) error {
	if err := noMoreArgs(cmd, 0); err != nil {
		return err
	}
	d, err := loadReachable(cmd)
	if err != nil {
		return err
	}
	if long := cmd.Duration("for"); long < 100*time.Millisecond || long > time.Hour {
		return usage("%s: --for %s: want 100ms to 1h", cmd.FullName(), long)
	}
	states, err := delay.Inspect(ctx, d, cmd.Duration("for"))
	if err != nil {
		return err
	}
	now := time.Now()
	lines := make([]tierLine, len(states))
	for i, s := range states {
		lines[i] = tierLine{TierState: s}
		if !s.Next.IsZero() {
			in := s.Next.Sub(now).Seconds()
			lines[i].NextIn = &in
		}
	}
	if done, err := printJSON(cmd, map[string]any{"domain": d.Name, "tiers": lines}); done {
		return err
	}
	printf(cmd, "%-8s %10s %14s %10s %7s\n", "tier", "waiting", "next", "left/s", "movers")
	for _, l := range lines {
		printf(cmd, "%-8s %10d %14s %10.1f %7d%s\n", l.Tier, l.Depth, l.next(), l.Rate, l.Members, l.remark())
	}
	return nil
}

// next is the time until the next one leaves, for people.
func (l tierLine) next() string {
	if l.NextIn == nil {
		return "-"
	}
	in := time.Duration(*l.NextIn * float64(time.Second))
	unit := time.Second
	if in.Abs() < time.Minute {
		unit = 100 * time.Millisecond
	}
	return fmt.Sprint(in.Round(unit))
}

// overdueAfter is how late a tier may look: commits are some time behind, and
// what was moved since the last one is read again.
const overdueAfter = 5 * time.Second

func (l tierLine) remark() string {
	switch {
	case l.Members == 0:
		return "  no mover"
	case l.NextIn != nil && *l.NextIn < -overdueAfter.Seconds():
		return "  overdue"
	}
	return ""
}
