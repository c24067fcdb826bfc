package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax/internal/text"
	"github.com/axtasks/ax/router"
)

// usual are delays that are shown whatever the domain uses.
var usual = []time.Duration{time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

// askedDelays returns those of --delay.
func askedDelays(cmd *cli.Command) (asked []time.Duration, err error) {
	for _, s := range cmd.StringSlice("delay") {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return nil, usage("%s: --delay %q: want a duration such as 90m or 10h, more than 0", cmd.FullName(), s)
		}
		asked = append(asked, d)
	}
	return asked, nil
}

// delayHops is a delay and the tiers it goes through.
type delayHops struct {
	Delay string `json:"delay"`
	Hops  int    `json:"hops"`
	Way   []leg  `json:"way"`
	// From is where the delay comes from: "usual", "common", "asked" or
	// "back-off of" a kind.
	From []string `json:"from"`
	Many bool     `json:"many"` // it is the domain's own, and takes many hops
}

type leg struct {
	Tier  string `json:"tier"`
	Times int    `json:"times"`
}

// hopsOf returns the ways of the domain's own delays, those that were asked for
// and the usual ones.
func hopsOf(r *router.Router, asked []time.Duration) []delayHops {
	var out []delayHops
	for _, p := range r.Plans(slices.Concat(usual, asked)...) {
		h := delayHops{Delay: text.Duration(p.Delay), Hops: p.Hops}
		for _, l := range p.Way {
			h.Way = append(h.Way, leg{l.Topic[strings.LastIndex(l.Topic, ".delay.")+len(".delay."):], l.Times})
		}
		if p.Common {
			h.From = append(h.From, "common")
		}
		for _, kind := range p.Kinds {
			h.From = append(h.From, "back-off of "+kind)
		}
		if slices.Contains(asked, p.Delay) {
			h.From = append(h.From, "asked")
		}
		if h.Many = len(h.From) > 0 && p.TooMany(); len(h.From) == 0 {
			h.From = []string{"usual"}
		}
		out = append(out, h)
	}
	return out
}

func printHops(cmd *cli.Command, all []delayHops) {
	printf(cmd, "\n%-8s %6s  %s\n", "delay", "hops", "tiers")
	for _, h := range all {
		var way []string
		for _, l := range h.Way {
			if l.Times > 1 {
				way = append(way, fmt.Sprintf("%d × %s", l.Times, l.Tier))
			} else {
				way = append(way, l.Tier)
			}
		}
		from := ""
		if h.From[0] != "usual" {
			from = "  (" + strings.Join(h.From, ", ") + ")"
		}
		printf(cmd, "%-8s %6d  %s%s\n", h.Delay, h.Hops, strings.Join(way, ", "), from)
	}
	for _, h := range all {
		if h.Many {
			printf(cmd, "warning: a delay of %s takes %d hops; each is a write and a read\n", h.Delay, h.Hops)
		}
	}
}

// proposal is the tiers that would serve the domain's delays better.
type proposal struct {
	Add   []string `json:"add"`
	Tiers []string `json:"tiers"` // all of them, as the file would have it
	Saves []saving `json:"saves"`
}

type saving struct {
	Delay string `json:"delay"`
	From  int    `json:"from"`
	To    int    `json:"to"`
}

// propose returns nil where no tier helps.
func propose(r *router.Router, asked []time.Duration) *proposal {
	add := r.ProposeTiers(asked...)
	if len(add) == 0 {
		return nil
	}
	p := &proposal{Add: texts(add), Tiers: texts(slices.Sorted(slices.Values(slices.Concat(r.Domain().Delay.Tiers, add))))}
	for _, plan := range r.Plans(asked...) {
		if to := r.WithTiers(plan.Delay, add...); to < plan.Hops {
			p.Saves = append(p.Saves, saving{text.Duration(plan.Delay), plan.Hops, to})
		}
	}
	return p
}

func texts(ds []time.Duration) []string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = text.Duration(d)
	}
	return out
}

func (p *proposal) show(cmd *cli.Command) {
	if p == nil {
		return
	}
	printf(cmd, "\nproposed: tiers: [%s]\n", strings.Join(p.Tiers, ", "))
	for _, s := range p.Saves {
		printf(cmd, "   %-8s %d → %d hops\n", s.Delay, s.From, s.To)
	}
}
