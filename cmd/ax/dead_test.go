package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
)

var deathDay = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// dies writes the death of a task and returns its name.
func dies(t *testing.T, c *fakekafka.Cluster, offset int64, task ax.Task, change ...func(*ax.Death)) string {
	t.Helper()
	r := ax.Encode(&task)
	r.Topic, r.Offset = "orders.lane.high", offset
	d := ax.Death{Reason: ax.ReasonFailed, Error: "no\x1b[31m\nluck", At: deathDay, Attempt: 3, TopicID: [16]byte{1}}
	for _, f := range change {
		f(&d)
	}
	dr := ax.DeadRecord(r, d)
	dr.Topic = "orders.dead"
	cl := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, cl.ProduceSync(t.Context(), dr).FirstErr())
	return string(dr.Key)
}

// cemetery has four deaths: two of the task a, one of b that has expired, and
// one that is no task.
func cemetery(t *testing.T) (c *fakekafka.Cluster, names []string, dead func(args ...string) outcome) {
	t.Helper()
	c, flags := provisioned(t)
	names = []string{
		dies(t, c, 0, ax.Task{ID: "a", Kind: "job", Lane: "high", Key: "k", Payload: []byte(`{"n": 9007199254740993}`)}),
		dies(t, c, 1, ax.Task{ID: "b", Kind: "report", Lane: "low", Expires: deathDay, Payload: []byte{0xff, 0}},
			func(d *ax.Death) { d.Reason, d.Error = ax.ReasonTimeout, "took too long" }),
		dies(t, c, 2, ax.Task{ID: "a", Kind: "job", Lane: "high"}),
		dies(t, c, 3, ax.Task{ID: "none"}, func(d *ax.Death) { d.Reason = ax.ReasonMalformed }),
	}
	return c, names, func(args ...string) outcome {
		return call(t, append(append([]string{"dead"}, args...), flags...)...)
	}
}

// held returns the ids and payloads that a topic holds, sorted: one without a
// key may be in any partition.
func held(t *testing.T, c *fakekafka.Cluster, topic string) []string {
	t.Helper()
	all := []string{}
	for _, r := range c.Records(t, topic) {
		task, err := ax.Decode(r, [16]byte{})
		require.NoError(t, err)
		all = append(all, task.ID+" "+string(task.Payload))
	}
	slices.Sort(all)
	return all
}

func TestDeadListIsATableOfWhatIsLive(t *testing.T) {
	t.Parallel()
	_, names, dead := cemetery(t)
	got := dead("list")
	require.Equal(t, 0, got.code, got.err)
	lines := strings.Split(got.out, "\n")
	require.Len(t, lines, 7)
	require.Regexp(t, `^died +death +task +kind +lane +attempts +reason +error$`, lines[0])
	require.Regexp(t, `^2026-03-01T12:00:00Z  `+names[0]+` +a +job +high +3  failed +no\x{FFFD}\[31m luck$`, lines[1])
	require.Regexp(t, `^2026-03-01T12:00:00Z  `+names[1]+` +b +report +low +3  timeout +took too long$`, lines[2])
	require.Regexp(t, `^2026-03-01T12:00:00Z  `+names[3]+` +none +- +- +3  malformed `, lines[4])
	require.Equal(t, "4 deaths in orders.dead", lines[5])
	require.NotContains(t, got.out, "9007199254740993", "no payloads")

	require.Equal(t, "0 deaths in orders.dead\n", dead("list", "--kind", "other").out)
	require.Contains(t, dead("list", "--error", "too long").out, "\n1 death in")
	require.Contains(t, dead("list", "--contains", `"n"`).out, "\n1 death in")
	require.Contains(t, dead("list", "--reason", "malformed").out, "\n1 death in")
	require.Contains(t, dead("list", "--since", "2026-03-01T12:00:00Z").out, "\n4 deaths in")
	require.Contains(t, dead("list", "--until", "1h", "--kind", "job").out, "2 deaths in")
	require.Contains(t, dead("list", "--until", "2026-03-01T12:00:00Z").out, "0 deaths in")
}

func TestDeadListAsJsonIsALineForEachDeathAndTheirNumber(t *testing.T) {
	t.Parallel()
	_, names, dead := cemetery(t)
	got := dead("list", "--json")
	require.Equal(t, 0, got.code, got.err)
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	require.Len(t, lines, 5)
	var first, bad map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.Equal(t, map[string]any{
		"death": names[0], "id": "a", "kind": "job", "lane": "high", "key": "k", "at": "2026-03-01T12:00:00Z", "attempts": 3.0,
		"reason": "failed", "error": "no\x1b[31m\nluck", "source": "orders.lane.high/0/0/0", "payload_bytes": 23.0, "partition": 0.0, "offset": 0.0,
	}, first)
	require.NoError(t, json.Unmarshal([]byte(lines[3]), &bad))
	require.Equal(t, `header ax-kind "": is missing`, bad["malformed"])
	require.Equal(t, map[string]any{"domain": "orders", "topic": "orders.dead", "deaths": 4.0}, got.object(t))
}

func TestDeadShowPrintsAllDeathsOfATaskAsTheyAre(t *testing.T) {
	t.Parallel()
	_, names, dead := cemetery(t)
	got := dead("show", "a")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, 2, strings.Count(got.out, "task          a\n"))
	require.Contains(t, got.out, "death         "+names[0]+"\n")
	require.Contains(t, got.out, "key           \"k\"\n")
	require.Contains(t, got.out, "header        ax-kind=job\n")
	require.Contains(t, got.out, "payload       23 bytes\n{\"n\": 9007199254740993}\n")
	require.NotContains(t, got.out, "\x1b")
	require.Contains(t, dead("show", names[1]).out, "00000000  ff 00 ")
	require.Contains(t, dead("show", "none").out, `no task       header ax-kind "": is missing`)

	got = dead("show", "b", "--json")
	var b map[string]any
	require.NoError(t, json.Unmarshal([]byte(strings.Split(got.out, "\n")[0]), &b))
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte{0xff, 0}), b["payload"])
	require.NotContains(t, b, "payload_text")
	require.Equal(t, "2026-03-01T12:00:00Z", b["expires"])
	require.Contains(t, b["headers"], map[string]any{"name": "ax-kind", "value": "cmVwb3J0", "text": "report"})
	require.Contains(t, dead("show", names[0], "--json").out, `"payload_text":"{\"n\": 9007199254740993}"`)

	got = dead("show", "a", "nobody", "no one")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.out, names[0])
	require.Equal(t, "ax: domain orders: no death in orders.dead has the id \"nobody\", \"no one\", of its own or of its task\n", got.err)
	got = dead("show", "a", "nobody", "--json")
	require.Equal(t, 1, got.code)
	require.Empty(t, got.err)
	require.Equal(t, []any{"nobody"}, got.object(t)["absent"])
	require.EqualValues(t, 2, got.object(t)["deaths"])
	require.Contains(t, got.object(t)["error"], `"nobody"`)
}

func TestDeadRedriveWithoutYesSaysWhatItWouldDo(t *testing.T) {
	t.Parallel()
	c, names, dead := cemetery(t)
	got := dead("redrive", "--all")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, `2 deaths of orders.dead would be redriven
1 death would be left alone: expired
1 death would be left alone: malformed

    deaths  reason       kind
         2  failed       job
         1  malformed    -
         1  timeout      report

died                  death                                       task                                  kind
2026-03-01T12:00:00Z  `+names[0]+`      a                                     job
2026-03-01T12:00:00Z  `+names[2]+`      a                                     job

nothing was done: add --yes to redrive them
`, got.out)
	o := dead("purge", "--kind", "job", "--json").object(t)
	require.Equal(t, true, o["dry_run"])
	require.EqualValues(t, 2, o["deaths"])
	require.Equal(t, []any{map[string]any{"kind": "job", "reason": "failed", "deaths": 2.0}}, o["groups"])
	require.Len(t, o["first"], 2)
	require.Len(t, c.Records(t, "orders.dead"), 4)
	require.Empty(t, held(t, c, "orders.lane.high"))
}

func TestDeadRedriveDrivesAndCountsWhatItLeaves(t *testing.T) {
	t.Parallel()
	c, _, dead := cemetery(t)
	got := dead("redrive", "--all", "--yes")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, "2 deaths redriven\n1 death left alone: expired\n1 death left alone: malformed\n", got.out)
	require.Empty(t, got.err, "no progress where there is no terminal")
	require.Equal(t, []string{"a ", `a {"n": 9007199254740993}`}, held(t, c, "orders.lane.high"))
	require.Contains(t, dead("list").out, "\n2 deaths in")

	o := dead("redrive", "b", "--ignore-expiry", "--rate", "0", "--yes", "--json").object(t)
	require.EqualValues(t, 1, o["redriven"])
	require.EqualValues(t, 1, o["deaths"])
	require.EqualValues(t, 0, o["remaining"])
	require.NotContains(t, o, "error")
	require.Equal(t, []string{"b \xff\x00"}, held(t, c, "orders.lane.low"))
	got = dead("redrive", "b", "--yes")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.err, `has the id "b"`)
}

func TestDeadRedriveReplacesThePayloadOfOneDeath(t *testing.T) {
	t.Parallel()
	c, names, dead := cemetery(t)
	fixed := file(t, "fixed")
	got := dead("redrive", "a", "--payload", fixed, "--yes")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.err, "--payload is for one death, and 2 deaths are chosen; nothing was done")
	require.Empty(t, held(t, c, "orders.lane.high"))
	got = dead("redrive", names[2], "--payload", file(t, strings.Repeat("x", 1<<20)), "--yes")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.err, "more than 983040 bytes")
	require.Equal(t, 2, dead("redrive", names[2], "--payload", fixed+".absent", "--yes").code)

	require.Equal(t, "1 death redriven\n", dead("redrive", names[2], "--payload", fixed, "--yes").out)
	require.Equal(t, []string{"a fixed"}, held(t, c, "orders.lane.high"))
	flags := []string{"--spec", file(t, orders), "--kafka", c.Addrs()[0]}
	got = callWith(t, "", append([]string{"dead", "redrive", names[0], "--payload", "-", "--yes"}, flags...)...)
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, []string{"a ", "a fixed"}, held(t, c, "orders.lane.high"), "an empty payload is one")
	require.Equal(t, "0 deaths redriven\n1 death left alone: malformed\n", dead("redrive", "none", "--payload", fixed, "--yes").out)
}

func TestDeadPurgeForgetsWhatIsChosen(t *testing.T) {
	t.Parallel()
	c, _, dead := cemetery(t)
	require.Equal(t, "2 deaths purged\n", dead("purge", "--kind", "job", "--yes").out)
	require.Contains(t, dead("list").out, "\n2 deaths in")
	require.EqualValues(t, 2, dead("purge", "--all", "--yes", "--json").object(t)["purged"])
	require.Equal(t, "0 deaths in orders.dead\n", dead("list").out)
	require.Empty(t, held(t, c, "orders.lane.high"))
	require.Equal(t, "0 deaths of orders.dead would be purged\n", dead("purge", "--all").out)
}

func TestDeadSaysWhatWasDoneBeforeAWriteFailed(t *testing.T) {
	t.Parallel()
	c, names, dead := cemetery(t)
	h := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders.lane.high", Err: kerr.TopicAuthorizationFailed, Count: -1})
	got := dead("redrive", "a", "--yes")
	require.Equal(t, 1, got.code)
	require.Equal(t, "0 deaths redriven\n2 deaths to go: the same command goes on with them\n", got.out)
	require.Contains(t, got.err, "ax: redrive domain orders: death "+names[0]+": submit task a to orders.lane.high: ")
	o := dead("redrive", "a", "--yes", "--json").object(t)
	require.EqualValues(t, 2, o["remaining"])
	require.Contains(t, o["error"], "death "+names[0])
	h.Remove()
}

func TestASignalStopsARedriveAfterTheOneAtHand(t *testing.T) {
	t.Parallel()
	c, _, _ := cemetery(t)
	flags := []string{"--spec", file(t, orders), "--kafka", c.Addrs()[0]}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c.Kfake().Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders.lane.high", Observe: true, Count: -1,
		When: func(kmsg.Request) bool { stop(); return true },
	})
	var out, errs bytes.Buffer
	require.Equal(t, 1, run(ctx, append([]string{"ax", "dead", "redrive", "a", "--yes"}, flags...), nil, &out, &errs))
	require.Equal(t, "1 death redriven\n1 death to go: the same command goes on with them\n", out.String())
	require.Contains(t, errs.String(), "ax: redrive domain orders: stopped: 1 redriven, 1 left; the same command goes on with them")
}

func TestDeadUsageErrors(t *testing.T) {
	t.Parallel()
	flags := []string{"--spec", file(t, orders), "--kafka", "127.0.0.1:1"}
	for _, one := range []struct{ args, want string }{
		{"redrive --yes", "nothing is chosen: want an ID, a filter such as --kind, or --all"},
		{"purge", "nothing is chosen"},
		{"purge --all --kind k", "--all and a choice: want one of them"},
		{"redrive --all --rate -1", "--rate -1: want 0 or more"},
		{"redrive --all --since yesterday", `--since "yesterday": want RFC 3339`},
		{"list --reason faild", `--reason "faild": want one of failed, permanent, timeout`},
		{"purge --reason failed --kind= --yes", "--kind is empty"},
		{"show", "want the ID of a death or a task"},
		{"list x", `unexpected argument "x"`},
	} {
		got := call(t, append(append([]string{"dead"}, strings.Fields(one.args)...), flags...)...)
		require.Equal(t, 2, got.code, one.args)
		require.Contains(t, got.err, one.want)
	}
	require.Contains(t, call(t, append([]string{"dead", "purge", ""}, flags...)...).err, "an ID is empty")
	require.Contains(t, call(t, "dead", "bury").err, `no command "bury", want one of list, show, redrive, purge`)
	for _, verb := range []string{"list", "show x", "redrive --all", "purge --all"} {
		got := call(t, append(append([]string{"dead"}, strings.Fields(verb)...), append(flags, "--json")...)...)
		require.Equal(t, 1, got.code)
		require.Contains(t, got.object(t)["error"], "no broker reachable")
	}
}

func TestTheProgressIsALineThatIsRedrawn(t *testing.T) {
	t.Parallel()
	var w bytes.Buffer
	began := time.Now()
	p := progress{w: &w, done: "redriven", total: 12345, began: began, last: began}
	p.tell(1, began.Add(400*time.Millisecond))
	p.end()
	require.Empty(t, w.String())
	p.tell(100, began.Add(time.Second))
	p.tell(101, began.Add(1100*time.Millisecond))
	p.tell(1234, began.Add(2*time.Second))
	p.end()
	require.Equal(t, fmt.Sprintf("\r%s\r%s\n", "100/12,345 redriven, 100/s ", "1,234/12,345 redriven, 617/s "), w.String())
}
