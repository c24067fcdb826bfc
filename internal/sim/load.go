package sim

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/text"
)

// Load is what is simulated: how many slots, for how long, and what arrives.
type Load struct {
	Slots  int
	For    time.Duration // what is measured, after the warm-up; 0: until all is done, of a recording
	Warmup time.Duration // is simulated before, and not counted
	Seed   int
	Loads  []Source
}

// DefaultLoad returns a load with the defaults, in which nothing arrives.
func DefaultLoad() Load {
	return Load{Slots: 32, For: time.Minute, Warmup: 2 * time.Second, Seed: 1}
}

// floodRun is how long the tasks of [Flood] run.
const floodRun = 10 * time.Millisecond

// Flood returns the load that shows how lanes share: none of them ever runs dry.
func Flood(d ax.Domain) Load {
	l := DefaultLoad()
	for _, lane := range d.Lanes {
		// A kind of that name, with a space, is in no domain, so none of its
		// settings are about it.
		l.Loads = append(l.Loads, Source{Kind: lane.Name + " flood", Lane: lane.Name, Run: Fixed(floodRun), Flood: true})
	}
	return l
}

// Source is tasks of one kind that arrive.
type Source struct {
	Kind  string
	Lane  string  // empty: the kind's
	Rate  float64 // arrivals a second
	Even  bool    // evenly spaced; else Poisson
	Run   Spread  // how long a run takes
	Delay Spread  // from arrival to due
	Fail  float64 // the part of the attempts that fail
	// Backlog arrives at once, at the beginning.
	Backlog int
	Flood   bool // instead of a rate: the lane never runs dry
	// Begin and End are when arrivals begin and end, since the measured time
	// began. Nil: with the simulation, and with its end.
	Begin, End *time.Duration
}

// The bounds of what can be simulated.
const (
	maxSlots   = 100_000 // as of a worker
	maxFor     = 400 * 24 * time.Hour
	maxWarmup  = 400 * 24 * time.Hour
	maxRate    = 1_000_000
	maxBacklog = 10_000_000
	maxRun     = 24 * time.Hour
)

// Validate returns all that is wrong with l for the domain, which has its
// defaults. The paths of the faults are those of a load's file.
func (l *Load) Validate(d ax.Domain) []*ax.FieldError {
	var v faults
	within(&v, "slots", l.Slots, 1, maxSlots)
	if l.For != 0 || len(l.Loads) > 0 {
		duration(&v, "for", l.For, time.Millisecond, maxFor)
	}
	duration(&v, "warmup", l.Warmup, 0, maxWarmup)
	within(&v, "seed", l.Seed, 0, int(^uint(0)>>1))
	for i := range l.Loads {
		l.source(&v, fmt.Sprintf("loads[%d]", i), &l.Loads[i], d)
	}
	return v
}

func (l *Load) source(v *faults, path string, s *Source, d ax.Domain) {
	at := func(key string) string { return path + "." + key }
	if f := text.Fault(s.Kind, ax.MaxKindBytes); f != "" && (!s.Flood || s.Kind != s.Lane+" flood") { // but for [Flood]'s own
		v.add(at("kind"), quote(s.Kind), f)
	}
	if reason := laneFault(s.Lane, d); reason != "" {
		v.add(at("lane"), quote(s.Lane), reason)
	}
	if s.Rate < 0 || s.Rate > maxRate {
		v.add(at("rate"), number(s.Rate), fmt.Sprintf("want above 0, to %d", maxRate))
	}
	if s.Fail < 0 || s.Fail > 1 {
		v.add(at("fail"), number(s.Fail), "want 0 to 1")
	}
	within(v, at("backlog"), s.Backlog, 0, maxBacklog)
	if s.Run.longest() > maxRun {
		v.add(at("run"), s.Run.String(), "want at most "+text.Duration(maxRun))
	}
	if most := s.Delay.longest(); most > d.Delay.Horizon {
		v.add(at("delay"), s.Delay.String(), "want at most the domain's horizon "+text.Duration(d.Delay.Horizon))
	}
	switch {
	case s.Flood && (s.Rate > 0 || s.Backlog > 0 || s.Delay.longest() > 0):
		v.add(at("flood"), "true", "goes with no rate, backlog or delay: there is always a task that may start")
	case s.Flood && s.Run.longest() < time.Microsecond:
		v.add(at("run"), s.Run.String(), "want at least 1µs, since the lane never runs dry")
	case !s.Flood && s.Rate == 0 && s.Backlog == 0:
		v.add(path, "", "wants a rate, a backlog or flood: true")
	}
	if s.Even && s.Rate == 0 {
		v.add(at("even"), "true", "goes with a rate")
	}
	begin := -l.Warmup
	if s.Begin != nil {
		if begin = *s.Begin; begin < -l.Warmup || begin > maxFor {
			v.add(at("begin"), text.Duration(begin), fmt.Sprintf("want %s, where the warm-up begins, to %s", text.Duration(-l.Warmup), text.Duration(maxFor)))
		}
	}
	if s.End != nil && *s.End <= begin {
		v.add(at("end"), text.Duration(*s.End), "want an instant after "+text.Duration(begin)+", where it begins")
	}
}

// laneFault returns what is wrong with a lane's name, which may be empty.
func laneFault(name string, d ax.Domain) string {
	if _, ok := d.Lane(name); ok || name == "" {
		return ""
	}
	names := make([]string, len(d.Lanes))
	for i, l := range d.Lanes {
		names[i] = l.Name
	}
	return "is no lane of the domain, want one of " + strings.Join(names, ", ")
}

// faults collects what is wrong.
type faults []*ax.FieldError

func (v *faults) add(path, value, reason string) {
	*v = append(*v, &ax.FieldError{Path: path, Value: value, Reason: reason})
}

func within[T cmp.Ordered](v *faults, path string, have, least, most T) {
	if have < least || have > most {
		v.add(path, fmt.Sprint(have), fmt.Sprintf("want %v to %v", least, most))
	}
}

func duration(v *faults, path string, have, least, most time.Duration) {
	if have < least || have > most {
		v.add(path, text.Duration(have), fmt.Sprintf("want %s to %s", text.Duration(least), text.Duration(most)))
	}
}

func quote(s string) string { return strconv.Quote(text.Clip(s, 80)) }

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
