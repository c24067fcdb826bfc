package ax_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
)

func TestDomainWithJustANameIsValid(t *testing.T) {
	t.Parallel()
	require.NoError(t, ax.Domain{Name: "orders"}.Validate())
	require.NoError(t, ax.Domain{Name: "orders"}.WithDefaults().Validate())
	require.NoError(t, ax.Domain{Name: "orders", Durability: ax.Fast}.Validate())
}

// groups returns what lets a domain wait for the groups.
func groups(names ...string) func(*ax.Domain) {
	return func(d *ax.Domain) { d.Trim.Groups = names }
}

func manyGroups(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("group-%d", i)
	}
	return all
}

func TestWithDefaultsIsIdempotent(t *testing.T) {
	t.Parallel()
	for _, d := range []ax.Domain{
		{Name: "orders"},
		{Name: "orders", Durability: ax.Fast, Delay: ax.Delay{Lead: -1}},
		{Name: "o", Lanes: []ax.Lane{{Name: "a", Weight: 1, Limit: 3}, {Name: "b", Weight: 1, Limit: 12}}, Kinds: map[string]ax.Kind{"k": {}, "l": {Lane: "b"}}},
	} {
		once := d.WithDefaults()
		require.Equal(t, once, once.WithDefaults())
	}
}

func TestWithDefaultsSharesNoListOfGroups(t *testing.T) {
	t.Parallel()
	d := ax.Domain{Name: "o", Trim: ax.Trim{Groups: []string{"audit"}}}
	d.WithDefaults().Trim.Groups[0] = "changed"
	require.Equal(t, "audit", d.Trim.Groups[0])
}

func TestWithDefaultsFillsWhatIsZero(t *testing.T) {
	t.Parallel()
	d := ax.Domain{Name: "o", Lanes: []ax.Lane{{Name: "a", Weight: 1, Limit: 3}, {Name: "b", Weight: 1}}, Kinds: map[string]ax.Kind{"k": {}}}.WithDefaults()
	require.Equal(t, ax.Safe, d.Durability)
	require.Equal(t, 3, d.Replication)
	require.Equal(t, 3, d.Lanes[0].Partitions, "no more than the limit")
	require.Equal(t, 6, d.Lanes[1].Partitions)
	require.Equal(t, "a", d.DefaultLane, "the first, without one called normal")
	require.Equal(t, ax.Kind{Lane: "a", Timeout: time.Minute, Attempts: 10, Backoff: ax.Backoff{Base: time.Second, Factor: 2, Max: 10 * time.Minute},
		OnTimeout: ax.Retry, OnInterrupt: ax.Requeue, OnDeaf: ax.Dead, RetryBudget: ax.RetryBudget{PerSecond: 100, Ratio: 0.5}}, d.Kind("k"))
	require.Equal(t, d.Kind("k"), d.Kind("a kind that nobody listed"))
	require.Equal(t, 1, ax.Domain{Durability: ax.Fast}.WithDefaults().Replication)
	require.Equal(t, "normal", ax.Domain{}.WithDefaults().DefaultLane)
	_, ok := d.Lane("c")
	require.False(t, ok)
}

func TestWithDefaultsDoesNotChangeItsReceiver(t *testing.T) {
	t.Parallel()
	d := ax.Domain{Lanes: []ax.Lane{{Name: "a"}}, Kinds: map[string]ax.Kind{"k": {Backoff: ax.Backoff{Delays: []time.Duration{1}}}}, Delay: ax.Delay{Tiers: []time.Duration{1}, Common: []time.Duration{1}}}
	full := d.WithDefaults()
	full.Lanes[0].Name, full.Delay.Tiers[0], full.Delay.Common[0] = "b", 2, 2
	full.Kinds["l"] = ax.Kind{}
	full.Kinds["k"].Backoff.Delays[0] = 2
	require.Equal(t, ax.Domain{Lanes: []ax.Lane{{Name: "a"}}, Kinds: map[string]ax.Kind{"k": {Backoff: ax.Backoff{Delays: []time.Duration{1}}}}, Delay: ax.Delay{Tiers: []time.Duration{1}, Common: []time.Duration{1}}}, d)
}

func TestValidateNamesPathAndValueOfEveryFault(t *testing.T) {
	t.Parallel()
	lane := func(l ax.Lane) func(*ax.Domain) {
		return func(d *ax.Domain) { d.Lanes = []ax.Lane{{Name: "normal", Weight: 1}, l} }
	}
	kind := func(k ax.Kind) func(*ax.Domain) {
		return func(d *ax.Domain) { d.Kinds = map[string]ax.Kind{"k": k} }
	}
	sasl := func(s ax.SASL) func(*ax.Domain) { return func(d *ax.Domain) { d.Kafka.SASL = s } }
	delay := func(x ax.Delay) func(*ax.Domain) { return func(d *ax.Domain) { d.Delay = x } }
	for _, c := range []struct {
		set  func(*ax.Domain)
		want string // path, value, part of the reason; more faults after a line break
	}{
		{func(d *ax.Domain) { d.Name = "" }, `domain||is required`},
		{func(d *ax.Domain) { d.Name = "Orders" }, `domain|"Orders"|want lower case`},
		{func(d *ax.Domain) { d.Name = "a_b" }, `domain|"a_b"|want lower case`},
		{func(d *ax.Domain) { d.Name = "-a" }, `domain|"-a"|beginning and ending`},
		{func(d *ax.Domain) { d.Name = "a." }, `domain|"a."|beginning and ending`},
		{func(d *ax.Domain) { d.Name = strings.Repeat("a", 61) }, `domain|"` + strings.Repeat("a", 61) + `"|longer than 60 bytes`},
		{func(d *ax.Domain) { d.Prefix = "A." }, `prefix|"A."|at most 60`},
		{func(d *ax.Domain) { d.Prefix = "a b" }, `prefix|"a b"|at most 60`},
		{func(d *ax.Domain) { d.Prefix = strings.Repeat("a", 61) }, `prefix|"` + strings.Repeat("a", 61) + `"|at most 60`},
		{func(d *ax.Domain) { d.Kafka.Brokers = []string{"a:1", "", "b c"} }, "kafka.brokers[1]|\"\"|host:port\nkafka.brokers[2]|\"b c\"|host:port"},
		{func(d *ax.Domain) { d.Kafka.Brokers = []string{"http://a:1"} }, `kafka.brokers[0]|"http://a:1"|host:port`},
		{func(d *ax.Domain) { d.Kafka.Brokers = []string{"a:x", "a:0", "a:65536"} }, "kafka.brokers[0]|\"a:x\"|host:port\nkafka.brokers[1]|\"a:0\"|host:port\nkafka.brokers[2]|\"a:65536\"|host:port"},
		{func(d *ax.Domain) { d.Kafka.Brokers = []string{"a", "a:1", "10.0.0.1:9092", "[::1]:9092"} }, ``},
		{func(d *ax.Domain) { d.Kafka.TLS.CertFile = "c" }, `kafka.tls.cert_file|"c"|go together`},
		{func(d *ax.Domain) { d.Kafka.TLS.KeyFile = "k" }, `kafka.tls.cert_file|""|go together`},
		{sasl(ax.SASL{User: "u"}), `kafka.sasl.mechanism||is required`},
		{sasl(ax.SASL{Mechanism: "plain", User: "u"}), `kafka.sasl.mechanism|"plain"|want PLAIN`},
		{sasl(ax.SASL{Mechanism: "PLAIN"}), "kafka.sasl.user||is required\nkafka.sasl.password||either"},
		{sasl(ax.SASL{Mechanism: "PLAIN", User: "u", Password: "hunter2", PasswordFile: "f"}), `kafka.sasl.password||either`},
		{sasl(ax.SASL{Mechanism: "SCRAM-SHA-256", User: "u", PasswordFile: "f"}), ``},
		{func(d *ax.Domain) { d.Durability = "unsafe" }, `durability|"unsafe"|want "safe" or "fast"`},
		{func(d *ax.Domain) { d.Replication = 1 }, `replication|1|durability: fast`},
		{func(d *ax.Domain) { d.Replication = -1 }, "replication|-1|want 1 to 100\nreplication|-1|durability: fast"},
		{func(d *ax.Domain) { d.Replication = 101 }, `replication|101|want 1 to 100`},
		{func(d *ax.Domain) {
			d.Lanes = nil
			for i := range 65 {
				d.Lanes = append(d.Lanes, ax.Lane{Name: fmt.Sprint("l", i), Weight: 1})
			}
		}, `lanes (their number)|65|want 1 to 64`},
		{lane(ax.Lane{Weight: 1}), `lanes[1].name||is required`},
		{lane(ax.Lane{Name: "A", Weight: 1}), `lanes[1].name|"A"|want lower case`},
		{lane(ax.Lane{Name: "normal", Weight: 1}), `lanes[1].name|"normal"|used twice`},
		{lane(ax.Lane{Name: "a"}), `lanes[1].weight|0|want 1 to 1000`},
		{lane(ax.Lane{Name: "a", Weight: 1001}), `lanes[1].weight|1001|want 1 to 1000`},
		{lane(ax.Lane{Name: "a", Weight: 1, MaxWait: -1}), `lanes[1].max_wait|-1ns|want 1ms to 24h0m0s`},
		{lane(ax.Lane{Name: "a", Weight: 1, MaxWait: 25 * time.Hour}), `lanes[1].max_wait|25h0m0s|want 1ms to`},
		{lane(ax.Lane{Name: "a", Weight: 1, MaxGap: -1}), `lanes[1].max_gap|-1ns|want 1ms to 240h0m0s`},
		{lane(ax.Lane{Name: "a", Weight: 1, MaxGap: 241 * time.Hour}), `lanes[1].max_gap|241h0m0s|want 1ms to`},
		{lane(ax.Lane{Name: "a", Weight: 1, MaxWait: 24 * time.Hour}), ``},
		{func(d *ax.Domain) { d.Kinds = map[string]ax.Kind{"k": {OnTimeout: ax.Requeue}} }, `kinds.k.on_timeout|"requeue"|want retry or dead`},
		{func(d *ax.Domain) { d.Kinds = map[string]ax.Kind{"k": {OnInterrupt: ax.Retry}} }, `kinds.k.on_interrupt|"retry"|want requeue or dead or drop`},
		{func(d *ax.Domain) { d.Kinds = map[string]ax.Kind{"k": {OnDeaf: ax.Drop}} }, `kinds.k.on_deaf|"drop"|want dead or retry`},
		{func(d *ax.Domain) { d.Kinds = map[string]ax.Kind{"k": {OnTimeout: ax.Dead, OnInterrupt: ax.Drop}} }, ``},
		{func(d *ax.Domain) {
			d.Kinds = map[string]ax.Kind{"k": {RetryBudget: ax.RetryBudget{PerSecond: 0.001}}}
		}, `kinds.k.retry_budget.per_second|0.001|want 0.01 to`},
		{func(d *ax.Domain) {
			d.Kinds = map[string]ax.Kind{"k": {RetryBudget: ax.RetryBudget{Ratio: 101}}}
		}, `kinds.k.retry_budget.ratio|101|want at most 100`},
		{func(d *ax.Domain) {
			d.Kinds = map[string]ax.Kind{"k": {RetryBudget: ax.RetryBudget{Ratio: -1, PerSecond: -1}}}
		}, ``},
		{func(d *ax.Domain) { d.Sharing.Aging = 0.6 }, `sharing.aging|0.6|want at most 0.5`},
		{func(d *ax.Domain) { d.Sharing.Aging = math.NaN() }, `sharing.aging|NaN|want at most 0.5`},
		{func(d *ax.Domain) { d.Sharing.Aging = -1 }, ``},
		{lane(ax.Lane{Name: "a", Weight: 1, Reserve: -1}), `lanes[1].reserve|-1|want 0 to`},
		{lane(ax.Lane{Name: "a", Weight: 1, Partitions: -1}), `lanes[1].partitions|-1|want 1 to 10000`},
		{lane(ax.Lane{Name: "a", Weight: 1, Partitions: 10_001}), `lanes[1].partitions|10001|want 1 to 10000`},
		{lane(ax.Lane{Name: "a", Weight: 1, Order: "fifo"}), `lanes[1].order|"fifo"|want "key"`},
		{lane(ax.Lane{Name: "a", Weight: 1, Order: ax.OrderKey}), ``},
		{lane(ax.Lane{Name: "a", Weight: 1, Partitions: 12, Limit: 11}), `lanes[1].limit|11|each of the 12 partitions`},
		{lane(ax.Lane{Name: "a", Weight: 1, Limit: -1}), `lanes[1].limit|-1|each of the 6 partitions`},
		{func(d *ax.Domain) { d.DefaultLane = "none" }, `default_lane|"none"|is no lane`},
		{func(d *ax.Domain) { d.Kinds = map[string]ax.Kind{"a\nb": {}} }, `kinds."a\nb"|"a\nb"|holds a space or a control character`},
		{func(d *ax.Domain) { d.Kinds = map[string]ax.Kind{"": {}} }, `kinds.""|""|is empty`},
		{kind(ax.Kind{Lane: "none"}), `kinds.k.lane|"none"|is no lane`},
		{kind(ax.Kind{Timeout: -1}), `kinds.k.timeout|-1ns|want 1ms to 720h0m0s`},
		{kind(ax.Kind{Timeout: 721 * time.Hour}), `kinds.k.timeout|721h0m0s|want 1ms to 720h0m0s`},
		{kind(ax.Kind{Attempts: -1}), `kinds.k.attempts|-1|want 1 to`},
		{kind(ax.Kind{Attempts: 1<<20 + 1}), `kinds.k.attempts|1048577|want 1 to`},
		{kind(ax.Kind{Concurrency: -1}), `kinds.k.concurrency|-1|want 0 to`},
		{kind(ax.Kind{Expires: -1}), `kinds.k.expires|-1ns|want 0s to`},
		{kind(ax.Kind{Backoff: ax.Backoff{Base: 1}}), `kinds.k.backoff.base|1ns|want 1ms to`},
		{kind(ax.Kind{Backoff: ax.Backoff{Max: time.Millisecond}}), `kinds.k.backoff.max|1ms|want 1s to`},
		{kind(ax.Kind{Backoff: ax.Backoff{Max: 401 * 24 * time.Hour}}), `kinds.k.backoff.max|9624h0m0s|want 1s to 9600h`},
		{kind(ax.Kind{Backoff: ax.Backoff{Factor: 0.5}}), `kinds.k.backoff.factor|0.5|want 1 to 100`},
		{kind(ax.Kind{Backoff: ax.Backoff{Factor: math.NaN()}}), `kinds.k.backoff.factor|NaN|want 1 to 100`},
		{kind(ax.Kind{Backoff: ax.Backoff{Factor: math.Inf(1)}}), `kinds.k.backoff.factor|+Inf|want 1 to 100`},
		{kind(ax.Kind{Backoff: ax.Backoff{Delays: []time.Duration{1, -1}}}), `kinds.k.backoff.delays[1]|-1ns|want 0s to`},
		{delay(ax.Delay{Window: time.Millisecond, Lead: -1}), `delay.window|1ms|want 20ms to 1m0s`},
		{delay(ax.Delay{Lead: time.Second}), `delay.lead|1s|half of the window of 1s`},
		{func(d *ax.Domain) {
			d.Delay.Rate = 1
			for i := range 33 {
				d.Delay.Tiers = append(d.Delay.Tiers, time.Duration(i+5)*time.Second)
			}
		}, `delay.tiers (their number)|33|want 1 to 32`},
		{delay(ax.Delay{Tiers: []time.Duration{time.Second}}), `delay.tiers[0]|1s|want 2s to`},
		{delay(ax.Delay{Tiers: []time.Duration{5*time.Second + 1}}), `delay.tiers[0]|5.000000001s|whole milliseconds`},
		{delay(ax.Delay{Tiers: []time.Duration{5 * time.Second, 5 * time.Second}}), `delay.tiers[1]|5s|rising order`},
		{delay(ax.Delay{Partitions: -1}), `delay.partitions|-1|want 1 to`},
		{delay(ax.Delay{NearPartitions: 10_001}), `delay.near_partitions|10001|want 1 to`},
		{delay(ax.Delay{Rate: -1}), `delay.rate|-1|want 1 to`},
		{delay(ax.Delay{Rate: 24_001}), `delay.rate|24001|near tier of 5s at this rate holds 120005 records`},
		{delay(ax.Delay{Buffer: 10_000_001}), `delay.buffer|10000001|want 1 to`},
		{delay(ax.Delay{Horizon: -1}), `delay.horizon|-1ns|want 1s to`},
		{delay(ax.Delay{Common: []time.Duration{time.Hour, 0}}), `delay.common[1]|0s|want 1ms to 9600h0m0s`},
		{delay(ax.Delay{Common: []time.Duration{-time.Second}}), `delay.common[0]|-1s|want 1ms to 9600h0m0s`},
		{delay(ax.Delay{Common: []time.Duration{time.Hour, time.Hour + time.Millisecond}, Horizon: time.Hour}), `delay.common[1]|1h0m0.001s|want 1ms to 1h0m0s`},
		{delay(ax.Delay{Common: []time.Duration{time.Second + 1}}), `delay.common[0]|1.000000001s|whole milliseconds`},
		{delay(ax.Delay{Common: slices.Repeat([]time.Duration{time.Hour}, 65)}), `delay.common (their number)|65|want 0 to 64`},
		{delay(ax.Delay{Common: slices.Repeat([]time.Duration{time.Hour, time.Millisecond}, 32)}), ``},
		{func(d *ax.Domain) { d.MaxPayload = -1 }, `max_payload|-1|want 1 to`},
		{func(d *ax.Domain) { d.Retention.Outage = 1 }, `retention.outage|1ns|want 1m0s to`},
		{func(d *ax.Domain) { d.Retention.Tasks = 8 * 24 * time.Hour }, `retention.tasks|192h0m0s|more than the longest tier 24h0m0s plus outage 168h0m0s`},
		{func(d *ax.Domain) { d.Retention.Tasks = 192*time.Hour + 1 }, ``},
		{func(d *ax.Domain) { d.Retention.Tasks = 200_000 * time.Hour }, `retention.tasks|200000h0m0s|want 1s to 175200h0m0s`},
		{func(d *ax.Domain) { d.Trim.Every = time.Millisecond }, `trim.every|1ms|want 1s to`},
		{func(d *ax.Domain) { d.Trim.Every = 25 * time.Hour }, `trim.every|25h0m0s|want 1s to 24h0m0s`},
		{func(d *ax.Domain) { d.Trim.Every, d.MaxPayload = -1, -1 }, "max_payload|-1|want\ntrim.every|-1ns|want"},
		{groups("audit", "billing of eu", strings.Repeat("g", 249)), ``},
		{groups("audit", ""), `trim.groups[1]||is required`},
		{groups(strings.Repeat("g", 250)), `trim.groups[0]|"` + strings.Repeat("g", 77) + `…"|is longer than 249 bytes`},
		{groups("audit", "other", "audit"), `trim.groups[2]|"audit"|is used twice`},
		{groups("orders.worker.low"), `trim.groups[0]|"orders.worker.low"|is one of the domain's own`},
		{groups("orders.mover.near"), `trim.groups[0]|"orders.mover.near"|is one of the domain's own`},
		{groups("orders.mover.far"), `trim.groups[0]|"orders.mover.far"|is one of the domain's own`},
		{func(d *ax.Domain) { d.Prefix = "eu."; groups("orders.worker.low")(d) }, ``},
		{func(d *ax.Domain) { d.Prefix = "eu."; groups("eu.orders.worker.low")(d) }, `trim.groups[0]|"eu.orders.worker.low"|is one of the domain's own`},
		{groups(manyGroups(64)...), ``},
		{groups(manyGroups(65)...), `trim.groups (their number)|65|want 0 to 64`},
	} {
		d := ax.Domain{Name: "orders"}
		c.set(&d)
		err := d.Validate()
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.Error(t, err, c.want)
		faults := err.(interface{ Unwrap() []error }).Unwrap()
		lines := strings.Split(c.want, "\n")
		require.Len(t, faults, len(lines), "%s: %v", c.want, err)
		for i, line := range lines {
			want := strings.SplitN(line, "|", 3)
			f, ok := errors.AsType[*ax.FieldError](faults[i])
			require.True(t, ok)
			require.Equal(t, want[0], f.Path)
			require.Equal(t, want[1], f.Value, f.Path)
			require.Contains(t, f.Reason, want[2], f.Path)
			require.Contains(t, f.Error(), f.Path+": ")
		}
		require.NotContains(t, err.Error(), "hunter2")
	}
}
