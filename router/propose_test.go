package router_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/router"
)

// hopsOf returns the number of hops by delay.
func hopsOf(r *router.Router, more ...time.Duration) map[time.Duration]int {
	all := map[time.Duration]int{}
	for _, p := range r.Plans(more...) {
		all[p.Delay] = p.Hops
	}
	return all
}

// withTiers returns d with tiers added.
func withTiers(d ax.Domain, tiers ...time.Duration) ax.Domain {
	d = d.WithDefaults()
	d.Delay.Tiers = append(d.Delay.Tiers, tiers...)
	slices.Sort(d.Delay.Tiers)
	return d
}

func TestProposedTiersOfKnownDomains(t *testing.T) {
	t.Parallel()
	const m, h = time.Minute, time.Hour
	common := func(delays ...time.Duration) ax.Domain {
		return ax.Domain{Name: "orders", Delay: ax.Delay{Common: delays}}
	}
	listed := common()
	listed.Kinds = map[string]ax.Kind{"k": {Backoff: ax.Backoff{Delays: []time.Duration{0, m, 10 * h}}}}
	far := common(10*h, 20*day)
	far.Delay.Horizon = 20 * day
	kept := common(3 * day)
	kept.Delay.Tiers = []time.Duration{5 * time.Second, 6 * h}
	kept.Retention = ax.Retention{Tasks: 36*h + 168*h} // the longest tier is below 36 h
	folded := common(25*m, 30*m)
	folded.Delay.Tiers = []time.Duration{5 * time.Second, m, 10 * m}
	full := common(10*h, 7*day)
	full.Delay.Rate = 1
	for i := range 31 {
		full.Delay.Tiers = append(full.Delay.Tiers, time.Duration(i+5)*time.Second)
	}
	filled := full
	filled.Delay.Tiers = append(slices.Clone(full.Delay.Tiers), h)
	for name, c := range map[string]struct {
		domain ax.Domain
		more   []time.Duration
		want   []time.Duration
		hops   string // of each delay before and with the proposal
	}{
		"no delays":                          {common(), nil, nil, "map[] map[]"},
		"three hops are few":                 {common(10*m, day), nil, nil, "map[10m0s:3 24h0m0s:2] map[10m0s:3 24h0m0s:2]"},
		"a delay of its own":                 {common(10 * h), nil, []time.Duration{10 * h}, "map[10h0m0s:7] map[10h0m0s:2]"},
		"a week":                             {common(10*m, day, 7*day), nil, []time.Duration{7 * day}, "map[10m0s:3 24h0m0s:2 168h0m0s:9] map[10m0s:3 24h0m0s:2 168h0m0s:2]"},
		"one that is half of another":        {common(10*h, 20*h), nil, []time.Duration{10 * h}, "map[10h0m0s:7 20h0m0s:7] map[10h0m0s:2 20h0m0s:3]"},
		"a kind's list":                      {listed, nil, []time.Duration{10 * h}, "map[1m0s:2 10h0m0s:7] map[1m0s:2 10h0m0s:2]"},
		"one that the caller asks for":       {common(), []time.Duration{10 * h}, []time.Duration{10 * h}, "map[10h0m0s:7] map[10h0m0s:2]"},
		"none past the horizon":              {far, []time.Duration{20*day + 1, -day}, []time.Duration{10 * h, 20 * day}, "map[10h0m0s:7 480h0m0s:25] map[10h0m0s:2 480h0m0s:2]"},
		"three hops stand in the way":        {common(10*h, 12*h), nil, []time.Duration{10 * h, 12 * h}, "map[10h0m0s:7 12h0m0s:3] map[10h0m0s:2 12h0m0s:2]"},
		"none longer than retention allows":  {kept, nil, nil, "map[72h0m0s:15] map[72h0m0s:15]"},
		"none that leads another one astray": {folded, nil, []time.Duration{25 * m, 30 * m}, "map[25m0s:9 30m0s:4] map[25m0s:2 30m0s:2]"},
		"room for one: the larger gain":      {full, nil, []time.Duration{10 * h}, "map[10h0m0s:1060 168h0m0s:17790] map[10h0m0s:2 168h0m0s:865]"},
		"no room, though many hops are left": {filled, nil, nil, "map[10h0m0s:12 168h0m0s:174] map[10h0m0s:12 168h0m0s:174]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := newRouter(t, c.domain)
			got := before.ProposeTiers(c.more...)
			require.Equal(t, c.want, got)
			after := newRouter(t, withTiers(c.domain, got...))
			require.Equal(t, c.hops, fmt.Sprint(hopsOf(before, c.more...), hopsOf(after, c.more...)))
		})
	}
}

func TestAProposalIsValidAndMakesNoDelayTakeMoreHops(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := ax.Domain{Name: "orders", Delay: ax.Delay{Horizon: 30 * day}}
		seconds := rapid.SampledFrom([]int64{100, 4_000, 30 * 24 * 3600})
		for range rapid.IntRange(0, 12).Draw(t, "delays") {
			s := rapid.Int64Range(1, seconds.Draw(t, "within")).Draw(t, "seconds")
			d.Delay.Common = append(d.Delay.Common, time.Duration(s)*time.Second)
		}
		before, err := router.New(d)
		if err != nil {
			t.Fatal(err)
		}
		tiers := before.ProposeTiers()
		after, err := router.New(withTiers(d, tiers...))
		if err != nil {
			t.Fatalf("the proposal is no valid domain: %v", err)
		}
		was, is := hopsOf(before), hopsOf(after)
		saved := 0
		for delay, n := range is {
			if n > was[delay] {
				t.Fatalf("%s takes %d hops instead of %d with %v", delay, n, was[delay], tiers)
			}
			if want := len(after.Hops(delay)); n != want {
				t.Fatalf("%s is counted with %d hops and takes %d", delay, n, want)
			}
			if n != before.WithTiers(delay, tiers...) {
				t.Fatalf("%s: WithTiers says %d and not %d", delay, before.WithTiers(delay, tiers...), n)
			}
			if n > router.FewHops && len(after.Tiers()) < 32 {
				t.Fatalf("%s takes %d hops with %v", delay, n, tiers)
			}
			saved += was[delay] - n
		}
		if saved < len(tiers) {
			t.Fatalf("%v save %d hops", tiers, saved)
		}
	})
}

// What takes millions of hops is counted and not walked.
func TestAWayOfMillionsOfHopsIsCountedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRouter(t, ax.Domain{Name: "orders", Delay: ax.Delay{Tiers: []time.Duration{5 * time.Second}, Common: []time.Duration{400 * day}}})
	p := r.Plans()[0]
	require.Equal(t, []router.Leg{{Topic: "orders.delay.5s", Times: 8_639_999}, {Topic: "orders.delay.near", Times: 1}}, p.Way)
	require.True(t, p.TooMany())
	require.True(t, p.Common)
}
