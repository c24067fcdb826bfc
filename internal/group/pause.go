package group

import "time"

// Pause is a set of reasons not to read a partition.
type Pause uint8

const (
	PauseWait    Pause = 1 << iota // what was read may not leave yet
	PauseFull                      // as much as may be was read and waits
	PauseTarget                    // what may leave has no room where it goes to
	PauseWindow                    // too much waits for what is unfinished
	PauseKeys                      // too much waits for the keys at work
	PauseCommand                   // an operator asked for it
)

var pauseNames = []string{"wait", "full", "target", "window", "keys", "command"}

// Names returns the reasons as words.
func (p Pause) Names() (names []string) {
	for i, name := range pauseNames {
		if p&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Pause adds a reason not to read the partition.
func (p *Partition) Pause(why Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced {
		return
	}
	if p.pauses == 0 {
		p.rests++
		p.member.kafka.PauseFetchPartitions(map[string][]int32{p.Topic: {p.ID}})
	}
	if why&PauseWindow != 0 && p.full.IsZero() {
		p.full = time.Now()
	}
	p.pauses |= why
}

// PauseOnly pauses the partition for the reasons why, out of those in of, and
// takes away the others in of.
func (p *Partition) PauseOnly(why, of Pause) {
	p.mu.Lock()
	now := p.pauses & of
	p.mu.Unlock()
	if add := why &^ now; add != 0 {
		p.Pause(add)
	}
	if gone := now &^ why; gone != 0 {
		p.Resume(gone)
	}
}

// Resume takes a reason away; with the last one the partition is read again.
func (p *Partition) Resume(why Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced || p.pauses&why == 0 {
		return
	}
	if why&PauseWindow != 0 {
		p.full = time.Time{}
	}
	if p.pauses &^= why; p.pauses == 0 {
		p.member.kafka.ResumeFetchPartitions(map[string][]int32{p.Topic: {p.ID}})
	}
}

// Rests returns how often reading the partition was paused: what is read after
// that may have waited.
func (p *Partition) Rests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rests
}

// Paused returns the reasons not to read the partition.
func (p *Partition) Paused() Pause {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pauses
}

// relieved reports whether a full window has room again: half of it, so that
// the partition isn't paused and resumed for every record.
func (p *Partition) relieved() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pauses&PauseWindow != 0 && !p.isFull(max(p.member.cfg.MaxUnfinished/2, 1))
}
