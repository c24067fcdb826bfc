package fair_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/axtasks/ax/internal/fair"
)

// never is a MaxWait that no test reaches.
const never = 1000 * time.Hour

// drawPool returns a saturated pool of random lanes, and the longest run time.
func drawPool(t *rapid.T, maxLanes int, weight *rapid.Generator[int]) (*pool, time.Duration) {
	n := rapid.IntRange(2, maxLanes).Draw(t, "lanes")
	slots := rapid.IntRange(1, 16).Draw(t, "slots")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	lanes := make([]fair.Lane, n)
	sources := make([]source, n)
	longest := time.Duration(0)
	for i := range lanes {
		lanes[i] = fair.Lane{Weight: weight.Draw(t, "weight"), MaxWait: never}
		mean := time.Duration(rapid.IntRange(50, 1000).Draw(t, "run ms")) * time.Millisecond
		longest = max(longest, 2*mean)
		sources[i] = source{backlog: busy, takes: func() time.Duration { return 1 + time.Duration(rng.Int64N(int64(2*mean))) }}
	}
	return newPool(slots, lanes, sources), longest
}

// Under saturation each lane gets its weight's share of worker time, whatever
// its tasks take.
func TestSharesOfTimeFollowTheWeights(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, longest := drawPool(t, 6, rapid.IntRange(1, 20))
		sum := 0
		for _, l := range p.lanes {
			sum += l.Weight
		}
		p.runUntil(100*longest, time.Hour)
		for i, l := range p.lanes {
			want := float64(l.Weight) / float64(sum)
			got := p.used[i].Seconds() / p.total().Seconds()
			require.InDelta(t, want, got, 0.05, "lane %d of weight %d in %d", i, l.Weight, sum)
		}
	})
}

// Weights that are all the same, even 1, are equal shares and not an order.
func TestEqualWeightsAreEqualShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.IntRange(1, 1000).Draw(t, "the weight")
		p, longest := drawPool(t, 8, rapid.Just(weight))
		p.runUntil(150*longest, time.Hour)
		for i := range p.lanes {
			require.InDelta(t, 1/float64(len(p.lanes)), p.used[i].Seconds()/p.total().Seconds(), 0.03, "lane %d", i)
		}
	})
}

// Estimates may be wrong by any factor; a share is of the time that was really
// used.
func TestAnEstimateThatIsWrongIsCorrectedAtTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, longest := drawPool(t, 4, rapid.IntRange(1, 8))
		sum := 0
		for i := range p.sources {
			sum += p.lanes[i].Weight
			factor := rapid.SampledFrom([]float64{0, 0.1, 0.5, 2, 5}).Draw(t, "factor")
			p.sources[i].expect = func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
		}
		// Each error is at most 5 runs in each slot.
		p.runUntil(300*longest, time.Hour)
		for i, l := range p.lanes {
			require.InDelta(t, float64(l.Weight)/float64(sum), p.used[i].Seconds()/p.total().Seconds(), 0.05, "lane %d", i)
		}
	})
}

// What one lane leaves is lent to the others at once, whole, and by weight.
func TestIdleShareIsLentAtOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, longest := drawPool(t, 5, rapid.IntRange(1, 10))
		idle := rapid.IntRange(0, len(p.lanes)-1).Draw(t, "idle lane")
		p.sources[idle].backlog = func(time.Duration) bool { return false }
		sum := 0
		for i, l := range p.lanes {
			if i != idle {
				sum += l.Weight
			}
		}
		p.check = func(p *pool, picked int) {
			if picked < 0 && p.s.Running() != p.slots {
				require.Fail(t, "a slot is free and there is work")
			}
		}
		p.runUntil(100*longest, time.Hour)
		require.Zero(t, p.used[idle])
		for i, l := range p.lanes {
			if i != idle {
				require.InDelta(t, float64(l.Weight)/float64(sum), p.used[i].Seconds()/p.total().Seconds(), 0.05, "lane %d", i)
			}
		}
	})
}

// A lane that comes back after a long time of little or no work gets its share
// from then on, and not what it missed; and a lane that used what nobody
// wanted is not made to pay for it.
func TestIdleShareIsNotBankedAndNotOwed(t *testing.T) {
	t.Parallel()
	const task = 100 * time.Millisecond
	const quiet, end = 10 * time.Minute, 11 * time.Minute
	loud := func(at time.Duration) bool { return at >= quiet }
	for name, before := range map[string][2]func(time.Duration) bool{
		"one was idle beside a busy one": {busy, func(time.Duration) bool { return false }},
		"the other came while the busy one paused": {
			func(at time.Duration) bool { return at < quiet-2*time.Second }, // until both come back
			func(at time.Duration) bool { return at >= quiet-time.Second },
		},
		"they took turns": {
			func(at time.Duration) bool { return at%(10*time.Second) < 5*time.Second },
			func(at time.Duration) bool { return at%(10*time.Second) > 9*time.Second },
		},
		"one had two tasks at all times": {busy, nil},
	} {
		for _, slots := range []int{1, 8} {
			if before[1] == nil && slots == 1 {
				continue // they would be all
			}
			t.Run(fmt.Sprintf("%s/slots=%d", name, slots), func(t *testing.T) {
				t.Parallel()
				lanes := []fair.Lane{{Weight: 1, MaxWait: never}, {Weight: 1, MaxWait: never}}
				p := newPool(slots, lanes, make([]source, 2))
				for i := range p.sources {
					p.sources[i] = source{takes: func() time.Duration { return task + time.Duration(p.started[i]%7)*task/10 }, backlog: func(at time.Duration) bool {
						if before[i] == nil {
							return loud(at) || p.held[i] < 2
						}
						return loud(at) || before[i](at)
					}}
				}
				p.runUntil(quiet, task)
				a, b := p.used[0], p.used[1]
				require.Greater(t, a, 2*b, "the lanes used about the same before")
				for at := quiet; at < end; {
					at += 5 * time.Second
					p.runUntil(at, task)
					x, y := p.used[0]-a, p.used[1]-b
					require.InDelta(t, 0.5, x.Seconds()/(x+y).Seconds(), 0.1, "%s after", at-quiet)
				}
			})
		}
	}
}

// A lane with work that has nothing running goes next once its head has waited
// past its MaxWait, and the one that is overdue for longest before others.
func TestALaneThatIsOverdueGoesNextTheEarliestFirst(t *testing.T) {
	t.Parallel()
	overdue := 0
	rapid.Check(t, func(t *rapid.T) {
		p, _ := drawPool(t, 6, rapid.SampledFrom([]int{1, 1000}))
		for i := range p.lanes {
			p.lanes[i].MaxWait = time.Duration(rapid.IntRange(100, 20_000).Draw(t, "max wait ms")) * time.Millisecond
		}
		q := newPool(p.slots, p.lanes, p.sources)
		q.check = func(q *pool, picked int) {
			if q.s.Running() == q.slots {
				return
			}
			first, at := -1, time.Duration(0)
			for i, l := range q.lanes {
				due := q.since[i] + l.MaxWait
				if q.since[i] >= 0 && q.held[i] == 0 && q.now >= due && (first < 0 || due < at) {
					first, at = i, due
				}
			}
			if first >= 0 {
				if overdue++; picked != first {
					require.Fail(t, "another lane is overdue for longer", "picked %d, want %d", picked, first)
				}
			}
		}
		q.runUntil(time.Minute, time.Second)
	})
	require.Positive(t, overdue)
}

// However small its weight, a head waits at most its MaxWait, what runs then,
// and the other lanes that may be overdue before it.
func TestNoHeadStarves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		drawn, longest := drawPool(t, 6, rapid.SampledFrom([]int{1, 1000}))
		for i := range drawn.lanes {
			drawn.lanes[i].MaxWait = time.Duration(rapid.IntRange(100, 5000).Draw(t, "max wait ms")) * time.Millisecond
		}
		p := newPool(drawn.slots, drawn.lanes, drawn.sources)
		p.runUntil(time.Minute, time.Second)
		for i, l := range p.lanes {
			bound := max(l.MaxWait, longest) + time.Duration(len(p.lanes))*longest
			require.LessOrEqual(t, p.waited[i], bound, "lane %d", i)
			require.Positive(t, p.started[i])
		}
	})
}

// allowed is the definition of the reserves: each lane and all after it may
// hold together what the lanes before it have not reserved, and at least one.
func allowed(p *pool, lane int) bool {
	reserved := 0
	for j := 0; j <= lane; j++ {
		held := 0
		for _, n := range p.held[j:] {
			held += n
		}
		if held >= max(p.slots-reserved, 1) {
			return false
		}
		reserved += p.lanes[j].Reserve
	}
	return true
}

// No start breaks a reserve, and no slot stays free while one could be made.
func TestReservesAreCapsAndNothingElseKeepsASlotFree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		drawn, longest := drawPool(t, 6, rapid.IntRange(1, 10))
		for i := range drawn.lanes {
			drawn.lanes[i].Reserve = rapid.SampledFrom([]int{0, 0, 1, 2, drawn.slots, drawn.slots + 3}).Draw(t, "reserve")
			period := time.Duration(rapid.IntRange(1, 5).Draw(t, "period")) * longest
			drawn.sources[i].backlog = func(at time.Duration) bool { return at%(2*period) < period }
			drawn.lanes[i].MaxWait = rapid.SampledFrom([]time.Duration{time.Millisecond, never}).Draw(t, "max wait")
		}
		p := newPool(drawn.slots, drawn.lanes, drawn.sources)
		p.check = func(p *pool, picked int) {
			running := 0
			for _, n := range p.held {
				running += n
			}
			// Asked millions of times: only a fault costs a call of require.
			if running != p.s.Running() || running > p.slots {
				require.Fail(t, "wrong count", "%v of %d slots, the scheduler says %d", p.held, p.slots, p.s.Running())
			}
			if picked >= 0 {
				if p.since[picked] < 0 || !allowed(p, picked) {
					require.Fail(t, "not runnable", "lane %d was picked: %v", picked, p.held)
				}
				return
			}
			for i := range p.lanes {
				if running < p.slots && p.since[i] >= 0 && allowed(p, i) {
					require.Fail(t, "a slot is free", "lane %d could have started: %v", i, p.held)
				}
			}
		}
		p.runUntil(60*longest, longest/3+1)
		for i := range p.lanes {
			require.Positive(t, p.started[i], "lane %d was stopped", i)
		}
	})
}

// A burst of starts at one instant must not all see the same low charge.
func TestABurstOfStartsIsSharedByWeight(t *testing.T) {
	t.Parallel()
	lanes := []fair.Lane{{Weight: 3, MaxWait: never}, {Weight: 1, MaxWait: never}}
	p := newPool(40, lanes, []source{{backlog: busy, takes: fixed(time.Second)}, {backlog: busy, takes: fixed(time.Second)}})
	p.runUntil(time.Millisecond, time.Second)
	require.Equal(t, []int{30, 10}, p.held)
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{4, 64} {
		b.Run(fmt.Sprintf("lanes=%d", n), func(b *testing.B) {
			lanes := make([]fair.Lane, n)
			for i := range lanes {
				lanes[i] = fair.Lane{Weight: i + 1, MaxWait: time.Minute, Reserve: i % 2}
			}
			s := fair.New(2*n, lanes)
			now := epoch
			head := func(int) (time.Time, bool) { return now, true }
			b.ReportAllocs()
			for b.Loop() {
				i := s.Pick(now, head)
				s.Start(i, time.Millisecond)
				s.End(i, time.Millisecond, time.Millisecond)
			}
		})
	}
}

func TestAPickAllocatesNothing(t *testing.T) {
	s := fair.New(8, []fair.Lane{{Weight: 2, MaxWait: time.Minute}, {Weight: 1, MaxWait: time.Minute, Reserve: 1}})
	head := func(int) (time.Time, bool) { return epoch, true }
	require.Zero(t, testing.AllocsPerRun(100, func() {
		i := s.Pick(epoch, head)
		s.Start(i, time.Second)
		s.End(i, time.Second, time.Second)
	}))
}
