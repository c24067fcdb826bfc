package ax

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axtasks/ax/internal/text"
)

// The longest names that keep every topic name within Kafka's 249 bytes.
const (
	maxDomainBytes = 60
	maxPrefixBytes = 60
	maxTiers       = 32
	maxCommon      = 64
	maxLanes       = 64
	maxPartitions  = 10_000
	maxGroups      = 64
	maxGroupBytes  = 249
	maxAge         = 10 * 365 * 24 * time.Hour
)

// Validate returns nil, or all faults of the domain joined, each a
// [*FieldError] with its path and value. Zero fields are taken as their
// defaults. It talks to nobody: what only a cluster can tell, such as too few
// brokers, is for router.Plan.
func (d Domain) Validate() error {
	d = d.WithDefaults()
	var v validator
	v.name("domain", d.Name, maxDomainBytes)
	if d.Prefix != "" && (len(d.Prefix) > maxPrefixBytes || strings.Trim(d.Prefix, nameChars) != "") {
		v.fault("prefix", quote(d.Prefix), fmt.Sprintf("want at most %d lower case letters, digits, - and .", maxPrefixBytes))
	}
	v.kafka(d.Kafka)
	if d.Durability != Safe && d.Durability != Fast {
		v.fault("durability", quote(string(d.Durability)), `want "safe" or "fast"`)
	}
	v.within("replication", d.Replication, 1, 100)
	if d.Durability == Safe && d.Replication < 2 {
		v.fault("replication", fmt.Sprint(d.Replication), `durability "safe" wants at least 2; say durability: fast if tasks may be lost with a broker`)
	}
	v.lanes(d)
	v.kinds(d)
	v.delay(d.Delay)
	v.within("max_payload", d.MaxPayload, 1, 512<<20)
	v.retention(d)
	v.trim(d)
	return errors.Join(v.faults...)
}

type validator struct{ faults []error }

func (v *validator) fault(path, value, reason string) {
	v.faults = append(v.faults, &FieldError{Path: path, Value: value, Reason: reason})
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

const nameChars = "abcdefghijklmnopqrstuvwxyz0123456789-."

func (v *validator) name(path, s string, n int) {
	switch {
	case s == "":
		v.fault(path, "", "is required")
	case len(s) > n:
		v.fault(path, quote(s), fmt.Sprintf("is longer than %d bytes", n))
	case strings.Trim(s, nameChars) != "" || strings.Trim(s, "-.") != s:
		v.fault(path, quote(s), "want lower case letters, digits, - and ., beginning and ending with a letter or digit")
	}
}

func (v *validator) within(path string, n, lo, hi int) {
	if n < lo || n > hi {
		v.fault(path, fmt.Sprint(n), fmt.Sprintf("want %d to %d", lo, hi))
	}
}

func (v *validator) between(path string, d, lo, hi time.Duration) {
	if d < lo || d > hi {
		v.fault(path, d.String(), fmt.Sprintf("want %s to %s", lo, hi))
	}
}

// one faults what is none of the policies that make sense there.
func (v *validator) one(path string, t Then, want ...Then) {
	if slices.Contains(want, t) {
		return
	}
	names := make([]string, len(want))
	for i, w := range want {
		names[i] = string(w)
	}
	v.fault(path, quote(string(t)), "want "+strings.Join(names, " or "))
}

func (v *validator) kafka(k Kafka) {
	for i, b := range k.Brokers {
		if !isBroker(b) {
			v.fault(fmt.Sprintf("kafka.brokers[%d]", i), quote(b), "want host:port")
		}
	}
	if (k.TLS.CertFile == "") != (k.TLS.KeyFile == "") {
		v.fault("kafka.tls.cert_file", quote(k.TLS.CertFile), "cert_file and key_file go together")
	}
	switch k.GroupProtocol {
	case "", Classic, Consumer:
	default:
		v.fault("kafka.group_protocol", quote(k.GroupProtocol), "want classic or consumer")
	}
	s := k.SASL
	switch s.Mechanism {
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		if s.User == "" {
			v.fault("kafka.sasl.user", "", "is required with a mechanism")
		}
		if (s.Password == "") == (s.PasswordFile == "") {
			v.fault("kafka.sasl.password", "", "want either password or password_file")
		}
	case "":
		if s != (SASL{}) {
			v.fault("kafka.sasl.mechanism", "", "is required: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
		}
	default:
		v.fault("kafka.sasl.mechanism", quote(s.Mechanism), "want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	}
}

// isBroker reports whether s is host:port, or a host alone, which stands for
// port 9092.
func isBroker(s string) bool {
	if host, port, err := net.SplitHostPort(s); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return false
		}
		s = host
	}
	return text.Fault(s, 255) == "" && !strings.ContainsAny(s, ",/")
}

func (v *validator) lanes(d Domain) {
	v.within("lanes (their number)", len(d.Lanes), 1, maxLanes)
	seen := map[string]bool{}
	for i, l := range d.Lanes {
		path := fmt.Sprintf("lanes[%d]", i)
		v.name(path+".name", l.Name, MaxLaneBytes)
		if seen[l.Name] {
			v.fault(path+".name", quote(l.Name), "is used twice")
		}
		seen[l.Name] = true
		v.within(path+".weight", l.Weight, 1, 1000)
		v.between(path+".max_wait", l.MaxWait, time.Millisecond, maxMaxWait)
		v.between(path+".max_gap", l.MaxGap, time.Millisecond, 10*maxMaxWait)
		v.within(path+".reserve", l.Reserve, 0, 100_000)
		v.within(path+".partitions", l.Partitions, 1, maxPartitions)
		if l.Order != "" && l.Order != OrderKey {
			v.fault(path+".order", quote(string(l.Order)), `want "key" or nothing`)
		}
		if l.Limit != 0 && l.Limit < l.Partitions {
			v.fault(path+".limit", fmt.Sprint(l.Limit), fmt.Sprintf("want 0 or at least one for each of the %d partitions", l.Partitions))
		}
	}
	if a := d.Sharing.Aging; !(a <= 0.5) { // also not a number
		v.fault("sharing.aging", fmt.Sprint(a), "want at most 0.5; negative for none")
	}
	if !seen[d.DefaultLane] {
		v.fault("default_lane", quote(d.DefaultLane), "is no lane of the domain")
	}
}

func (v *validator) kinds(d Domain) {
	for _, name := range slices.Sorted(maps.Keys(d.Kinds)) {
		k := d.Kinds[name]
		path := "kinds." + name
		if f := faultKind(name); f != "" {
			short := quote(text.Clip(name, 80))
			path = "kinds." + short // may hold a line break
			v.fault(path, short, f)
		}
		if _, ok := d.Lane(k.Lane); !ok {
			v.fault(path+".lane", quote(k.Lane), "is no lane of the domain")
		}
		v.between(path+".timeout", k.Timeout, time.Millisecond, MaxTimeout)
		v.within(path+".attempts", k.Attempts, 1, maxCount)
		v.within(path+".concurrency", k.Concurrency, 0, 100_000)
		v.between(path+".expires", k.Expires, 0, maxAge)
		v.between(path+".backoff.base", k.Backoff.Base, time.Millisecond, d.Delay.Horizon)
		v.between(path+".backoff.max", k.Backoff.Max, k.Backoff.Base, max(d.Delay.Horizon, k.Backoff.Base))
		if f := k.Backoff.Factor; !(f >= 1 && f <= 100) { // also not a number
			v.fault(path+".backoff.factor", fmt.Sprint(f), "want 1 to 100")
		}
		v.one(path+".on_timeout", k.OnTimeout, Retry, Dead)
		v.one(path+".on_interrupt", k.OnInterrupt, Requeue, Dead, Drop)
		v.one(path+".on_deaf", k.OnDeaf, Dead, Retry)
		if b := k.RetryBudget; !(b.PerSecond < 0 || b.PerSecond >= 0.01 && b.PerSecond <= 1e6) { // also not a number
			v.fault(path+".retry_budget.per_second", fmt.Sprint(b.PerSecond), "want 0.01 to 1000000; negative for no bound")
		}
		if r := k.RetryBudget.Ratio; !(r <= 100) {
			v.fault(path+".retry_budget.ratio", fmt.Sprint(r), "want at most 100; negative for none")
		}
		for i, w := range k.Backoff.Delays {
			v.between(fmt.Sprintf("%s.backoff.delays[%d]", path, i), w, 0, d.Delay.Horizon)
		}
	}
}

func (v *validator) delay(d Delay) {
	v.between("delay.window", d.Window, 20*time.Millisecond, time.Minute)
	if d.Lead > d.Window/2 {
		v.fault("delay.lead", d.Lead.String(), fmt.Sprintf("want at most half of the window of %s", d.Window))
	}
	v.within("delay.tiers (their number)", len(d.Tiers), 1, maxTiers)
	for i, t := range d.Tiers {
		path := fmt.Sprintf("delay.tiers[%d]", i)
		v.between(path, t, 2*d.Window, maxAge)
		if t%time.Millisecond != 0 {
			v.fault(path, t.String(), "want whole milliseconds")
		}
		if i > 0 && t <= d.Tiers[i-1] {
			v.fault(path, t.String(), fmt.Sprintf("want tiers in rising order, this is not above %s", d.Tiers[i-1]))
		}
	}
	v.within("delay.partitions", d.Partitions, 1, maxPartitions)
	v.within("delay.near_partitions", d.NearPartitions, 1, maxPartitions)
	v.within("delay.rate", d.Rate, 1, 10_000_000)
	v.within("delay.buffer", d.Buffer, 1, 10_000_000)
	v.between("delay.horizon", d.Horizon, time.Second, maxAge)
	v.within("delay.common (their number)", len(d.Common), 0, maxCommon)
	for i, c := range d.Common {
		path := fmt.Sprintf("delay.common[%d]", i)
		v.between(path, c, time.Millisecond, d.Horizon)
		if c%time.Millisecond != 0 {
			v.fault(path, c.String(), "want whole milliseconds")
		}
	}
	if len(d.Tiers) > 0 {
		need := float64(d.Rate) * d.Tiers[0].Seconds()
		if have := d.Buffer * d.NearPartitions; need > float64(have) {
			v.fault("delay.rate", fmt.Sprint(d.Rate), fmt.Sprintf(
				"a near tier of %s at this rate holds %.0f records, more than buffer × near_partitions = %d", d.Tiers[0], need, have))
		}
	}
}

func (v *validator) retention(d Domain) {
	r := d.Retention
	v.between("retention.outage", r.Outage, time.Minute, maxAge)
	if r.Tasks == 0 {
		return
	}
	longest := time.Duration(0)
	if n := len(d.Delay.Tiers); n > 0 {
		longest = slices.MaxFunc(d.Delay.Tiers, cmp.Compare[time.Duration])
	}
	if least := longest + r.Outage; r.Tasks <= least {
		v.fault("retention.tasks", r.Tasks.String(), fmt.Sprintf(
			"would forget waiting tasks: want 0 (never) or more than the longest tier %s plus outage %s = %s", longest, r.Outage, least))
	}
	v.between("retention.tasks", r.Tasks, time.Second, 2*maxAge)
}

func (v *validator) trim(d Domain) {
	v.between("trim.every", d.Trim.Every, time.Second, 24*time.Hour)
	v.within("trim.groups (their number)", len(d.Trim.Groups), 0, maxGroups)
	own := map[string]bool{}
	for _, role := range []string{"mover.far", "mover.near"} {
		own[d.Prefix+d.Name+"."+role] = true
	}
	for _, l := range d.Lanes {
		own[d.Prefix+d.Name+".worker."+l.Name] = true
	}
	seen := map[string]bool{}
	for i, g := range d.Trim.Groups {
		path := fmt.Sprintf("trim.groups[%d]", i)
		switch {
		case g == "":
			v.fault(path, "", "is required")
		case len(g) > maxGroupBytes:
			v.fault(path, quote(text.Clip(g, 80)), fmt.Sprintf("is longer than %d bytes", maxGroupBytes))
		case seen[g]:
			v.fault(path, quote(g), "is used twice")
		case own[g]:
			v.fault(path, quote(g), "is one of the domain's own, which count without being listed")
		}
		seen[g] = true
	}
}
