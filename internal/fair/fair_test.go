package fair_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fair"
)

// lane is one that only its weight decides about.
func lane(weight int) fair.Lane { return fair.Lane{Weight: weight, MaxWait: never, MaxGap: never} }

// old is one whose head is aged as soon as it is the head.
func old(weight int) fair.Lane { return fair.Lane{Weight: weight, MaxGap: never} }

// Weights that are all the same, even 1, are equal shares and not an order.
func TestEqualWeightsAreEqualShares(t *testing.T) {
	t.Parallel()
	for _, weight := range []int{1, 7, 1000} {
		for n := 2; n <= 8; n++ {
			var c fair.Config
			var sources []source
			for range n {
				c.Lanes = append(c.Lanes, old(weight))
				sources = append(sources, source{backlog: busy, takes: fixed(10 * time.Millisecond)})
			}
			c.Slots = 5
			p := newPool(newOurs, c, sources)
			p.runUntil(10*time.Second, time.Second)
			require.Equal(t, make([]int, n), p.aged, "no part of the time is set aside")
			for i, share := range p.shares() {
				require.InDelta(t, 1/float64(n), share, within, "lane %d of %d with weight %d", i, n, weight)
			}
		}
	}
}

// Estimates may be wrong by any factor; a share is of the time that was really
// used.
func TestAnEstimateThatIsWrongIsCorrectedAtTheEnd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		d := draw(rng, 4, 16)
		for i := range d.sources {
			factor := []float64{0, 0.1, 0.5, 2, 5}[rng.IntN(5)]
			d.sources[i].expect = func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
		}
		d.longest *= 5 // what a single error may cost
		sum := d.weight(all)
		require.NoError(t, d.compare(newOurs, func(i int) float64 { return float64(d.Lanes[i].Weight) / sum }), "seed %d", seed)
	}
}

// What one lane leaves is lent to the others whole, and by weight.
func TestAnIdleShareIsLentByWeight(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		d := draw(rand.New(rand.NewPCG(seed, 3)), 5, 16)
		d.Lanes = append(d.Lanes, lane(50))
		d.sources = append(d.sources, source{backlog: func(time.Duration) bool { return false }})
		idle := len(d.Lanes) - 1
		sum := d.weight(func(i int) bool { return i != idle })
		require.NoError(t, d.compare(newOurs, func(i int) float64 {
			if i == idle {
				return 0
			}
			return float64(d.Lanes[i].Weight) / sum
		}), "seed %d", seed)
	}
}

// With weights 8:4:2:1 and all heads overdue, taking the one that is overdue
// for longest would give 96, 2, 1 and 1 percent, or the like.
func TestWhenAllAreAgedTheWeightsDecide(t *testing.T) {
	t.Parallel()
	c := fair.Config{Slots: 4, Aging: 0.1}
	var sources []source
	for i, ms := range []int{100, 2, 1, 1} {
		c.Lanes = append(c.Lanes, fair.Lane{Weight: 8 >> i, MaxWait: 0, MaxGap: never})
		sources = append(sources, source{backlog: busy, takes: fixed(time.Duration(ms) * time.Millisecond)})
	}
	p := newPool(newOurs, c, sources)
	p.runUntil(time.Minute, time.Second)
	for i, share := range p.shares() {
		require.InDelta(t, float64(int(8)>>i)/15, share, within)
		require.Positive(t, p.aged[i], "nothing was aged")
	}
}

// A lane of next to no weight, whose tasks run for long: it is aged most of
// the time and gets the aging part, and no more, until it has caught up; then
// its weight alone counts.
func TestALaneThatIsAgedGetsTheAgingPartUntilItHasCaughtUp(t *testing.T) {
	t.Parallel()
	c := fair.Config{Slots: 8, Aging: 0.1, Lanes: []fair.Lane{lane(1000), {Weight: 1, MaxWait: time.Second, MaxGap: never}}}
	full := true
	p := newPool(newOurs, c, []source{
		{backlog: busy, takes: fixed(10 * time.Millisecond)},
		{backlog: func(time.Duration) bool { return full }, takes: fixed(20 * time.Second)},
	})
	p.runUntil(5*time.Minute, time.Second)
	p.measure()
	p.runUntil(45*time.Minute, time.Second)
	require.InDelta(t, 0.1, p.shares()[1], within)
	require.Greater(t, p.aged[1], 9*p.started[1]/10)

	full = false
	p.runUntil(46*time.Minute, time.Second)
	p.measure()
	p.runUntil(50*time.Minute, time.Second)
	require.Zero(t, p.shares()[1])
}

// Strict takes the first lane that has work, but for what Aging and MaxGap give
// to others.
func TestStrictIsAnOrder(t *testing.T) {
	t.Parallel()
	c := fair.Config{Slots: 4, Strict: true, Lanes: []fair.Lane{lane(1), lane(1000), lane(1000)}}
	tens := source{backlog: busy, takes: fixed(10 * time.Millisecond)}
	p := newPool(newOurs, c, []source{tens, tens, tens})
	p.runUntil(time.Minute, time.Second)
	require.Equal(t, []float64{1, 0, 0}, p.shares())

	c.Aging = 0.1
	c.Lanes[1].MaxWait = time.Second
	c.Lanes[2].MaxGap = time.Second
	p = newPool(newOurs, c, []source{tens, tens, tens})
	p.runUntil(time.Minute, time.Second)
	require.InDelta(t, 60, p.aged[1], 2, "each second its head is aged, and starts")
	require.InDelta(t, 60, p.gaps[2], 2)
	require.Less(t, p.waited[2], 1100*time.Millisecond)
}

// After an hour in strict order, those that had nothing must not claim the
// hour.
func TestFromStrictToFairNothingIsBanked(t *testing.T) {
	t.Parallel()
	c := fair.Config{Slots: 4, Strict: true, Lanes: []fair.Lane{lane(3), lane(1)}}
	tens := source{backlog: busy, takes: fixed(10 * time.Millisecond)}
	p := newPool(newOurs, c, []source{tens, tens})
	p.runUntil(time.Hour, time.Second)
	c.Strict = false
	p.set(c)
	p.measure()
	p.runUntil(time.Hour+10*time.Second, time.Second)
	require.InDeltaSlice(t, []float64{0.75, 0.25}, p.shares(), within)
}

// Weights count from the moment at which they are set, and who is ahead of the
// others then stays ahead.
func TestWeightsChangeWhileItRuns(t *testing.T) {
	t.Parallel()
	c := fair.Config{Slots: 4, Lanes: []fair.Lane{lane(3), lane(1)}}
	tens := source{backlog: busy, takes: fixed(10 * time.Millisecond)}
	p := newPool(newOurs, c, []source{tens, tens})
	p.runUntil(time.Hour, time.Second)
	c.Lanes = []fair.Lane{lane(1), lane(4)}
	p.set(c)
	p.measure()
	p.runUntil(p.now+10*time.Second, time.Second)
	require.InDeltaSlice(t, []float64{0.2, 0.8}, p.shares(), within)

	// One of them is changed each 20 ms, beside runs of a second: what these
	// are charged with must not be forgotten each time.
	c = fair.Config{Slots: 4, Lanes: []fair.Lane{lane(1), lane(1)}}
	p = newPool(newOurs, c, []source{tens, {backlog: busy, takes: fixed(time.Second)}})
	for i := range 5000 {
		c.Lanes = []fair.Lane{lane(1), lane(1)}
		if i%2 == 0 {
			c.Lanes = []fair.Lane{lane(1000), lane(1000)}
		}
		p.set(c)
		p.runUntil(p.now+20*time.Millisecond, time.Second)
	}
	require.InDeltaSlice(t, []float64{0.5, 0.5}, p.shares(), 2*within)
}

func TestSlotsAndReservesChangeWhileItRuns(t *testing.T) {
	t.Parallel()
	c := fair.Config{Slots: 16, Lanes: []fair.Lane{lane(1), lane(1)}}
	long := source{backlog: busy, takes: fixed(10 * time.Second)}
	p := newPool(newOurs, c, []source{{backlog: func(time.Duration) bool { return false }}, long})
	p.runUntil(time.Second, time.Second)
	require.Equal(t, 16, p.held[1])
	c.Slots = 4
	p.set(c)
	p.runUntil(9*time.Second, time.Second)
	require.Equal(t, 16, p.held[1], "what runs is not touched")
	p.runUntil(15*time.Second, time.Second)
	require.Equal(t, 4, p.held[1])
	c.Slots, c.Lanes = 20, []fair.Lane{{Weight: 1, MaxWait: never, MaxGap: never, Reserve: 5}, lane(1)}
	p.set(c)
	p.runUntil(16*time.Second, time.Second)
	require.Equal(t, 15, p.held[1])
}

// The aging part that was used up by a long run is not owed any more once
// nobody had work.
func TestWhatWasUsedIsNotOwedOnceNobodyHadWork(t *testing.T) {
	t.Parallel()
	c := fair.Config{Slots: 4, Aging: 0.02, Lanes: []fair.Lane{lane(1000), {Weight: 1, MaxWait: 0, MaxGap: never}}}
	var p *pool
	p = newPool(newOurs, c, []source{
		{backlog: func(at time.Duration) bool { return at < time.Minute || at > 11*time.Minute }, takes: fixed(10 * time.Millisecond)},
		{backlog: func(at time.Duration) bool { return at < time.Second || at > 11*time.Minute }, takes: func() time.Duration {
			if p.now < time.Minute {
				return 300 * time.Second
			}
			return 10 * time.Millisecond
		}},
	})
	p.runUntil(11*time.Minute+time.Second, time.Second)
	p.measure()
	p.runUntil(13*time.Minute, time.Second)
	require.InDelta(t, 0.021, p.shares()[1], 0.002)
}

// Tags grow for as long as a worker runs. Twenty years on a hundred slots, and
// a lane that comes after fifteen of them and then in each, must cost no
// precision and overflow nothing.
func TestItRunsForYears(t *testing.T) {
	t.Parallel()
	const week, year = 7 * 24 * time.Hour, 52 * 7 * 24 * time.Hour
	c := fair.Config{Slots: 100, Aging: 0.1, Lanes: []fair.Lane{old(3), old(1), lane(6)}}
	p := newPool(newOurs, c, []source{
		{backlog: busy, takes: fixed(week)},
		{backlog: busy, takes: fixed(week - time.Hour)},
		{backlog: func(at time.Duration) bool { return at > 15*year && at%year > 40*week }, takes: fixed(week)},
	})
	for n := range 20 {
		from := time.Duration(n) * year
		p.runUntil(from+5*week, week)
		p.measure()
		p.runUntil(from+35*week, week)
		require.InDeltaSlice(t, []float64{0.75, 0.25, 0}, p.shares(), within, "year %d", n)
		p.runUntil(from+43*week, week)
		p.measure()
		p.runUntil(from+51*week, week)
		want := 0.0
		if n >= 15 {
			want = 0.9 * 0.6
		}
		require.InDelta(t, want, p.shares()[2], 2*within, "year %d", n)
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	c := fair.ConfigOf(16, ax.Sharing{Aging: -1, Strict: true}, []ax.Lane{
		{Weight: 8, MaxWait: 1, MaxGap: time.Second, Reserve: 14}, {Weight: 4, MaxGap: time.Second}, {Weight: 2, MaxGap: time.Second, Reserve: 9},
		{Weight: 1, MaxGap: time.Second},
	})
	require.Equal(t, fair.Config{Slots: 16, Strict: true, Lanes: []fair.Lane{
		{Weight: 8, MaxWait: 1, MaxGap: time.Second, Reserve: 14}, {Weight: 4, MaxGap: time.Second}, {Weight: 2, MaxGap: time.Second, Reserve: 9},
		{Weight: 1, MaxGap: time.Second},
	}}, c)
	const ms = time.Millisecond
	require.Equal(t, 1100*ms, fair.Bound(c, 0, 30*ms, 100*ms))
	require.Equal(t, 1200*ms, fair.Bound(c, 1, 30*ms, 100*ms), "four lanes on two slots")
	require.Equal(t, 8*time.Second, fair.Bound(c, 2, 2*time.Second, 3*time.Second), "its own run is longer than the gap")
	require.Equal(t, 1400*ms, fair.Bound(c, 3, 0, 100*ms), "one slot is left whatever is reserved")
}

// A light lane that had all slots for itself, with runs that took far longer than
// was expected, must not pay for that when others come: it only pays for what
// still runs then.
func TestWhatWasLentIsNotOwedHoweverLongItTook(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{2, 16, 100} {
		c := fair.Config{Slots: slots, Lanes: []fair.Lane{lane(8), lane(1)}}
		const come = 280 * time.Second
		var p *pool
		p = newPool(newOurs, c, []source{
			{backlog: func(at time.Duration) bool { return at > come }, takes: fixed(100 * time.Millisecond)},
			{backlog: busy, expect: fixedEstimate(10 * time.Millisecond), takes: func() time.Duration {
				if p.now < come {
					return 300 * time.Second
				}
				return 100 * time.Millisecond
			}},
		})
		// It holds all slots for 20 s more, of which it should have had a ninth.
		p.runUntil(300*time.Second+3*time.Minute, time.Second)
		p.measure()
		p.runUntil(p.now+5*time.Minute, time.Second)
		require.InDelta(t, 1./9, p.shares()[1], within, "%d slots", slots)
	}
}

// Once a lane was charged far too much, and another holds slots with long runs,
// a third one that comes must not start behind both.
func TestALaneThatComesIsNotBehindWhatNobodyOwes(t *testing.T) {
	t.Parallel()
	var p *pool
	tens := fixed(100 * time.Millisecond)
	p = newPool(newOurs, fair.Config{Slots: 16, Lanes: []fair.Lane{lane(1), lane(1), lane(1)}}, []source{
		{backlog: busy, takes: tens, expect: func(d time.Duration) time.Duration {
			if p.now < 10*time.Second {
				return 300 * time.Second
			}
			return d
		}},
		{backlog: func(at time.Duration) bool { return at > 20*time.Second }, expect: fixedEstimate(100 * time.Millisecond), takes: func() time.Duration {
			if p.now < 21*time.Second {
				return 1000 * time.Second
			}
			return 100 * time.Millisecond
		}},
		{backlog: func(at time.Duration) bool { return at > 5*time.Minute }, takes: tens},
	})
	p.runUntil(5*time.Minute+time.Second, time.Second)
	p.measure()
	p.runUntil(p.now+time.Minute, time.Second)
	s := p.shares()
	require.InDelta(t, s[0], s[2], within, "the two that share what is left: %v", s)
}

// While a reserve holds back all lanes that are aged, what belongs to them is
// lent, and not theirs to claim later.
func TestTheAgingPartIsNotBankedWhileAReserveHoldsTheAgedBack(t *testing.T) {
	t.Parallel()
	c := fair.Config{Slots: 16, Aging: 0.1, Lanes: []fair.Lane{{Weight: 8, MaxWait: never, MaxGap: never, Reserve: 15}, old(1)}}
	tens := source{backlog: busy, takes: fixed(100 * time.Millisecond)}
	p := newPool(newOurs, c, []source{tens, {backlog: busy, takes: fixed(10 * time.Second)}})
	p.runUntil(time.Hour, time.Second)
	c.Lanes = []fair.Lane{lane(8), old(1)}
	p.set(c)
	p.sources[1] = tens
	p.runUntil(p.now+12*time.Second, time.Second) // its last long run
	p.measure()
	p.runUntil(p.now+time.Minute, time.Second)
	require.InDelta(t, 0.1+0.9/9, p.shares()[1], within)
}

// The bound is no number that nothing comes near to.
func TestTheBoundIsNear(t *testing.T) {
	t.Parallel()
	worst := 0.0
	for seed := range uint64(200) {
		d := drawUnsteady(rand.New(rand.NewPCG(seed, 1)))
		p := newPool(newOurs, d.Config, d.sources)
		p.runUntil(60*d.longest, d.longest/3+1)
		for i := range p.Lanes {
			worst = max(worst, p.waited[i].Seconds()/p.bound(i).Seconds())
		}
	}
	t.Logf("the longest wait of a head in 200 random runs is %.2f of its bound", worst)
	require.LessOrEqual(t, worst, 1.0)
	require.Greater(t, worst, 0.7)
}

// The first lane has just been started when the others become overdue, and is
// overdue before them when its run is over: the last one waits for three runs
// from then on, which is all that the formula allows but for two milliseconds.
func TestTheBoundIsReached(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	c := fair.Config{Slots: 1, Lanes: []fair.Lane{
		{Weight: 1, MaxWait: never, MaxGap: ms}, {Weight: 1, MaxWait: never, MaxGap: 1001 * ms}, {Weight: 1, MaxWait: never, MaxGap: 1002 * ms},
	}}
	second := source{backlog: busy, takes: fixed(time.Second)}
	later := source{backlog: func(at time.Duration) bool { return at > 0 }, takes: fixed(time.Second)}
	p := newPool(newOurs, c, []source{second, later, later})
	p.runUntil(1, 1) // so long after the first start the others come
	p.runUntil(time.Minute, time.Second)
	require.Equal(t, 4002*ms, p.bound(2))
	require.Equal(t, 4*time.Second, p.waited[2])
}

// A clock too coarse to see a run does not make it free.
func TestARunThatTakesNoTimeIsNotFree(t *testing.T) {
	t.Parallel()
	c := fair.Config{Slots: 1, Lanes: []fair.Lane{lane(1), lane(1)}}
	s := fair.New(epoch, c)
	starts := [2]int{}
	for range 100 {
		choice, ok := s.Pick(epoch, func(int) (time.Time, bool) { return epoch, true })
		require.True(t, ok)
		starts[choice.Lane]++
		s.End(epoch, s.Start(epoch, choice, 0))
	}
	require.Equal(t, [2]int{50, 50}, starts)

	// Nor is one whose kind has not run yet.
	c.Slots = 100
	s = fair.New(epoch, c)
	for range 100 {
		choice, _ := s.Pick(epoch, func(int) (time.Time, bool) { return epoch, true })
		s.Start(epoch, choice, 0)
	}
	require.Equal(t, 50, s.Stats(0, epoch).Running)
}

// Estimates that were a hundred times too high must not count against who
// comes later.
func TestWhatWasChargedTooMuchIsNotOwedByOthers(t *testing.T) {
	t.Parallel()
	c := fair.Config{Slots: 8, Lanes: []fair.Lane{lane(1), lane(1), lane(2)}}
	var p *pool
	expect := func(d time.Duration) time.Duration {
		if p.now < time.Minute {
			return 100 * d
		}
		return d
	}
	tens := source{backlog: busy, takes: fixed(100 * time.Millisecond), expect: expect}
	late := tens
	late.backlog = func(at time.Duration) bool { return at >= 61*time.Second }
	p = newPool(newOurs, c, []source{tens, tens, late})
	p.runUntil(61*time.Second, time.Second)
	p.measure()
	p.runUntil(p.now+20*time.Second, time.Second)
	require.InDeltaSlice(t, []float64{0.25, 0.25, 0.5}, p.shares(), within)
}

func TestStatsTellWhatBecameOfALane(t *testing.T) {
	t.Parallel()
	c := fair.Config{Slots: 2, Aging: 0.1, Lanes: []fair.Lane{{Weight: 1, MaxWait: time.Second, MaxGap: time.Minute}}}
	s := fair.New(epoch, c)
	at := func(d time.Duration) time.Time { return epoch.Add(d) }
	head := func(int) (time.Time, bool) { return epoch, true }
	pick := func(now time.Time) fair.Run {
		choice, ok := s.Pick(now, head)
		require.True(t, ok)
		return s.Start(now, choice, time.Second)
	}
	first, _ := pick(at(0)), pick(at(2*time.Second))
	s.End(at(5*time.Second), first)
	_ = pick(at(5 * time.Second))
	require.Equal(t, 2, s.Running())
	require.Equal(t, fair.Stats{Running: 2, Used: 5 + 4 + 1, Starts: 3, Aged: 1, MaxWait: 5 * time.Second}, s.Stats(0, at(6*time.Second)))
	require.Zero(t, first.Lane())
	require.Equal(t, time.Second, first.Expected())
}

func TestAverage(t *testing.T) {
	t.Parallel()
	var a fair.Average
	require.Zero(t, a.Mean())
	a.Observe(8 * time.Second)
	require.Equal(t, 8*time.Second, a.Mean())
	a.Observe(0)
	require.Equal(t, 7*time.Second, a.Mean())
}

func BenchmarkStart(b *testing.B) {
	for _, n := range []int{4, 64} {
		for _, aged := range []bool{false, true} {
			b.Run(fmt.Sprintf("lanes=%d/aged=%t", n, aged), func(b *testing.B) {
				c := fair.Config{Slots: 2 * n, Aging: 0.1}
				for i := range n {
					l := lane(i + 1)
					l.Reserve = i % 2
					if aged {
						l.MaxWait = 0
					}
					c.Lanes = append(c.Lanes, l)
				}
				s := fair.New(epoch, c)
				now := epoch
				head := func(int) (time.Time, bool) { return now, true }
				b.ReportAllocs()
				for b.Loop() {
					now = now.Add(time.Microsecond)
					choice, _ := s.Pick(now, head)
					s.End(now, s.Start(now, choice, time.Millisecond))
				}
			})
		}
	}
}

func TestAStartAllocatesNothing(t *testing.T) {
	c := fair.Config{Slots: 8, Aging: 0.1, Lanes: []fair.Lane{lane(2), {Weight: 1, Reserve: 1}}}
	s := fair.New(epoch, c)
	head := func(int) (time.Time, bool) { return epoch, true }
	require.Zero(t, testing.AllocsPerRun(100, func() {
		choice, _ := s.Pick(epoch, head)
		s.End(epoch, s.Start(epoch, choice, time.Second))
	}))
}
