package bench

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// versions returns what the run was made of. kafka is the broker's version.
func versions(ax, kafka string) Fields {
	return Fields{
		{Key: "ax", Value: ax}, {Key: "go", Value: runtime.Version()},
		{Key: "kgo", Value: moduleVersion("github.com/twmb/franz-go")}, {Key: "kafka", Value: kafka},
	}
}

func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}

// machine returns where the run was made. before is the load average at its
// start.
func machine(brokers int, before string) Fields {
	fs := Fields{
		{Key: "cores", Value: runtime.NumCPU()}, {Key: "gomaxprocs", Value: runtime.GOMAXPROCS(0)},
		{Key: "os", Value: runtime.GOOS + "/" + runtime.GOARCH},
	}
	if cpu := cpuName(); cpu != "" {
		fs.add("cpu", cpu)
	}
	fs.add("brokers", brokers)
	if after := loadAverage(); after != "" {
		fs.add("load_before", before)
		fs.add("load_after", after)
	}
	return fs
}

// cpuName is empty where it can't be told.
func cpuName() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// loadAverage is of the last minute, and empty where it can't be told.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// residentBytes returns the memory that this process takes now, and false
// where it can't be told.
func residentBytes() (int, bool) {
	text, err := os.ReadFile("/proc/self/statm")
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

// memory watches what the process takes.
type memory struct {
	before, most int
	known        bool
	once         sync.Once
	end, over    chan struct{}
}

// watchMemory begins with as little as can be, and watches until
// [memory.stop].
func watchMemory() *memory {
	debug.FreeOSMemory()
	m := &memory{end: make(chan struct{}), over: make(chan struct{})}
	m.before, m.known = residentBytes()
	m.most = m.before
	go m.watch()
	return m
}

func (m *memory) watch() {
	defer close(m.over)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			now, _ := residentBytes()
			m.most = max(m.most, now)
		case <-m.end:
			return
		}
	}
}

// stop returns by how many bytes the process has grown at most, and false
// where it can't be told. A second call returns the same.
func (m *memory) stop() (grown int, ok bool) {
	m.once.Do(func() { close(m.end) })
	<-m.over
	return m.most - m.before, m.known
}
