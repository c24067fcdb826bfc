package spec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/spec"
)

func TestParseTellsLinePathValueAndReason(t *testing.T) {
	t.Parallel()
	const head = "domain: orders\n" // line 1
	for name, c := range map[string]struct{ file, want string }{
		"nothing":               {"", `o.yaml: is empty; it needs at least the key domain`},
		"only a comment":        {"# nothing\n", `o.yaml: is empty; it needs at least the key domain`},
		"only a marker":         {"---\n", `o.yaml: is empty; it needs at least the key domain`},
		"an empty mapping":      {"{}", `o.yaml: domain: is required`},
		"not a mapping":         {"\n- a", `o.yaml:2: a list: want keys and values`},
		"a second document":     {head + "---\ndomain: b\n", `o.yaml:2: a second document begins here; a file describes one domain`},
		"a second broken one":   {head + "---\n\n@\n", `o.yaml:4: is not YAML: found character that cannot start any token while scanning for the next token`},
		"a tab":                 {head + "kafka:\n\tbrokers: []\n", `o.yaml:3: is not YAML: found character that cannot start any token while scanning for the next token`},
		"an open quote":         {head + "prefix: \"abc\n\n\ntrim: 1m\n", `o.yaml:2: is not YAML: found unexpected end of stream while scanning a quoted scalar`},
		"an open list":          {head + "delay:\n  tiers: [5s,\n    1h\ntrim: 1m\n", `o.yaml:3: is not YAML: did not find expected ',' or ']' while parsing a flow sequence`},
		"bad indentation":       {head + "prefix: a\n  trim: 1m\n", `o.yaml:3: is not YAML: mapping values are not allowed in this context`},
		"a byte that is no UTF": {head + "\n# \xff\n", `o.yaml:3: holds a byte that is not UTF-8 text`},
		"a control character":   {head + "prefix: a\x01\n", `o.yaml:2: holds a byte that is not UTF-8 text`},
		"a tag":                 {head + "prefix: !env X\n", `o.yaml:2: prefix: tags are not allowed; a text that begins with ! needs quotes`},
		"an alias of nothing":   {head + "prefix: *x\n", `o.yaml:2: an alias has no anchor; a text that begins with * needs quotes`},

		"unknown top key, no idea":   {head + "\ncolour: red\n", `o.yaml:3: colour: unknown key, want one of domain, prefix, kafka, durability, replication, lanes, default_lane, sharing, kinds, delay, max_payload, retention, trim`},
		"unknown key, near":          {head + "lanes:\n  - name: a\n    weigth: 3\n", `o.yaml:4: lanes[0].weigth: unknown key, did you mean weight?`},
		"unknown key, other case":    {head + "delay: {nearPartitions: 3}\n", `o.yaml:2: delay.nearPartitions: unknown key, did you mean near_partitions?`},
		"unknown key of a kind":      {head + "kinds:\n  order.close:\n    time_out: 3s\n", `o.yaml:4: kinds.order.close.time_out: unknown key, did you mean timeout?`},
		"unknown key, line break":    {head + "\"a\\nb\": 3\n", `o.yaml:2: "a\nb": unknown key, want one of domain, prefix, kafka, durability, replication, lanes, default_lane, sharing, kinds, delay, max_payload, retention, trim`},
		"misspelt domain":            {"domian: orders\n", `o.yaml:1: domian: unknown key, did you mean domain?`},
		"a key twice":                {head + "trim: {every: 1m}\n\ntrim: {every: 2m}\n", `o.yaml:4: trim: is given twice, first in line 2`},
		"a kind twice":               {head + "kinds:\n  a: {}\n  b: {}\n  a: {}\n", `o.yaml:5: kinds.a: is given twice, first in line 3`},
		"a list as key":              {head + "kinds:\n  ? [a]\n  : {}\n", `o.yaml:3: kinds: want plain texts as keys`},
		"a text for a number":        {head + "lanes:\n  - name: a\n    weight: heavy\n", `o.yaml:4: lanes[0].weight: "heavy": want a whole number`},
		"a fraction for a number":    {head + "replication: 2.5\n", `o.yaml:2: replication: "2.5": want a whole number`},
		"a number in quotes":         {head + "replication: \"3\"\n", `o.yaml:2: replication: "3": want a whole number without quotes`},
		"a number too large":         {head + "replication: 99999999999999999999\n", `o.yaml:2: replication: "99999999999999999999": want a whole number`},
		"a list for a number":        {head + "replication:\n  - 3\n", `o.yaml:3: replication: a list: want a whole number`},
		"a text for a factor":        {head + "kinds: {a: {backoff: {factor: much}}}\n", `o.yaml:2: kinds.a.backoff.factor: "much": want a number`},
		"infinity for a factor":      {head + "kinds: {a: {backoff: {factor: inf}}}\n", `o.yaml:2: kinds.a.backoff.factor: "inf": want a number`},
		"a text for a switch":        {head + "kafka:\n  tls:\n    enabled: yes\n", `o.yaml:4: kafka.tls.enabled: "yes": want true or false`},
		"a duration without a unit":  {head + "trim: {every: 60}\n", `o.yaml:2: trim.every: "60": want a duration such as 300ms, 30s or 1h30m`},
		"a duration in days":         {head + "trim: {every: 1d}\n", `o.yaml:2: trim.every: "1d": want a duration such as 300ms, 30s or 1h30m; a day is 24h`},
		"a duration in a list":       {head + "delay:\n  tiers:\n    - 5s\n    - soon\n", `o.yaml:5: delay.tiers[1]: "soon": want a duration such as 300ms, 30s or 1h30m`},
		"a text for a list":          {head + "kafka:\n  brokers: localhost:9092\n", `o.yaml:3: kafka.brokers: "localhost:9092": want a list`},
		"a text for a section":       {head + "delay: 5s\n", `o.yaml:2: delay: "5s": want keys and values`},
		"a duration for trim":        {head + "trim: 1m\n", `o.yaml:2: trim: "1m": want keys and values`},
		"a text for groups":          {head + "trim: {groups: audit}\n", `o.yaml:2: trim.groups: "audit": want a list`},
		"a list for a section":       {head + "kinds: [a]\n", `o.yaml:2: kinds: a list: want keys and values`},
		"a mapping for a text":       {head + "prefix: {a: b}\n", `o.yaml:2: prefix: keys and values: want a text`},
		"a merge of a text":          {head + "delay:\n  <<: x\n", `o.yaml:3: delay.<<: want an alias of keys and values`},
		"an anchor within itself":    {head + "lanes: &l\n  - *l\n", `o.yaml:2: lanes[0]: a list: want keys and values`},
		"a wrong value behind alias": {head + "kinds:\n  a: &a {timeout: x}\n  b: *a\n", "o.yaml:3: kinds.a.timeout: \"x\": want a duration such as 300ms, 30s or 1h30m\no.yaml:3: kinds.b.timeout: \"x\": want a duration such as 300ms, 30s or 1h30m"},

		"impossible value":                {head + "\n\nreplication: 101\n", `o.yaml:4: replication: 101: want 1 to 100`},
		"impossible name":                 {"# first\ndomain: Orders\n", `o.yaml:2: domain: "Orders": want lower case letters, digits, - and ., beginning and ending with a letter or digit`},
		"impossible value in a list":      {head + "delay:\n  tiers:\n  - 5s\n  - 4s\n", `o.yaml:5: delay.tiers[1]: 4s: want tiers in rising order, this is not above 5s`},
		"impossible number of tiers":      {head + "\ndelay:\n  tiers: [" + tiers(33) + "]\n", `o.yaml:4: delay.tiers (their number): 33: want 1 to 32`},
		"impossible common delay":         {head + "delay:\n  horizon: 1h\n  common:\n  - 10m\n  - 24h\n", `o.yaml:6: delay.common[1]: 24h0m0s: want 1ms to 1h0m0s`},
		"a fraction as common delay":      {head + "delay: {common: [1.0001ms]}\n", `o.yaml:2: delay.common[0]: 1.0001ms: want whole milliseconds`},
		"impossible number of commons":    {head + "delay:\n  rate: 1\n  common: [" + tiers(65) + "]\n", `o.yaml:4: delay.common (their number): 65: want 0 to 64`},
		"days as common delay":            {head + "delay: {common: [7d]}\n", `o.yaml:2: delay.common[0]: "7d": want a duration such as 300ms, 30s or 1h30m; a day is 24h`},
		"impossible group to wait for":    {head + "trim:\n  groups: [a,\n    orders.mover.far]\n", `o.yaml:4: trim.groups[1]: "orders.mover.far": is one of the domain's own, which count without being listed`},
		"impossible value of a kind":      {head + "kinds:\n  order.close:\n    timeout: 1000h\n", `o.yaml:4: kinds.order.close.timeout: 1000h0m0s: want 1ms to 720h0m0s`},
		"impossible name of a kind":       {head + "kinds:\n  order close: {}\n", `o.yaml:3: kinds."order close": "order close": holds a space or a control character`},
		"impossible value, absent key":    {head + "lanes:\n  - name: a\n    weight: 1\n  - name: b\n", `o.yaml:5: lanes[1].weight: 0: want 1 to 1000`},
		"impossible value, absent top":    {"prefix: a.\n", `o.yaml: domain: is required`},
		"impossible, one of few":          {head + "kafka:\n  group_protocol: eager\n", `o.yaml:3: kafka.group_protocol: "eager": want classic or consumer`},
		"impossible, absent section":      {head + "kafka:\n  sasl:\n    mechanism: PLAIN\n    password: x\n", `o.yaml:3: kafka.sasl.user: is required with a mechanism`},
		"impossible value through a null": {head + "lanes:\n  - name: a\n    weight:\n", `o.yaml:4: lanes[0].weight: 0: want 1 to 1000`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := spec.Parse("o.yaml", []byte(c.file))
			require.EqualError(t, err, c.want)
			require.Zero(t, d)
			require.NotNil(t, errorAs(err))
		})
	}
}

func tiers(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%ds", i+2)
	}
	return strings.Join(all, ", ")
}

func errorAs(err error) *spec.Error {
	e, _ := errors.AsType[*spec.Error](err)
	return e
}

func TestErrorHasItsParts(t *testing.T) {
	t.Parallel()
	_, err := spec.Parse("o.yaml", []byte("domain: orders\nlanes:\n- {name: a, weight: heavy}\n"))
	require.Equal(t, &spec.Error{
		File: "o.yaml", Line: 3, Path: "lanes[0].weight", Value: `"heavy"`, Reason: "want a whole number",
	}, errorAs(err))
}

func TestParseTellsAllFaultsInOrderOfLines(t *testing.T) {
	t.Parallel()
	_, err := spec.Parse("o.yaml", []byte(`replication: 101
lanes:
  - name: a
    weight: 5000
  - name: b
    weight: heavy
trim: {every: 1d}
colour: red
max_payload: -1
kinds:
  k: {lane: zz, timeout: -1s}
`))
	require.EqualError(t, err, strings.Join([]string{
		`o.yaml:1: replication: 101: want 1 to 100`,
		`o.yaml:4: lanes[0].weight: 5000: want 1 to 1000`,
		`o.yaml:6: lanes[1].weight: "heavy": want a whole number`,
		`o.yaml:7: trim.every: "1d": want a duration such as 300ms, 30s or 1h30m; a day is 24h`,
		`o.yaml:8: colour: unknown key, want one of domain, prefix, kafka, durability, replication, lanes, default_lane, sharing, kinds, delay, max_payload, retention, trim`,
		`o.yaml:9: max_payload: -1: want 1 to 536870912`,
		`o.yaml:11: kinds.k.timeout: -1s: want 1ms to 720h0m0s`,
		`o.yaml: domain: is required`,
	}, "\n"), "kinds.k.lane may follow from the broken lanes and waits for the next round")
}

// A fault that only follows from another one sends the reader to a line that
// is right.
func TestParseTellsNoFaultThatOnlyFollowsFromAnother(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"lanes misspelt":      "domain: o\nlane:\n- {name: x, weight: 1}\ndefault_lane: x\nkinds: {k: {lane: x}}\n",
		"lane's name":         "domain: o\nlanes:\n- {name: [x], weight: 1}\ndefault_lane: x\nkinds: {k: {lane: x}}\n",
		"durability":          "domain: o\ndurability: [fast]\nreplication: 1\n",
		"tiers":               "domain: o\ndelay: {tiers: [1s, 20x], window: 100ms}\nretention: {tasks: 169h}\n",
		"horizon of commons":  "domain: o\ndelay: {horizon: 900d, common: [10000h]}\n",
		"window":              "domain: o\ndelay: {tiers: [1s], window: 100}\n",
		"outage":              "domain: o\nretention: {tasks: 26h, outage: 1}\n",
		"base of a back-off":  "domain: o\nkinds: {k: {backoff: {base: 10, max: 500ms}}}\n",
		"horizon":             "domain: o\ndelay: {horizon: 900d}\nkinds: {k: {backoff: {max: 10000h}}}\n",
		"a user":              "domain: o\nkafka: {sasl: {mechanism: PLAIN, usr: x, password: y}}\n",
		"a password's file":   "domain: o\nkafka: {sasl: {mechanism: PLAIN, user: x, password_file: [y]}}\n",
		"a certificate":       "domain: o\nkafka: {tls: {cert: x, key_file: y}}\n",
		"a certificate's key": "domain: o\nkafka: {tls: {cert_file: x, key_file: [y]}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := spec.Parse("o.yaml", []byte(file))
			require.Error(t, err)
			require.NotContains(t, err.Error(), "\n", "one fault only")
		})
	}
}

func TestParseNeverPrintsASecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, sasl := range []string{
		"sasl: hunter2",
		"sasl: [hunter2]",
		"sasl: {password: [hunter2]}",
		"sasl: {password: {hunter2: x}}",
		"sasl: {pasword: hunter2}",
		"sasl: {mechanism: PLAIN, password: hunter2}",
		"sasl: {mechanism: PLAIN, user: a, password: hunter2, password_file: b}",
		"sasl: {password: a, password: hunter2}",
		"sasl: {password: !hunter2 a}",
		"sasl: {password: !!int hunter2}",
		"sasl: {password: !<hunter2 }",
		"sasl: {password: !a!hunter2 b}",
		"sasl: {password: *hunter2 }",
		"sasl: {password: %hunter2}",
		"sasl: {password: \"hunter2}",
		"sasl: {password: 'hunter2' hunter2}",
		"sasl: {password: \"\\qhunter2\"}",
		"sasl:\n    password: hunter2: x",
		"sasl:\n    password: &hunter2",
		"sasl:\n    mechanism: PLAIN\n    password: @hunter2",
		"sasl:\n    mechanism: PLAIN\n    password: |hunter2",
	} {
		_, err := spec.Parse("o.yaml", []byte("domain: o\nkafka:\n  "+sasl+"\nreplication: 101\n"))
		require.Error(t, err, sasl)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), secret, sasl)
	}
	_, err := spec.Parse("o.yaml", []byte("domain: o\nkafka: hunter2\n"))
	require.EqualError(t, err, "o.yaml:2: kafka: want keys and values")
	_, err = spec.Parse("o.yaml", []byte("hunter2"))
	require.EqualError(t, err, "o.yaml:1: want keys and values")
}

func TestParseBoundsWhatAFileUnfoldsInto(t *testing.T) {
	t.Parallel()
	var merges strings.Builder // each kind merges the last one ten times
	merges.WriteString("domain: o\nkinds:\n  k0: &k0 {timeout: 1s}\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&merges, "  k%d: &k%d {<<: [%s]}\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*k%d, ", i-1), 10), ", "))
	}
	deep := "domain: o\nkinds:\n  k0: &k0 {timeout: 1s}\n"
	for i := 1; i < 12; i++ {
		deep += fmt.Sprintf("  k%d: &k%d {<<: *k%d}\n", i, i, i-1)
	}
	lists := "domain: o\nkinds:\n  k0: {backoff: {delays: &d [" + strings.Repeat("1s, ", 1000) + "1s]}}\n"
	for i := 1; i < 1000; i++ {
		lists += fmt.Sprintf("  k%d: {backoff: {delays: *d}}\n", i)
	}
	for name, c := range map[string]struct{ file, want string }{
		"merges":  {merges.String(), "the file unfolds into more than 100000 values"},
		"depth":   {deep, "merge keys go more than 8 deep"},
		"itself":  {"domain: o\ndelay: &d\n  <<: *d\n", "merge keys go more than 8 deep"},
		"aliases": {lists, "the file unfolds into more than 100000 values"},
		"nesting": {"domain: " + strings.Repeat("[", 20_000), "exceeded max depth"},
		"size":    {"domain: o\n#" + strings.Repeat("x", 1<<20), "is larger than 1 MiB"},
		"faults":  {"domain: o\nlanes:\n" + strings.Repeat("- {}\n- a\n", 5000), "more faults"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := spec.Parse("o.yaml", []byte(c.file))
			require.ErrorContains(t, err, c.want)
			require.LessOrEqual(t, strings.Count(err.Error(), "\n"), 100)
		})
	}
}

func TestParseShortensLongValues(t *testing.T) {
	t.Parallel()
	_, err := spec.Parse("o.yaml", []byte("domain: "+strings.Repeat("A", 10_000)+"\nreplication: "+strings.Repeat("b", 10_000)+"\n"+strings.Repeat("c", 1000)+": 1\n"))
	require.Error(t, err)
	for line := range strings.Lines(err.Error()) {
		require.Less(t, len(line), 300)
	}
}

func TestErrorTextStaysOnItsLine(t *testing.T) {
	t.Parallel()
	_, err := spec.Parse("o.yaml", []byte("domain: \"a\\nother.yaml:1: fake\\e[31m\"\n"))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, (&spec.Error{Path: "a\nb\x1b"}).Error(), "\n")
}
