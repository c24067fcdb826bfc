package demo

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/axtasks/ax"
)

// state is where a task is, as far as this process can tell.
type state uint8

const (
	queued  state = iota // in its lane, or on its way there
	delayed              // in a tier, or due and not started
	running
	dying // its last attempt failed, and the dead topic was not read since
	states
)

// entry is a task that is neither done nor dead.
type entry struct {
	lane  int
	state state
	acked bool // its receipt has come
	ended end  // before its receipt has come
}

type end uint8

const (
	notEnded end = iota
	endedDone
	endedDead
)

// account knows every task of this run that is not settled, and counts the
// rest. It is safe for concurrent use.
type account struct {
	run   string
	lanes []laneAccount
	index map[string]int

	mu   sync.Mutex
	live map[uint64]*entry
	late histogram
	// submitted are tasks with a receipt, refused are those that certainly
	// were not written.
	submitted, done, dead, refused int
	repeats, early                 int
	retries, snoozed               int
	refusal                        error // the first
}

type laneAccount struct {
	name   string
	weight int
	done   int
	wait   histogram
	in     [states]int
}

func newAccount(run string, lanes []ax.Lane) *account {
	a := &account{run: run, index: map[string]int{}, live: map[uint64]*entry{}}
	for i, l := range lanes {
		a.lanes = append(a.lanes, laneAccount{name: l.Name, weight: l.Weight})
		a.index[l.Name] = i
	}
	return a
}

// id returns the id of the run's n-th task.
func (a *account) id(n uint64) string { return a.run + "-" + strconv.FormatUint(n, 10) }

// number is the inverse of id; it reports false for a task of another run.
func (a *account) number(id string) (uint64, bool) {
	text, ours := strings.CutPrefix(id, a.run+"-")
	n, err := strconv.ParseUint(text, 10, 64)
	return n, ours && err == nil
}

// size returns how many tasks are not settled.
func (a *account) size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.live)
}

// submit takes in a task before it is sent: it may be done before its receipt
// comes.
func (a *account) submit(n uint64, lane string, at state) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &entry{lane: a.index[lane], state: at}
	a.live[n] = e
	a.lanes[e.lane].in[at]++
}

// answered takes in the answer to a submit.
func (a *account) answered(n uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.live[n]
	switch {
	case e == nil:
	case err == nil:
		e.acked = true
		a.submitted++
		a.settle(n, e)
	case errors.Is(err, ax.ErrUnknownOutcome):
		a.refuse(err) // it may be done yet, but nobody was promised so
	default:
		a.refuse(err)
		a.forget(n, e)
	}
}

func (a *account) refuse(err error) {
	a.refused++
	if a.refusal == nil {
		a.refusal = err
	}
}

// started takes in a start of a handler at now.
func (a *account) started(n uint64, t *ax.Task, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ready := t.Submitted
	if !t.Due.IsZero() {
		if now.Before(t.Due) {
			a.early++
		}
		ready = t.Due
		a.late.add(now.Sub(t.Due))
	}
	if lane, ok := a.index[t.Lane]; ok {
		a.lanes[lane].wait.add(now.Sub(ready))
	}
	a.move(n, running)
}

// failed takes in an error of a handler, after which the task is at another
// place.
func (a *account) failed(n uint64, err error, to state) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if snooze := (*ax.SnoozeError)(nil); errors.As(err, &snooze) {
		a.snoozed++
	} else if to == delayed {
		a.retries++
	}
	a.move(n, to)
}

func (a *account) move(n uint64, to state) {
	if e := a.live[n]; e != nil {
		a.lanes[e.lane].in[e.state]--
		a.lanes[e.lane].in[to]++
		e.state = to
	}
}

// finish takes in that a handler returned nil, or that the id was read in the
// dead topic.
func (a *account) finish(n uint64, how end) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.live[n]
	if e == nil || e.ended != notEnded {
		a.repeats++ // every task is known before it is sent
		return
	}
	e.ended = how
	a.settle(n, e)
}

// settle forgets a task that has ended and has its receipt.
func (a *account) settle(n uint64, e *entry) {
	if !e.acked {
		return
	}
	switch e.ended {
	case notEnded:
		return
	case endedDone:
		a.done++
		a.lanes[e.lane].done++
	case endedDead:
		a.dead++
	}
	a.forget(n, e)
}

func (a *account) forget(n uint64, e *entry) {
	a.lanes[e.lane].in[e.state]--
	delete(a.live, n)
}

// maxNamed bounds the ids that a summary names.
const maxNamed = 10

// judge returns the balance. found holds the tasks that were read in lanes and
// tiers after all roles had stopped.
func (a *account) judge(found map[uint64]bool) Summary {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := Summary{
		Submitted: a.submitted, Done: a.done, Dead: a.dead, Refused: a.refused,
		Early: a.early, Repeats: a.repeats, Retries: a.retries, Snoozed: a.snoozed,
		LateP50: millis(a.late.quantile(0.5)), LateP99: millis(a.late.quantile(0.99)),
		Lanes: map[string]LaneSummary{},
	}
	var lost []uint64
	for n, e := range a.live {
		switch {
		case !e.acked:
		case found[n]:
			s.Waiting++
		default:
			lost = append(lost, n)
		}
	}
	s.Lost = len(lost)
	slices.Sort(lost)
	for _, n := range lost[:min(len(lost), maxNamed)] {
		s.LostIDs = append(s.LostIDs, a.id(n))
	}
	for i := range a.lanes {
		l := &a.lanes[i]
		s.Lanes[l.name] = LaneSummary{Done: l.done, WaitP50: millis(l.wait.quantile(0.5)), WaitP99: millis(l.wait.quantile(0.99))}
		s.order = append(s.order, l.name)
	}
	if a.refusal != nil {
		s.Refusal = a.refusal.Error()
	}
	return s
}

// Snapshot is how a run stands.
type Snapshot struct {
	Elapsed                   time.Duration
	Submitted, Done, Dead     int
	Delayed, Retries, Snoozed int
	Early, Repeats            int
	LateP50, LateP99          time.Duration
	Lanes                     []LaneSnapshot
	Rate, Slots               int
	Brokers                   string
}

// LaneSnapshot is how a lane stands.
type LaneSnapshot struct {
	Name                  string
	Weight                int
	Queued, Running, Done int
	WaitP50, WaitP99      time.Duration
}

func (a *account) snapshot() Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := Snapshot{
		Submitted: a.submitted, Done: a.done, Dead: a.dead, Retries: a.retries, Snoozed: a.snoozed,
		Early: a.early, Repeats: a.repeats,
		LateP50: a.late.quantile(0.5), LateP99: a.late.quantile(0.99),
	}
	for i := range a.lanes {
		l := &a.lanes[i]
		s.Delayed += l.in[delayed]
		s.Lanes = append(s.Lanes, LaneSnapshot{
			Name: l.name, Weight: l.weight, Queued: l.in[queued], Running: l.in[running], Done: l.done,
			WaitP50: l.wait.quantile(0.5), WaitP99: l.wait.quantile(0.99),
		})
	}
	return s
}

// Summary is the balance of a run.
type Summary struct {
	Submitted int      `json:"submitted"` // tasks with a receipt
	Done      int      `json:"done"`      // their handler returned nil
	Dead      int      `json:"dead"`      // read in the dead topic
	Waiting   int      `json:"waiting"`   // read in a lane or tier
	Lost      int      `json:"lost"`      // found nowhere
	LostIDs   []string `json:"lost_ids,omitempty"`
	Early     int      `json:"early"`   // starts before the due time
	Repeats   int      `json:"repeats"` // ends of a task that had ended
	Retries   int      `json:"retries"`
	Snoozed   int      `json:"snoozed"`
	Refused   int      `json:"refused"` // submits without a receipt
	Refusal   string   `json:"refusal,omitempty"`
	// LateP50 and LateP99 are of all starts of tasks with a due time.
	LateP50 float64                `json:"late_p50_ms"`
	LateP99 float64                `json:"late_p99_ms"`
	Lanes   map[string]LaneSummary `json:"lanes"`
	Seconds float64                `json:"seconds"`

	order []string // of the lanes
}

// LaneSummary is what a lane did. A wait is from the moment at which a task
// could have started to its start.
type LaneSummary struct {
	Done    int     `json:"done"`
	WaitP50 float64 `json:"wait_p50_ms"`
	WaitP99 float64 `json:"wait_p99_ms"`
}

// Err returns nil if all tasks are accounted for and none started early.
func (s Summary) Err() error {
	var errs []error
	if s.Lost > 0 {
		errs = append(errs, fmt.Errorf("%d tasks are lost: %s", s.Lost, strings.Join(s.LostIDs, ", ")))
	}
	if s.Early > 0 {
		errs = append(errs, fmt.Errorf("%d starts were early", s.Early))
	}
	if sum := s.Done + s.Dead + s.Waiting + s.Lost; sum != s.Submitted {
		errs = append(errs, fmt.Errorf("%d tasks are accounted for, %d were submitted", sum, s.Submitted))
	}
	if s.Submitted == 0 {
		errs = append(errs, errors.New("no task was submitted"))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("demo: %w", errors.Join(errs...))
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
