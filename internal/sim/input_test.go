package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/internal/sim"
	"github.com/axtasks/ax/spec"
)

func TestALoadHasAllThatItsFileSays(t *testing.T) {
	t.Parallel()
	l, err := sim.ParseLoad("load.yaml", []byte(`
slots: 16
for: 10m
warmup: 0s
seed: 7
loads:
  - kind: a
    lane: b
    rate: 12.5
    even: true
    run: 5ms..50ms
    delay: exp 30s
    fail: 0.05
    backlog: 10
    begin: -0s
    end: 2m
  - {kind: b, run: 1ms, flood: true, rate: , "lane": ~}
`), domain(1, 1).WithDefaults())
	require.NoError(t, err)
	require.Equal(t, sim.Load{
		Slots: 16, For: 10 * time.Minute, Seed: 7, Loads: []sim.Source{
			{
				Kind: "a", Lane: "b", Rate: 12.5, Even: true, Run: sim.Spread{Least: 5 * time.Millisecond, Most: 50 * time.Millisecond},
				Delay: sim.Spread{Mean: 30 * time.Second}, Fail: 0.05, Backlog: 10, Begin: at(0), End: at(2 * time.Minute),
			},
			{Kind: "b", Run: ms(1), Flood: true},
		},
	}, l)

	l, err = sim.ParseLoad("load.yaml", []byte("loads: [{kind: a, run: 1ms, rate: 1}]"), domain(1).WithDefaults())
	require.NoError(t, err)
	require.Equal(t, 32, l.Slots)
	require.Equal(t, time.Minute, l.For)
	require.Equal(t, 2*time.Second, l.Warmup)
	require.Nil(t, l.Loads[0].Begin)
}

func TestAFaultInALoadHasItsLine(t *testing.T) {
	t.Parallel()
	const good = "loads:\n  - {kind: a, run: 1ms, rate: 1}\n"
	for text, want := range map[string]string{
		"":                                 "load.yaml: is empty; it needs at least the key loads",
		"slots: [":                         "load.yaml:2: is not YAML",
		"slots: 1\n":                       "load.yaml:1: loads: is required",
		"loads: {}\n":                      "load.yaml:1: loads: keys and values: want a list",
		"loads: []\n":                      "load.yaml:1: loads: is required",
		"- slots\n":                        "load.yaml:1: a list: want keys and values",
		good + "---\nx: 1\n":               "load.yaml:3: a second document begins here",
		good + "solts: 3\n":                "load.yaml:3: solts: unknown key, want one of slots, for, warmup, seed, loads",
		good + "\"a\\nb\": 3":              `load.yaml:3: "a\nb": unknown key`,
		good + "slots: many\n":             `load.yaml:3: slots: "many": want a whole number`,
		good + "slots: \"3\"\n":            `load.yaml:3: slots: "3": want a whole number without quotes`,
		good + "slots: 0\n":                "load.yaml:3: slots: 0: want 1 to 100000",
		good + "slots: 1\nslots: 2\n":      "load.yaml:4: slots: is given twice, first in line 3",
		good + "for: 10\n":                 `load.yaml:3: for: "10": want a duration such as`,
		good + "for: 0s\n":                 "load.yaml:3: for: 0s: want 1ms to 9600h",
		good + "warmup: -1s\n":             "load.yaml:3: warmup: -1s: want 0s to",
		good + "seed: -1\n":                "load.yaml:3: seed: -1: want 0 to",
		good + "for: !!str 1m\n":           "load.yaml:3: for: tags are not allowed",
		good + "for: &x 1m\nwarmup: *x\n":  "load.yaml:4: warmup: aliases are not allowed",
		good + "  - {run: 1ms, rate: 1}\n": "load.yaml:3: loads[1].kind: is required",
		good + "  - {kind: a, rate: 1}\n":  "load.yaml:3: loads[1].run: is required",
		good + "  - {kind: a, run: 1ms}\n": "load.yaml:3: loads[1]: wants a rate, a backlog or flood: true",
		good + "  - 3\n":                   `load.yaml:3: loads[1]: "3": want keys and values`,
		good + "  - kind: a b\n    run: 1ms\n    rate: 1\n":                 `load.yaml:3: loads[1].kind: "a b": holds a space`,
		good + "  - kind: a\n    run: 1\n":                                  `load.yaml:4: loads[1].run: "1": want a duration such as 5ms, a range`,
		good + "  - kind: a\n    run: 9ms..5ms\n":                           `load.yaml:4: loads[1].run: "9ms..5ms": want`,
		good + "  - kind: a\n    run: -1ms\n":                               `load.yaml:4: loads[1].run: "-1ms": want`,
		good + "  - kind: a\n    run: exp 0s\n":                             `load.yaml:4: loads[1].run: "exp 0s": want`,
		good + "  - kind: a\n    run: 25h\n    rate: 1":                     `load.yaml:4: loads[1].run: 25h: want at most 24h`,
		good + "  - kind: a\n    run: 1s\n    rate: fast":                   `load.yaml:5: loads[1].rate: "fast": want a number`,
		good + "  - kind: a\n    run: 1s\n    rate: -1":                     `load.yaml:5: loads[1].rate: -1: want above 0`,
		good + "  - kind: a\n    run: 1s\n    rate: .nan":                   `load.yaml:5: loads[1].rate: ".nan": want a number`,
		good + "  - kind: a\n    run: 1s\n    lane: x\n    rate: 1":         `load.yaml:5: loads[1].lane: "x": is no lane of the domain, want one of a, b`,
		good + "  - kind: a\n    run: 1s\n    rate: 1\n    fail: 5":         `load.yaml:6: loads[1].fail: 5: want 0 to 1`,
		good + "  - kind: a\n    run: 1s\n    rate: 1\n    delay: 10000h":   `load.yaml:6: loads[1].delay: 10000h: want at most the domain's horizon`,
		good + "  - kind: a\n    run: 1s\n    rate: 1\n    flood: true":     `load.yaml:6: loads[1].flood: true: goes with no rate, backlog or delay`,
		good + "  - kind: a\n    run: 1s\n    rate: 1\n    flood: yes":      `load.yaml:6: loads[1].flood: "yes": want true or false`,
		good + "  - kind: a\n    run: 0s\n    flood: true":                  `load.yaml:4: loads[1].run: 0s: want at least 1µs`,
		good + "  - kind: a\n    run: 0s\n    backlog: 1\n    even: true":   `load.yaml:6: loads[1].even: true: goes with a rate`,
		good + "  - kind: a\n    run: 0s\n    backlog: -1":                  `load.yaml:5: loads[1].backlog: -1: want 0 to 10000000`,
		good + "  - kind: a\n    run: 0s\n    rate: 1\n    begin: -3s":      `load.yaml:6: loads[1].begin: -3s: want -2s, where the warm-up begins`,
		good + "  - kind: a\n    run: 0s\n    rate: 1\n    end: -2s":        `load.yaml:6: loads[1].end: -2s: want an instant after -2s`,
		good + "  - kind: a\n    run: 0s\n    rate: 1\n    begin: tomorrow": `load.yaml:6: loads[1].begin: "tomorrow": want a duration`,
		"slots: " + strings.Repeat(" ", 1<<20):                              "load.yaml: is larger than 1 MiB",
	} {
		_, err := sim.ParseLoad("load.yaml", []byte(text), domain(1, 1).WithDefaults())
		require.ErrorContains(t, err, want, text)
		var fault *spec.Error
		require.ErrorAs(t, err, &fault)
	}
}

func TestAllFaultsOfALoadComeAtOnce(t *testing.T) {
	t.Parallel()
	_, err := sim.ParseLoad("l", []byte("loads:\n  - {kind: a, run: x, rate: y}\n  - {kind: a, flood: 1}\nslots: z\n"), domain(1).WithDefaults())
	require.Len(t, strings.Split(err.Error(), "\n"), 5)
}

func TestAFaultInARecordingHasItsLine(t *testing.T) {
	t.Parallel()
	const head = "at,kind,lane,run,delay\n"
	for text, want := range map[string]string{
		"":                                "r.csv: is empty",
		"at,kind\n":                       "r.csv:1: run: the column is required",
		"at,kind,run,payload\n":           `r.csv:1: "payload": is no column`,
		"at,kind,run,at\n":                `r.csv:1: "at": is there twice`,
		head + "0s,a,,1ms\n":              "r.csv:2: is not CSV: wrong number of fields",
		head + "0s,\"a,,1ms,\n":           "r.csv:2: is not CSV",
		head + "\n\nnoon,a,,1ms,\n":       `r.csv:4: at: "noon": want a duration since the beginning`,
		head + "-1s,a,,1ms,\n":            `r.csv:2: at: "-1s": want a duration`,
		head + "2s,a,,1ms,\n1s,a,,1ms,\n": `r.csv:3: at: "1s": is before the row above`,
		head + "2s,a,,1ms,\n2026-03-01T12:00:00Z,a,,1ms,\n":                   `r.csv:3: at: "2026-03-01T12:00:00Z": want a duration such as 1m2.5s`,
		head + "2026-03-01T12:00:00Z,a,,1ms,\n2s,a,,1ms,\n":                   `r.csv:3: at: "2s": want an instant`,
		head + "2026-03-01T12:00:00Z,a,,1ms,\n2046-03-01T12:00:00Z,a,,1ms,\n": `r.csv:3: at: "2046-03-01T12:00:00Z": is more than 9600h after`,
		head + "2s,,,1ms,\n":           `r.csv:2: kind: "": is empty`,
		head + "2s,a,x,1ms,\n":         `r.csv:2: lane: "x": is no lane of the domain, want one of a, b`,
		head + "2s,a,,soon,\n":         `r.csv:2: run: "soon": want a duration`,
		head + "2s,a,,25h,\n":          `r.csv:2: run: "25h": want a duration such as 5ms, 0s to 24h`,
		head + "2s,a,,1s,1\n":          `r.csv:2: delay: "1": want nothing, or a duration`,
		head + "2s,a,,1s,\"10000h\"\n": `r.csv:2: delay: "10000h": want nothing, or a duration such as 30s, 0s to the domain's horizon 9600h`,
	} {
		d := domain(1, 1).WithDefaults()
		c, err := sim.NewRecording("r.csv", strings.NewReader(text), d)
		if err == nil {
			l := sim.DefaultLoad()
			l.For = 0
			_, err = sim.Run(t.Context(), d, l, c)
		}
		require.ErrorContains(t, err, want, text)
		var fault *spec.Error
		require.ErrorAs(t, err, &fault)
	}
}

func TestASpreadIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"0s", "5ms", "5ms..50ms", "exp 5ms", "1h30m"} {
		x, err := sim.ParseSpread(s)
		require.NoError(t, err)
		require.Equal(t, s, x.String())
	}
	for _, s := range []string{"", "5", "exp", "exp -1s", "5ms..", "..5ms", "-1s..1s", "2s..1s", "normal 5ms"} {
		_, err := sim.ParseSpread(s)
		require.Error(t, err, s)
	}
}
