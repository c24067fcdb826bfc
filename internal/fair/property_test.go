package fair_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/internal/fair"
)

// property is what must be true of a scheduler whatever it is given: it draws
// a case and returns what was wrong.
type property struct {
	name  string
	holds func(mk maker, rng *rand.Rand) error
	wrong []wrong // each must break it
}

var properties = []property{
	{"shares of time follow the weights while no lane is aged", sharesByWeight(never), []wrong{countsPicks, strictOrder, keepsShares}},
	{"and while all are", sharesByWeight(0), []wrong{countsPicks, mostOverdueFirst, strictOrder}},
	{"aged lanes have the aging part, the others lose no more", agedPart, []wrong{ignoresAge, mostOverdueFirst, countsPicks}},
	{"a head's wait is within the bound", headsWaitWithinBound, []wrong{ignoresGap}},
	{"a start takes a free slot and breaks no reserve", everySlotIsUsed, []wrong{ignoresReserve, keepsSlotsFree, keepsShares}},
	{"idle share is neither banked nor owed", neitherBankedNorOwed, []wrong{banksCredit}},
	{"what a reserve keeps from lanes is not banked", reserveIsNotBanked, []wrong{banksReserve, forgetsHeldBack}},
	{"a long run counts while it runs", longRunCounts, []wrong{correctsAtTheEnd, chargesAtTheEnd}},
	{"starts at one instant are shared by weight", burstIsShared, []wrong{chargesAtTheEnd, strictOrder}},
	{"starts after a gap do not pile up", gapsDoNotPileUp, []wrong{pilesUp}},
}

// never is a MaxWait that no test reaches.
const never = 1000 * time.Hour

const cases = 24

func TestTheSchedulerKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for _, p := range properties {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(cases) {
				require.NoError(t, p.holds(newOurs, rand.New(rand.NewPCG(seed, 1))), "seed %d", seed)
			}
		})
	}
}

// A property that no scheduler breaks would prove nothing. The model without a
// fault must keep all of them, too.
func TestAWrongSchedulerBreaksThem(t *testing.T) {
	t.Parallel()
	for _, p := range properties {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(cases / 8) {
				require.NoError(t, p.holds(newModel(nothing), rand.New(rand.NewPCG(seed, 1))), "seed %d", seed)
			}
			for _, w := range p.wrong {
				broken := false
				for seed := uint64(0); seed < cases && !broken; seed++ {
					broken = p.holds(newModel(w), rand.New(rand.NewPCG(seed, 1))) != nil
				}
				require.True(t, broken, "fault %d was not seen", w)
			}
		})
	}
}

// drawn is a random configuration under full load.
type drawn struct {
	fair.Config
	sources []source
	longest time.Duration
}

func draw(rng *rand.Rand, lanes, slots int) *drawn {
	d := &drawn{Config: fair.Config{Slots: 1 + rng.IntN(slots), Aging: []float64{0.1, 0.1, 0.02, 0.4}[rng.IntN(4)]}}
	for range 2 + rng.IntN(lanes-1) {
		d.Lanes = append(d.Lanes, fair.Lane{Weight: 1 + rng.IntN(20), MaxWait: never, MaxGap: never})
		mean := time.Duration(50+rng.IntN(950)) * time.Millisecond
		d.longest = max(d.longest, 2*mean)
		s := source{backlog: busy, takes: between(rng, 1, 2*mean)}
		if rng.IntN(2) == 0 {
			s.expect = func(time.Duration) time.Duration { return mean } // as a moving average would be
		}
		d.sources = append(d.sources, s)
	}
	return d
}

func (d *drawn) weight(of func(lane int) bool) (sum float64) {
	for i, l := range d.Lanes {
		if of(i) {
			sum += float64(l.Weight)
		}
	}
	return sum
}

func all(int) bool { return true }

// window is over which shares are compared: 60 times the longest run, and more
// where there are few slots, since a single run is then a percent of it.
func (d *drawn) window() time.Duration {
	return time.Duration(max(60, 300/d.Slots)) * d.longest
}

// within is one percentage point.
const within = 0.01

// compare runs the pool and compares the lanes' shares of slot time, from some
// way into the run, with what they should be.
func (d *drawn) compare(mk maker, want func(lane int) float64) error {
	p := newPool(mk, d.Config, d.sources)
	p.runUntil(10*d.longest, d.longest)
	p.measure()
	p.runUntil(10*d.longest+d.window(), d.longest)
	for i, got := range p.shares() {
		if math.Abs(got-want(i)) > within {
			return fmt.Errorf("lane %d of weight %d on %d slots has %.4f, want %.4f", i, d.Lanes[i].Weight, d.Slots, got, want(i))
		}
	}
	return nil
}

func sharesByWeight(maxWait time.Duration) func(maker, *rand.Rand) error {
	return func(mk maker, rng *rand.Rand) error {
		d := draw(rng, 6, 16)
		for i := range d.Lanes {
			d.Lanes[i].MaxWait = maxWait
		}
		sum := d.weight(all)
		return d.compare(mk, func(i int) float64 { return float64(d.Lanes[i].Weight) / sum })
	}
}

func agedPart(mk maker, rng *rand.Rand) error {
	d := draw(rng, 6, 16)
	old := make([]bool, len(d.Lanes))
	old[0] = true
	for i := 1; i < len(old)-1; i++ {
		old[i] = rng.IntN(2) == 0
	}
	for i := range old {
		if old[i] {
			d.Lanes[i].MaxWait = 0
		}
	}
	sum, aged := d.weight(all), d.weight(func(i int) bool { return old[i] })
	return d.compare(mk, func(i int) float64 {
		w := float64(d.Lanes[i].Weight)
		part := (1 - d.Aging) * w / sum
		if old[i] {
			part += d.Aging * w / aged
		}
		return part
	})
}

// drawUnsteady draws lanes whose work comes and goes, with reserves, wrong
// estimates and all rules at work.
func drawUnsteady(rng *rand.Rand) *drawn {
	d := draw(rng, 6, 16)
	for i := range d.Lanes {
		l := &d.Lanes[i]
		l.Weight = []int{1, 1, 10, 1000}[rng.IntN(4)]
		l.Reserve = []int{0, 0, 0, 1, 2, d.Slots, d.Slots + 3}[rng.IntN(7)]
		l.MaxWait = time.Duration(rng.IntN(3000)) * time.Millisecond
		l.MaxGap = time.Duration(100+rng.IntN(5000)) * time.Millisecond
		s := &d.sources[i]
		period := time.Duration(1+rng.IntN(5)) * d.longest
		if rng.IntN(2) == 0 {
			s.backlog = func(at time.Duration) bool { return at%(2*period) < period }
		}
		factor := []float64{0, 0.1, 1, 5}[rng.IntN(4)]
		s.expect = func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	}
	d.Strict = rng.IntN(4) == 0
	return d
}

func headsWaitWithinBound(mk maker, rng *rand.Rand) error {
	d := drawUnsteady(rng)
	p := newPool(mk, d.Config, d.sources)
	p.runUntil(100*d.longest, d.longest/3+1)
	for i := range p.Lanes {
		waits := p.waited[i]
		if p.since[i] >= 0 {
			waits = max(waits, p.now-p.since[i]) // it waits still
		}
		if waits > p.bound(i) {
			return fmt.Errorf("lane %d: a head waited %s, the bound is %s", i, waits, p.bound(i))
		}
	}
	return nil
}

func everySlotIsUsed(mk maker, rng *rand.Rand) (err error) {
	d := drawUnsteady(rng)
	p := newPool(mk, d.Config, d.sources)
	p.check = func(picked int) {
		switch running := p.runningNow(); {
		case err != nil:
		case running > p.Slots:
			err = fmt.Errorf("%d of %d slots are taken", running, p.Slots)
		case picked >= 0 && (p.since[picked] < 0 || !p.mayStart(picked)):
			err = fmt.Errorf("lane %d was picked and may not start: %v", picked, p.held)
		case picked < 0 && running < p.Slots:
			for i := range p.Lanes {
				if p.since[i] >= 0 && p.mayStart(i) {
					err = fmt.Errorf("a slot is free and lane %d could start: %v", i, p.held)
				}
			}
		}
	}
	p.runUntil(60*d.longest, d.longest/3+1)
	return err
}

// A lane that comes back after a long time of little or no work gets its share
// from then on, and not what it missed; and a lane that used what nobody
// wanted is not made to pay for it.
func neitherBankedNorOwed(mk maker, rng *rand.Rand) error {
	const task = 100 * time.Millisecond
	const quiet, end = 5 * time.Minute, 6 * time.Minute
	loud := func(at time.Duration) bool { return at >= quiet }
	nobody := func(time.Duration) bool { return false }
	before := [][2]func(time.Duration) bool{
		{busy, nobody},
		// The other comes while the busy one pauses, until both come back.
		{func(at time.Duration) bool { return at < quiet-2*time.Second }, func(at time.Duration) bool { return at >= quiet-time.Second }},
		// They take turns.
		{func(at time.Duration) bool { return at%(10*time.Second) < 5*time.Second }, func(at time.Duration) bool { return at%(10*time.Second) > 9*time.Second }},
		{busy, nil}, // one has two tasks at all times
	}[rng.IntN(4)]
	slots := []int{1, 3, 8}[rng.IntN(3)]
	if before[1] == nil {
		slots = 8
	}
	c := fair.Config{Slots: slots, Lanes: []fair.Lane{{Weight: 1, MaxWait: never, MaxGap: never}, {Weight: 1, MaxWait: never, MaxGap: never}}}
	if rng.IntN(2) == 0 {
		c.Aging = 0.1
		c.Lanes[0].MaxWait, c.Lanes[1].MaxWait = 0, 0
	}
	p := newPool(mk, c, make([]source, 2))
	for i := range p.sources {
		factor := []float64{0.1, 1, 1, 10}[rng.IntN(4)]
		p.sources[i] = source{takes: between(rng, task, 2*task), backlog: func(at time.Duration) bool {
			if before[i] == nil {
				return loud(at) || p.held[i] < 2
			}
			return loud(at) || before[i](at)
		}, expect: func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }}
	}
	p.runUntil(quiet, task)
	if used := p.usedNow(); used[0] < 2*used[1] {
		return fmt.Errorf("the lanes used about the same before: %v", used)
	}
	for at := quiet; at < end; {
		at += 10 * time.Second
		p.measure()
		p.runUntil(at, task)
		if share := p.shares()[0]; math.Abs(share-0.5) > 0.06 {
			return fmt.Errorf("%s after both had work, the first had %.3f of the time", at-quiet, share)
		}
	}
	return nil
}

// An urgent lane of little weight keeps most slots for itself by its reserve.
// Those that share the rest do so by weight, also where one of them was away.
func reserveIsNotBanked(mk maker, rng *rand.Rand) error {
	gap := fair.Lane{Weight: 1, MaxWait: never, MaxGap: never}
	c := fair.Config{Slots: 8, Lanes: []fair.Lane{gap, gap, gap}}
	c.Lanes[0].Reserve = 6
	c.Lanes[1].Weight, c.Lanes[2].Weight = 100, 300
	away := time.Duration(rng.IntN(2)) * 2 * time.Minute
	ms := time.Millisecond
	p := newPool(mk, c, []source{
		{backlog: busy, takes: between(rng, 10*ms, 30*ms)},
		{backlog: func(at time.Duration) bool { return at >= away }, takes: between(rng, 10*ms, 50*ms)},
		{backlog: busy, takes: between(rng, 50*ms, 150*ms)},
	})
	p.runUntil(away+time.Second, time.Second)
	p.measure()
	p.runUntil(away+30*time.Second, time.Second)
	s := p.shares()
	if of := s[1] / (s[1] + s[2]); math.Abs(of-0.25) > 2*within {
		return fmt.Errorf("the second lane has %.3f of what the reserve leaves, want 0.25", of)
	}
	return nil
}

// Now and then a task of the light lane runs for minutes, where its kind is
// expected to take milliseconds. The heavy lane must not wait for it.
func longRunCounts(mk maker, rng *rand.Rand) error {
	c := fair.Config{Slots: 4, Aging: 0.1, Lanes: []fair.Lane{{Weight: 8, MaxWait: never, MaxGap: never}, {Weight: 1, MaxWait: never, MaxGap: never}}}
	ms := time.Millisecond
	p := newPool(mk, c, []source{
		{backlog: busy, takes: fixed(10 * ms)},
		{backlog: busy, expect: fixedEstimate(10 * ms), takes: func() time.Duration {
			if rng.IntN(50) == 0 {
				return 300 * time.Second
			}
			return 10 * ms
		}},
	})
	p.runUntil(600*time.Second, time.Second)
	if p.waited[0] > time.Second {
		return fmt.Errorf("the heavy lane waited %s", p.waited[0])
	}
	return nil
}

func fixedEstimate(d time.Duration) func(time.Duration) time.Duration {
	return func(time.Duration) time.Duration { return d }
}

func burstIsShared(mk maker, rng *rand.Rand) error {
	weight := 1 + rng.IntN(5)
	c := fair.Config{Slots: 10 * (weight + 1), Lanes: []fair.Lane{{Weight: weight, MaxWait: never, MaxGap: never}, {Weight: 1, MaxWait: never, MaxGap: never}}}
	p := newPool(mk, c, []source{{backlog: busy, takes: fixed(time.Second)}, {backlog: busy, takes: fixed(time.Second)}})
	p.runUntil(time.Millisecond, time.Second)
	if want := []int{10 * weight, 10}; !slices.Equal(p.held, want) {
		return fmt.Errorf("%v were started, want %v", p.held, want)
	}
	return nil
}

func gapsDoNotPileUp(mk maker, rng *rand.Rand) error {
	d := draw(rng, 4, 16)
	d.Aging = 0
	d.Slots += 8
	last := len(d.Lanes) - 1
	for i := range d.Lanes {
		d.Lanes[i].Weight = 1000
	}
	d.Lanes[last] = fair.Lane{Weight: 1, MaxWait: never, MaxGap: time.Second}
	d.sources[last] = source{backlog: busy, takes: fixed(5 * time.Minute)}
	p := newPool(mk, d.Config, d.sources)
	most := 0
	p.check = func(int) { most = max(most, p.held[last]) }
	p.runUntil(2*time.Minute, time.Second)
	if most > 2 { // the first by weight, before anything was charged
		return fmt.Errorf("%d runs of the lightest lane hold slots at once", most)
	}
	return nil
}
