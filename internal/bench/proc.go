package bench

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"sync"
	"time"
)

// residentBytes returns the memory that a process takes now, and false where
// it can't be told. "self" is this process.
func residentBytes(pid string) (int, bool) {
	text, err := os.ReadFile("/proc/" + pid + "/statm")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.Atoi(string(fields[1]))
	return pages * os.Getpagesize(), err == nil
}

// clockTick is the unit in which Linux tells the times of a process: to programs it
// is 10 ms on all of its machines.
const clockTick = 10 * time.Millisecond

// cpuTimeOf returns the processor time that a process has used, and false
// where it can't be told.
func cpuTimeOf(pid string) (time.Duration, bool) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	return cpuTimeIn(text)
}

// cpuTimeIn reads the line of proc(5). The name of the program, in brackets,
// may hold anything; user and system time are the 12th and 13th field after it.
func cpuTimeIn(stat []byte) (time.Duration, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	user, err := strconv.Atoi(string(fields[11]))
	if err != nil {
		return 0, false
	}
	system, err := strconv.Atoi(string(fields[12]))
	return time.Duration(user+system) * clockTick, err == nil
}

// memory watches what a process takes.
type memory struct {
	pid          string
	before, most int
	known        bool
	once         sync.Once
	end, over    chan struct{}
}

// watchMemory watches a process until [memory.stop].
func watchMemory(pid string) *memory {
	m := &memory{pid: pid, end: make(chan struct{}), over: make(chan struct{})}
	m.before, m.known = residentBytes(pid)
	m.most = m.before
	go m.watch()
	return m
}

func (m *memory) watch() {
	defer close(m.over)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			now, _ := residentBytes(m.pid)
			m.most = max(m.most, now)
		case <-m.end:
			return
		}
	}
}

// stop returns what the process took at first and at most, and false where it
// can't be told. A second call returns the same.
func (m *memory) stop() (before, most int, ok bool) {
	m.once.Do(func() { close(m.end) })
	<-m.over
	return m.before, m.most, m.known
}

// steadyWithin is by how many bytes memory may change that is steady.
const steadyWithin = 1 << 20

// steady waits until the memory of a process has stayed within a megabyte for
// so long, and returns what it is then: the least that the process took in that
// time. It returns false where it can't be told.
func steady(ctx context.Context, pid string, long time.Duration) (int, bool, error) {
	beat := time.NewTicker(min(long/10, 100*time.Millisecond))
	defer beat.Stop()
	began := time.Now()
	least, most, since := math.MaxInt, 0, began
	for {
		n, ok := residentBytes(pid)
		if !ok {
			return 0, false, nil
		}
		now := time.Now()
		if least, most = min(least, n), max(most, n); most-least > steadyWithin {
			least, most, since = n, n, now
		}
		if now.Sub(since) >= long {
			return least, true, nil
		}
		if now.Sub(began) > long+patience {
			return 0, false, fmt.Errorf("the memory of an idle process is not steady after %s", patience)
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			return 0, false, context.Cause(ctx)
		}
	}
}
