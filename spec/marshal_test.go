package spec_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/spec"
)

func TestMarshalPrintsShortDurationsAndNoSecret(t *testing.T) {
	t.Parallel()
	out, err := spec.Marshal(ax.Domain{
		Name:  "orders",
		Kafka: ax.Kafka{SASL: ax.SASL{Mechanism: "PLAIN", User: "u", Password: "hunter2"}},
		Trim:  ax.Trim{Every: 90 * time.Minute, Groups: []string{"audit"}},
		Kinds: map[string]ax.Kind{"k": {Timeout: 90 * time.Second}},
	})
	require.NoError(t, err)
	require.NotContains(t, string(out), "hunter2")
	require.Contains(t, string(out), "tiers: [5s, 30s, 1m, 5m, 15m, 1h, 6h, 24h]\n")
	require.Contains(t, string(out), "trim:\n  every: 1h30m\n  groups: [audit]\n")
	require.Contains(t, string(out), "timeout: 1m30s\n")
	require.Contains(t, string(out), "horizon: 9600h\n")

	d, err := spec.Parse("out.yaml", out)
	require.NoError(t, err)
	require.Equal(t, "*****", string(d.Kafka.SASL.Password))
}

func TestMarshalGivesBackWhatYAMLMisreads(t *testing.T) {
	t.Parallel()
	kinds := map[string]ax.Kind{}
	for _, name := range []string{"<<", "null", "~", "*a", "&a", "!t", "a:", "#a", "-", "1", "0x1", "true", "{}", "'", "\"", "ä", "a.b", "=", "%", "@", "`", "a#b", "2001-01-01", "日本"} {
		kinds[name] = ax.Kind{}
	}
	d := ax.Domain{
		Name: "1", Prefix: "0.",
		Kafka: ax.Kafka{
			Brokers: []string{"[::1]:9092"},
			TLS:     ax.TLS{CAFile: "a b: c # d\n\te \u2028 \x00 \U0001F600", ServerName: " "},
			SASL:    ax.SASL{Mechanism: "PLAIN", User: strings.Repeat("long text ", 50), PasswordFile: "|"},
		},
		Kinds: kinds,
		Delay: ax.Delay{Lead: -1},
	}.WithDefaults()
	out, err := spec.Marshal(d)
	require.NoError(t, err)
	back, err := spec.Parse("out.yaml", out)
	require.NoError(t, err, string(out))
	require.Equal(t, d, back)
}

func TestTheCommonDelaysComeBackInTheirOrder(t *testing.T) {
	t.Parallel()
	file := []byte("domain: orders\ndelay: {common: [24h, 10m, 168h, 1500ms]}\n")
	d, err := spec.Parse("orders.yaml", file)
	require.NoError(t, err)
	require.Equal(t, []time.Duration{24 * time.Hour, 10 * time.Minute, 168 * time.Hour, 1500 * time.Millisecond}, d.Delay.Common)
	out, err := spec.Marshal(d)
	require.NoError(t, err)
	require.Contains(t, string(out), "  horizon: 9600h\n  common: [24h, 10m, 168h, 1.5s]\n", "at the end of the section")
	back, err := spec.Parse("out.yaml", out)
	require.NoError(t, err)
	require.Equal(t, d, back)
}

func TestMarshalRefusesTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	_, err := spec.Marshal(ax.Domain{Name: "o", Kafka: ax.Kafka{SASL: ax.SASL{User: "\xff"}}})
	require.EqualError(t, err, `kafka.sasl.user: "\xff": is not UTF-8`)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"domain: orders\n",
		"domain: o\nlanes:\n- {name: a, weight: 1, order: key}\n",
		"domain: o\nkinds:\n  a: &a {timeout: 5s}\n  b: {<<: *a}\n",
		"domain: o\nkafka: {sasl: {mechanism: PLAIN, user: u, password: p}}\n",
		"domain: o\n---\ndomain: p\n", "a: [b", "? a\n: b", "a: *b", "!!map {}",
		"domain: o\nkinds: {\"<<\": {}, \"null\": {backoff: {delays: [0s, 1h]}}}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := spec.Parse("fuzz.yaml", data)
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				require.True(t, strings.HasPrefix(line, "fuzz.yaml"), line)
			}
			return
		}
		require.NoError(t, d.Validate())
		out, err := spec.Marshal(d)
		require.NoError(t, err)
		back, err := spec.Parse("again.yaml", out)
		require.NoError(t, err, string(out))
		if d.Kafka.SASL.Password != "" {
			d.Kafka.SASL.Password = "*****"
		}
		require.Equal(t, d, back, string(out))
	})
}

func Example() {
	_, err := spec.Parse("orders.yaml", []byte(`
domain: orders
lanes:
  - name: urgent
    weight: 8
  - name: export
    weight: heavy
kinds:
  order.close:
    time_out: 30s
`))
	fmt.Println(err)

	domain, err := spec.Parse("orders.yaml", []byte("domain: orders\ndurability: fast\n"))
	fmt.Println(domain.Name, domain.Replication, err)
	// Output:
	// orders.yaml:7: lanes[1].weight: "heavy": want a whole number
	// orders.yaml:10: kinds.order.close.time_out: unknown key, did you mean timeout?
	// orders 1 <nil>
}

func ExampleMarshal() {
	out, err := spec.Marshal(ax.Domain{
		Name:  "orders",
		Lanes: []ax.Lane{{Name: "urgent", Weight: 8}, {Name: "rest", Weight: 1}},
		Kafka: ax.Kafka{SASL: ax.SASL{Mechanism: "PLAIN", User: "orders", Password: "hunter2"}},
	})
	fmt.Print(string(out), err)
	// Output:
	// domain: orders
	// kafka:
	//   sasl:
	//     mechanism: PLAIN
	//     user: orders
	//     password: "*****"
	//   group_protocol: classic
	// durability: safe
	// replication: 3
	// lanes:
	// - name: urgent
	//   weight: 8
	//   max_wait: 1m
	//   max_gap: 10m
	//   partitions: 6
	// - name: rest
	//   weight: 1
	//   max_wait: 1m
	//   max_gap: 10m
	//   partitions: 6
	// default_lane: urgent
	// sharing:
	//   aging: 0.1
	// delay:
	//   tiers: [5s, 30s, 1m, 5m, 15m, 1h, 6h, 24h]
	//   partitions: 3
	//   window: 1s
	//   lead: 50ms
	//   near_partitions: 6
	//   rate: 5000
	//   buffer: 20000
	//   horizon: 9600h
	// max_payload: 983040
	// retention:
	//   outage: 168h
	// trim:
	//   every: 1m
	// <nil>
}
