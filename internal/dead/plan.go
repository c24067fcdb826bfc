package dead

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/axtasks/ax"
)

// Plan is what a filter chooses.
type Plan struct {
	Deaths int      // that are chosen
	Groups []Group  // by kind and reason, the largest first
	Left   Result   // those among them that would be left alone, none of them done
	First  []Sample // the first of those that would not
	Absent []string // ids of the filter that nothing has
}

// Group is how many deaths have this kind and reason.
type Group struct {
	Kind   string    `json:"kind"`
	Reason ax.Reason `json:"reason"`
	Deaths int       `json:"deaths"`
}

// Sample names a death.
type Sample struct {
	Death  string    `json:"death"`
	ID     string    `json:"id"`
	Kind   string    `json:"kind"`
	Reason ax.Reason `json:"reason"`
	At     time.Time `json:"at,omitzero"`
}

// maxGroups bounds what kinds that somebody invents take: the rest is one group.
const maxGroups = 1000

// others is the kind of the group of the rest.
const others = "(others)"

// Plan counts what f chooses. judge says why a death would be left alone, or "";
// it may be nil. samples is how many deaths are named.
func (s *Scan) Plan(ctx context.Context, f *Filter, samples int, judge func(*Entry) string) (Plan, error) {
	var p Plan
	type key struct {
		kind   string
		reason ax.Reason
	}
	groups := map[key]int{}
	missing := f.Missing()
	err := s.Each(ctx, func(e *Entry) error {
		if !f.Match(e) {
			return nil
		}
		p.Deaths++
		missing.Found(e)
		k := key{e.Kind, e.Reason}
		if _, known := groups[k]; !known && len(groups) >= maxGroups {
			k = key{kind: others}
		}
		groups[k]++
		if judge != nil {
			if why := judge(e); why != "" {
				p.Left.leave(why)
				return nil
			}
		}
		if len(p.First) < samples {
			p.First = append(p.First, Sample{e.Death, e.ID, e.Kind, e.Reason, e.At})
		}
		return nil
	})
	if err != nil {
		return Plan{}, err
	}
	for k, n := range groups {
		p.Groups = append(p.Groups, Group{k.kind, k.reason, n})
	}
	slices.SortFunc(p.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Deaths, a.Deaths), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason))
	})
	p.Absent = missing.IDs()
	return p, nil
}
