package fair_test

import (
	"math"
	"time"

	"github.com/axtasks/ax/internal/fair"
)

// wrong is a way in which a scheduler can be wrong. Each of the properties must
// see one of them.
type wrong int

const (
	nothing          wrong = iota
	countsPicks            // a start costs the same, however long it runs
	mostOverdueFirst       // a head past its MaxWait goes first, the longest overdue of them
	banksCredit            // who was idle may claim what it did not use
	correctsAtTheEnd       // a run is charged with its estimate until it is over
	chargesAtTheEnd        // and with nothing
	pilesUp                // MaxGap starts another run beside those of the lane
	ignoresReserve         //
	keepsSlotsFree         // a reserve is slots that stay free, and no cap
	keepsShares            // an idle share stays idle
	strictOrder            // the first lane goes first
	ignoresGap             //
	ignoresAge             //
	banksReserve           // who was held back by a reserve may claim what it was kept from
	forgetsHeldBack        // and who shares what the reserve leaves is made level each time
)

// model is the scheduler written down as plainly as can be: what each run is
// charged with is looked up run by run.
type model struct {
	fair.Config
	wrong   wrong
	lanes   []*modelLane
	aging   [2]float64 // what the accounts were moved by
	reached [2]float64
	upper   float64
	runs    map[int]*modelRun
	last    []bool // that had work in the last decision
}

type modelLane struct {
	ended [2]float64 // by account; also what it was moved by
	stood [2]int     // in the last decision: 0 not at all, 1 held back, 2 able to start
	held  int
}

type modelRun struct {
	lane, account int
	began         time.Time
	expected      time.Duration
}

func newModel(w wrong) maker {
	return func(c fair.Config) chooser {
		m := &model{Config: c, wrong: w, runs: map[int]*modelRun{}}
		for range c.Lanes {
			m.lanes = append(m.lanes, &modelLane{})
		}
		return m
	}
}

// charge is what a run costs until now.
func (m *model) charge(r *modelRun, now time.Time) float64 {
	switch m.wrong {
	case countsPicks:
		return 1
	case correctsAtTheEnd:
		return r.expected.Seconds()
	case chargesAtTheEnd:
		return 0
	}
	return max(r.expected, now.Sub(r.began)).Seconds()
}

// tag is a lane's in an account, or with lane -1 the account's own.
func (m *model) tag(lane, account int, now time.Time) float64 {
	var sum float64
	for _, r := range m.runs {
		if r.account == account && (lane < 0 || r.lane == lane) {
			sum += m.charge(r, now)
		}
	}
	if lane < 0 {
		part := [2]float64{1 - m.Aging, m.Aging}
		return (m.aging[account] + sum) / part[account]
	}
	return (m.lanes[lane].ended[account] + sum) / float64(m.Lanes[lane].Weight)
}

func (m *model) Pick(now time.Time, head func(int) (time.Time, bool)) (fair.Choice, bool) {
	running := 0
	for _, l := range m.lanes {
		running += l.held
	}
	if running >= m.Slots {
		return fair.Choice{}, false
	}
	n := len(m.lanes)
	may, held, since := [2][]bool{make([]bool, n), make([]bool, n)}, make([]bool, n), make([]time.Time, n)
	for i := range m.lanes {
		at, work := head(i)
		since[i] = at
		may[0][i] = work && m.allowed(i)
		held[i] = work && !may[0][i]
		may[1][i] = may[0][i] && m.Aging > 0 && now.Sub(at) >= m.Lanes[i].MaxWait && m.wrong != ignoresAge
	}
	for account := range 2 {
		m.admit(account, may[account], held, now)
	}
	overdue := -1
	for i, l := range m.lanes {
		due := since[i].Add(m.Lanes[i].MaxGap)
		if m.wrong == mostOverdueFirst {
			due = since[i].Add(m.Lanes[i].MaxWait)
		}
		if may[0][i] && m.wrong != ignoresGap && (l.held == 0 || m.wrong == pilesUp || m.wrong == mostOverdueFirst) && !now.Before(due) {
			if overdue < 0 || due.Before(since[overdue].Add(m.Lanes[overdue].MaxGap)) {
				overdue = i
			}
		}
	}
	if overdue >= 0 {
		return fair.Choice{Lane: overdue, Rule: fair.Gap}, true
	}
	if m.wrong == keepsShares {
		return m.inTurn(may[0])
	}
	best := [2]int{-1, -1}
	for account := range 2 {
		for i := range m.lanes {
			if may[account][i] && (best[account] < 0 || m.tag(i, account, now) < m.tag(best[account], account, now) && m.wrong != strictOrder) {
				best[account] = i
			}
		}
	}
	if best[0] < 0 {
		return fair.Choice{}, false
	}
	account := 0
	if best[1] >= 0 && m.tag(-1, 1, now) <= m.tag(-1, 0, now) {
		account = 1
	}
	m.upper = max(m.upper, m.tag(-1, account, now))
	m.chosen(best[account], account, held, now)
	return fair.Choice{Lane: best[account], Rule: []fair.Rule{fair.Share, fair.Aged}[account]}, true
}

// inTurn gives each lane its slots by weight, and nobody else's.
func (m *model) inTurn(may []bool) (fair.Choice, bool) {
	sum := 0
	for _, l := range m.Lanes {
		sum += l.Weight
	}
	for i, l := range m.lanes {
		if may[i] && l.held < max(m.Slots*m.Lanes[i].Weight/sum, 1) {
			return fair.Choice{Lane: i}, true
		}
	}
	return fair.Choice{}, false
}

// admit moves up who comes back.
func (m *model) admit(account int, may, held []bool, now time.Time) {
	// By how a lane stood: not at all, held back, or able to start.
	inf := math.Inf(1)
	least, used, most := [3]float64{inf, inf, inf}, [3]float64{inf, inf, inf}, math.Inf(-1)
	for i, l := range m.lanes {
		past := l.ended[account]
		for _, r := range m.runs {
			if r.lane == i && r.account == account {
				past += now.Sub(r.began).Seconds()
			}
		}
		past /= float64(m.Lanes[i].Weight)
		s := l.stood[account]
		most, least[s], used[s] = max(most, past), min(least[s], m.tag(i, account, now)), min(used[s], past)
	}
	resume := most
	for _, s := range []int{1, 2} { // who can start decides, where there is one
		if least[s] < inf {
			resume = max(used[s], min(m.reached[account], least[s]))
		}
	}
	some := false
	for i, l := range m.lanes {
		stands := 0
		if may[i] {
			stands = 2
		} else if held[i] && account == 0 && m.wrong != forgetsHeldBack {
			stands = 1
		}
		some = some || stands > 0
		if tag := m.tag(i, account, now); stands > 0 && l.stood[account] == 0 && tag < resume && m.wrong != banksCredit {
			l.ended[account] += (resume - tag) * float64(m.Lanes[i].Weight)
		}
		l.stood[account] = stands
	}
	if account == 1 {
		if len(m.last) == 0 {
			m.last = make([]bool, 1)
		}
		if tag := m.tag(-1, 1, now); some && !m.last[0] && m.Aging > 0 && m.wrong != banksCredit {
			if up := min(m.upper, m.tag(-1, 0, now)); up > tag {
				m.aging[1] += (up - tag) * m.Aging
			}
		}
		m.last[0] = some
	}
}

// chosen moves those along that a reserve holds back.
func (m *model) chosen(lane, account int, held []bool, now time.Time) {
	tag := m.tag(lane, account, now)
	m.reached[account] = max(m.reached[account], tag)
	if account == 1 || m.wrong == banksReserve || m.wrong == forgetsHeldBack {
		return
	}
	least, some := 0.0, false
	for i := range m.lanes {
		if t := m.tag(i, 0, now); held[i] && (!some || t < least) {
			least, some = t, true
		}
	}
	for i, l := range m.lanes {
		if held[i] && some && least < tag {
			l.ended[0] += (tag - least) * float64(m.Lanes[i].Weight)
		}
	}
}

func (m *model) allowed(lane int) bool {
	switch m.wrong {
	case ignoresReserve:
		return true
	case keepsSlotsFree:
		free, reserved := m.Slots, 0
		for _, l := range m.lanes {
			free -= l.held
		}
		for _, l := range m.Lanes[:lane] {
			reserved += l.Reserve
		}
		return free > reserved
	}
	reserved := 0
	for j := 0; j <= lane; j++ {
		held := 0
		for _, l := range m.lanes[j:] {
			held += l.held
		}
		if held >= max(m.Slots-reserved, 1) {
			return false
		}
		reserved += m.Lanes[j].Reserve
	}
	return true
}

func (m *model) Start(now time.Time, c fair.Choice, expected time.Duration, run int) {
	account := 0
	if c.Rule == fair.Aged {
		account = 1
	}
	m.runs[run] = &modelRun{c.Lane, account, now, expected}
	m.lanes[c.Lane].held++
}

func (m *model) End(now time.Time, run int) {
	r := m.runs[run]
	delete(m.runs, run)
	m.lanes[r.lane].held--
	cost := now.Sub(r.began).Seconds()
	if m.wrong == countsPicks {
		cost = 1
	}
	m.lanes[r.lane].ended[r.account] += cost
	m.aging[r.account] += cost
}
