package bench

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
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
