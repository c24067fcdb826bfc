package spec

import (
	"strconv"
	"strings"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/text"
)

// under returns the path of a key in the section at path. A key that could
// break a line is quoted, as Domain.Validate does.
func under(path, key string) string {
	if text.Fault(key, ax.MaxKindBytes) != "" {
		key = strconv.Quote(text.Clip(key, maxValue))
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// parent returns the path without its last element, "" for a top-level one.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// within reports whether path is root or below it.
func within(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (root == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// echoes reports whether a fault that Domain.Validate finds at path may only
// follow from a value that could not be read, and which has an error of its
// own already.
func (d *decoder) echoes(path string) bool {
	if len(d.faults) > maxFaults {
		return true
	}
	for _, cause := range append(causes(path), path) {
		for _, t := range d.tainted {
			if within(t, cause) || within(cause, t) {
				return true
			}
		}
	}
	return false
}

// causes returns the settings that a fault at path may follow from, beside
// path itself.
func causes(path string) []string {
	switch {
	case path == "default_lane":
		return []string{"lanes"}
	case path == "replication":
		return []string{"durability"}
	case within(path, "kafka.sasl"):
		return []string{"kafka.sasl"}
	case within(path, "kafka.tls"):
		return []string{"kafka.tls"}
	case within(path, "delay"):
		return []string{"delay"}
	case within(path, "retention"):
		return []string{"retention", "delay.tiers"}
	case within(path, "kinds") && strings.HasSuffix(path, ".lane"):
		return []string{"lanes", "default_lane"}
	case within(path, "kinds"):
		if i := strings.LastIndex(path, ".backoff."); i >= 0 {
			return []string{path[:i] + ".backoff", "delay.horizon"}
		}
	}
	return nil
}

// nearest returns the known key that key is most likely a slip of, or "".
func nearest(key string, known []string) string {
	plain := strings.NewReplacer("_", "", "-", "").Replace
	if len(key) > 64 {
		return ""
	}
	best, least := "", 3
	for _, k := range known {
		a, b := plain(strings.ToLower(key)), plain(k)
		if n := distance(a, b); n < least && n < min(len(a), len(b)) {
			best, least = k, n
		}
	}
	return best
}

// distance is the number of single-byte edits between a and b, a swap of two
// neighbours counting as one (optimal string alignment).
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, last, now := rows[(i-1)%3], rows[i%3], rows[(i+1)%3]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], older[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
