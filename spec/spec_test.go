package spec_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/spec"
)

func TestParseMinimalFileGivesTheDefaults(t *testing.T) {
	t.Parallel()
	d, err := spec.Parse("orders.yaml", []byte("domain: orders\n"))
	require.NoError(t, err)
	require.Equal(t, ax.Domain{Name: "orders"}.WithDefaults(), d)
}

func TestParseReadsEveryTypeOfValue(t *testing.T) {
	t.Parallel()
	d, err := spec.Parse("orders.yaml", []byte(`
domain: 123
kafka:
  brokers: [a:9092, "b:9092"]
  tls: {enabled: true}
  sasl: {mechanism: PLAIN, user: 007, password: 1e3}
lanes:
  - {name: yes, weight: 8, max_wait: 1h30m}
  - name: "null"
    weight: 1
kinds:
  order.close: {timeout: 300ms, backoff: {factor: 1.5, delays: [1s, 0s]}}
  order.open:
retention:
`))
	require.NoError(t, err)
	require.Equal(t, "123", d.Name)
	require.Equal(t, []string{"a:9092", "b:9092"}, d.Kafka.Brokers)
	require.True(t, d.Kafka.TLS.Enabled)
	require.Equal(t, "007", d.Kafka.SASL.User)
	require.Equal(t, "1e3", string(d.Kafka.SASL.Password))
	require.Equal(t, "yes", d.Lanes[0].Name)
	require.Equal(t, 90*time.Minute, d.Lanes[0].MaxWait)
	require.Equal(t, "null", d.Lanes[1].Name)
	require.Equal(t, 300*time.Millisecond, d.Kinds["order.close"].Timeout)
	require.InDelta(t, 1.5, d.Kinds["order.close"].Backoff.Factor, 0)
	require.Equal(t, []time.Duration{time.Second, 0}, d.Kinds["order.close"].Backoff.Delays)
	require.Equal(t, ax.DefaultAttempts, d.Kinds["order.open"].Attempts)
}

func TestParseFollowsAnchorsAndMergeKeys(t *testing.T) {
	t.Parallel()
	d, err := spec.Parse("orders.yaml", []byte(`
domain: orders
kinds:
  a: &a
    timeout: 5s
    backoff: &slow {base: 1m, max: 1h}
  b:
    <<: *a
    timeout: 7s
  c:
    <<: [{attempts: 3, timeout: 9s}, *a]
  d: {backoff: *slow}
`))
	require.NoError(t, err)
	require.Equal(t, 7*time.Second, d.Kinds["b"].Timeout, "its own key wins")
	require.Equal(t, time.Minute, d.Kinds["b"].Backoff.Base)
	require.Equal(t, 9*time.Second, d.Kinds["c"].Timeout, "the first one merged wins")
	require.Equal(t, 3, d.Kinds["c"].Attempts)
	require.Equal(t, time.Hour, d.Kinds["d"].Backoff.Max)
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orders.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const layered = `domain: orders
kafka:
  brokers: [file:9092]
  sasl: {mechanism: PLAIN, user: file, password: file}
replication: 3
`

func TestLoadLaysEnvironmentThenOverridesOverTheFile(t *testing.T) {
	t.Setenv("AX_KAFKA", "one:9092, two:9092")
	t.Setenv("AX_TLS_CA_FILE", "ca.pem")
	t.Setenv("AX_SASL_USER", "env")
	t.Setenv("AX_SASL_PASSWORD", "env")
	t.Setenv("AX_SASL_MECHANISM", "") // empty is not set
	t.Setenv("AX_NO_SUCH_THING", "is nobody's business")

	d, err := spec.Load(write(t, layered), func(d *ax.Domain) {
		require.Equal(t, "env", d.Kafka.SASL.User)
		require.Zero(t, d.Durability, "overrides come before the defaults")
		d.Kafka.SASL.User = "flag"
		d.Replication = 5
	}, func(d *ax.Domain) {
		require.Equal(t, 5, d.Replication)
	})
	require.NoError(t, err)
	require.Equal(t, []string{"one:9092", "two:9092"}, d.Kafka.Brokers)
	require.Equal(t, ax.TLS{CAFile: "ca.pem"}, d.Kafka.TLS)
	require.Equal(t, ax.SASL{Mechanism: "PLAIN", User: "flag", Password: "env"}, d.Kafka.SASL)
	require.Equal(t, 5, d.Replication)
	require.Equal(t, ax.Safe, d.Durability)
}

func TestParseDoesNotReadTheEnvironment(t *testing.T) {
	t.Setenv("AX_KAFKA", "env:9092")
	d, err := spec.Parse("orders.yaml", []byte("domain: orders"))
	require.NoError(t, err)
	require.Empty(t, d.Kafka.Brokers)
}

func TestLoadNamesTheVariableInsteadOfALine(t *testing.T) {
	const secret = "hunter2"
	t.Setenv("AX_KAFKA", "good:9092,ba d")
	t.Setenv("AX_TLS_ENABLED", "maybe")
	t.Setenv("AX_SASL_MECHANISM", "ROT13")
	t.Setenv("AX_SASL_PASSWORD", secret)
	_, err := spec.Load(write(t, "domain: orders\nkafka:\n  brokers: [file:9092]\n  sasl: {user: a}\nreplication: 1\n"))
	require.Error(t, err)
	require.Equal(t, strings.Join([]string{
		`orders.yaml:5: replication: 1: durability "safe" wants at least 2; say durability: fast if tasks may be lost with a broker`,
		`environment AX_TLS_ENABLED: kafka.tls.enabled: "maybe": want true or false`,
		`environment AX_KAFKA: kafka.brokers[1]: "ba d": want host:port`,
		`environment AX_SASL_MECHANISM: kafka.sasl.mechanism: "ROT13": want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512`,
	}, "\n"), local(err))
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), secret)
}

// A user is missing because the environment asks for SASL; the line of the
// file's sasl section would mislead.
func TestLoadClaimsNoLineForWhatTheEnvironmentCaused(t *testing.T) {
	t.Setenv("AX_SASL_MECHANISM", "PLAIN")
	_, err := spec.Load(write(t, "domain: orders\nkafka:\n  sasl: {password: x}\n"))
	require.EqualError(t, err, `environment AX_SASL_MECHANISM: kafka.sasl.user: is required with a mechanism`)
	require.Equal(t, &spec.Error{Env: "AX_SASL_MECHANISM", Path: "kafka.sasl.user", Reason: "is required with a mechanism"}, errorAs(err))
}

func TestLoadClaimsNoLineForWhatAnOverrideChanged(t *testing.T) {
	t.Parallel()
	const file = "domain: orders\nlanes:\n  - {name: a, weight: 1}\n  - {name: b, weight: 5000}\nreplication: 1\n"
	for name, c := range map[string]struct {
		override func(*ax.Domain)
		want     []string
	}{
		"nothing": {func(*ax.Domain) {}, []string{
			`orders.yaml:4: lanes[1].weight: 5000: want 1 to 1000`,
			`orders.yaml:5: replication: 1: durability "safe" wants at least 2; say durability: fast if tasks may be lost with a broker`,
		}},
		"a leaf": {func(d *ax.Domain) { d.Replication = 101 }, []string{
			`orders.yaml:4: lanes[1].weight: 5000: want 1 to 1000`,
			`replication: 101: want 1 to 100`,
		}},
		"another element": {func(d *ax.Domain) { d.Lanes[0].Weight, d.Replication = -1, 2 }, []string{
			`orders.yaml:4: lanes[1].weight: 5000: want 1 to 1000`,
			`lanes[0].weight: -1: want 1 to 1000`,
		}},
		"a list's length": {func(d *ax.Domain) {
			d.Lanes = append([]ax.Lane{{Name: "new", Weight: 5000}}, d.Lanes...)
			d.Replication = 2
		}, []string{
			`lanes[0].weight: 5000: want 1 to 1000`,
			`lanes[2].weight: 5000: want 1 to 1000`,
		}},
		"a setting the file lacks": {func(d *ax.Domain) {
			d.Lanes[1].Weight, d.Replication = 1, 2
			d.Kinds = map[string]ax.Kind{"k": {Lane: "zz"}}
		}, []string{
			`kinds.k.lane: "zz": is no lane of the domain`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := spec.Load(write(t, file), c.override)
			require.Error(t, err)
			require.Equal(t, strings.Join(c.want, "\n"), local(err))
		})
	}
}

// The fault has a parent in the file, which is right as it stands.
func TestLoadClaimsNoLineForWhatAnOverrideCausedNextToIt(t *testing.T) {
	t.Parallel()
	_, err := spec.Load(write(t, "domain: orders\nkafka:\n  sasl: {password: x}\n"), func(d *ax.Domain) { d.Kafka.SASL.Mechanism = "PLAIN" })
	require.EqualError(t, err, "kafka.sasl.user: is required with a mechanism")
}

// After an insertion the file's first lane is the domain's second, and the
// line of the one would be told for the other.
func TestLoadClaimsNoLineForTheElementsOfAListThatGrew(t *testing.T) {
	t.Parallel()
	_, err := spec.Load(write(t, "domain: orders\nlanes:\n- {name: a, weight: 5000}\n"), func(d *ax.Domain) {
		d.Lanes = append([]ax.Lane{{Name: "new", Weight: 5000}}, d.Lanes...)
	})
	require.EqualError(t, err, "lanes[0].weight: 5000: want 1 to 1000\nlanes[1].weight: 5000: want 1 to 1000")
}

func TestLoadOfAMissingFileSaysSo(t *testing.T) {
	t.Parallel()
	_, err := spec.Load(filepath.Join(t.TempDir(), "nowhere.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "nowhere.yaml")
}

func TestLoadBoundsTheFile(t *testing.T) {
	t.Parallel()
	_, err := spec.Load(write(t, "domain: orders\n#"+strings.Repeat("x", 1<<20)))
	require.ErrorContains(t, err, "is larger than 1 MiB")
}

// local is the text of err with the temporary folder cut off.
func local(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		if at := strings.Index(l, "orders.yaml"); at >= 0 {
			lines[i] = l[at:]
		}
	}
	return strings.Join(lines, "\n")
}

func TestLoadFSReadsAnotherFileSystemAndLaysTheEnvironmentOverIt(t *testing.T) {
	t.Setenv("AX_KAFKA", "a:1,b:2")
	t.Setenv("AX_SASL_MECHANISM", "")
	fsys := fstest.MapFS{"d/orders.yaml": {Data: []byte("domain: orders\nkafka: {brokers: [c:3]}\n")}}
	d, err := spec.LoadFS(fsys, "d/orders.yaml")
	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "b:2"}, d.Kafka.Brokers)
	_, err = spec.LoadFS(fsys, "gone.yaml")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
