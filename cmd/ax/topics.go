package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax/router"
)

func topicsCommand() *cli.Command {
	return &cli.Command{
		Name: "topics", Usage: "plan, apply or check a domain's topics",
		Description: "No command deletes, shrinks or re-creates a topic, or touches one that the\ndomain does not name.\n\nExample:\n   ax topics plan --spec orders.yaml",
		Flags:       domainFlags(),
		Action:      groupAction,
		Commands: []*cli.Command{
			{
				Name: "plan", Usage: "print what apply would change, and through which tiers delays go",
				Description: "Changes nothing. Where delays that the domain uses (delay.common, the lists of its\n" +
					"kinds' back-offs, --delay) take many hops, it proposes tiers to add." + flagsWin +
					"\n\nExample:\n   ax topics plan --spec orders.yaml --kafka localhost:9092 --delay 10h --delay 90m",
				Flags:  []cli.Flag{&cli.StringSliceFlag{Name: "delay", Usage: "also show, and plan for, a delay of this `TIME`; may be repeated"}},
				Action: planTopics,
			},
			{
				Name: "apply", Usage: "create what is missing and change what differs",
				Description: "Fails with exit code 1 if differences are left that it never mends." + flagsWin + "\n\nExample:\n   ax topics apply --spec orders.yaml",
				Action:      applyTopics,
			},
			{
				Name: "check", Usage: "fail with exit code 3 unless nothing differs and nothing is left to drain",
				Description: "Changes nothing. A topic that the domain no longer names is drained by workers\nand movers; check fails until it is empty, and then says that it may be deleted." + flagsWin + "\n\nExample:\n   ax topics check --spec orders.yaml --json",
				Action:      checkTopics,
			},
		},
	}
}

// planned calls fn with the plan for the command's domain.
func planned(ctx context.Context, cmd *cli.Command, fn func(*router.Router, *router.Plan, *admin) error) error {
	if err := noMoreArgs(cmd, 0); err != nil {
		return err
	}
	d, err := loadReachable(cmd)
	if err != nil {
		return err
	}
	r, err := router.New(d)
	if err != nil {
		return &usageError{err}
	}
	adm, err := connect(ctx, d, "cli", nil)
	if err != nil {
		return err
	}
	defer adm.Close()
	plan, err := r.Plan(ctx, adm.Client)
	if err != nil {
		return adm.explain(err)
	}
	return fn(r, plan, adm)
}

// topicsResult is what the commands print as JSON.
type topicsResult struct {
	Domain    string          `json:"domain"`
	Changes   []router.Change `json:"changes"`
	Leftovers []leftover      `json:"leftovers,omitempty"`
	Hops      []delayHops     `json:"hops,omitempty"`
	Proposal  *proposal       `json:"proposal,omitempty"`
}

func result(r *router.Router, changes []router.Change) topicsResult {
	if changes == nil {
		changes = []router.Change{}
	}
	return topicsResult{Domain: r.Domain().Name, Changes: changes}
}

func planTopics(ctx context.Context, cmd *cli.Command) error {
	asked, err := askedDelays(cmd)
	if err != nil {
		return err
	}
	return planned(ctx, cmd, func(r *router.Router, plan *router.Plan, adm *admin) error {
		left, err := leftovers(ctx, r, adm)
		if err != nil {
			return err
		}
		out := result(r, plan.Changes)
		out.Leftovers, out.Hops, out.Proposal = left, hopsOf(r, asked), propose(r, asked)
		if done, err := printJSON(cmd, out); done {
			return err
		}
		for _, c := range plan.Changes {
			printf(cmd, "%s\n", c)
		}
		if plan.Empty() {
			printf(cmd, "nothing to do\n")
		}
		for _, l := range left {
			printf(cmd, "%s\n", l)
		}
		printHops(cmd, out.Hops)
		out.Proposal.show(cmd)
		return nil
	})
}

func applyTopics(ctx context.Context, cmd *cli.Command) error {
	return planned(ctx, cmd, func(r *router.Router, plan *router.Plan, adm *admin) error {
		if err := plan.Apply(ctx, adm.Client); err != nil {
			return adm.explain(err)
		}
		if done, err := printJSON(cmd, result(r, plan.Changes)); done {
			return err
		}
		for _, c := range plan.Changes {
			printf(cmd, "%s\n", c)
		}
		if plan.Empty() {
			printf(cmd, "nothing to do\n")
			return nil
		}
		printf(cmd, "done: %d changes\n", len(plan.Changes))
		return nil
	})
}

func checkTopics(ctx context.Context, cmd *cli.Command) error {
	return planned(ctx, cmd, func(r *router.Router, plan *router.Plan, adm *admin) error {
		left, err := leftovers(ctx, r, adm)
		if err != nil {
			return err
		}
		changes := plan.Changes
		for _, l := range left {
			if l.Records > 0 {
				changes = append(changes, l.change())
			}
		}
		if len(changes) > 0 {
			return &driftError{&router.DriftError{Domain: r.Domain().Name, Changes: changes}}
		}
		out := result(r, nil)
		out.Leftovers = left
		if done, err := printJSON(cmd, out); done {
			return err
		}
		printf(cmd, "domain %s: %d topics match\n", r.Domain().Name, len(r.Topics()))
		for _, l := range left {
			printf(cmd, "%s\n", l)
		}
		return nil
	})
}

// leftover is a topic that the domain no longer names.
type leftover struct {
	Topic   string `json:"topic"`
	Group   string `json:"group"`
	Records int64  `json:"records"` // that the group has not committed past
}

// leftovers returns the topics that the domain no longer names, with what is
// left in them.
func leftovers(ctx context.Context, r *router.Router, adm *admin) ([]leftover, error) {
	list, err := r.Leftovers(ctx, adm.Client)
	if err != nil {
		return nil, adm.explain(err)
	}
	var all []leftover
	for _, l := range list {
		n, err := l.Backlog(ctx, adm.Client)
		if err != nil {
			return nil, adm.explain(err)
		}
		all = append(all, leftover{Topic: l.Topic, Group: l.Group, Records: n})
	}
	return all, nil
}

func (l leftover) change() router.Change {
	return router.Change{
		Action: router.Drain, Topic: l.Topic, What: "records", From: strconv.FormatInt(l.Records, 10), To: "0",
		Reason: "the domain no longer names it, and group " + l.Group + " has not committed past them",
	}
}

// String says what is left, or that nothing is.
func (l leftover) String() string {
	if l.Records > 0 {
		return l.change().String()
	}
	return fmt.Sprintf("empty  %s is no longer named by the domain; delete it once no process runs by the old file", l.Topic)
}
