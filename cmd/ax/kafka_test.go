package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
)

func TestTopicsArePlannedAppliedAndThenMatch(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	flags := []string{"--spec", file(t, orders), "--kafka", c.Addrs()[0]}
	topics := func(verb string, more ...string) outcome {
		return call(t, append(append([]string{"topics", verb}, flags...), more...)...)
	}
	const all = 4 + 8 + 2

	plan := topics("plan")
	require.Equal(t, 0, plan.code, plan.err)
	require.Equal(t, all, strings.Count(plan.out, "create orders."))
	require.Contains(t, plan.out, "1h            2  1h, near\n")
	require.Contains(t, plan.out, "168h          9  7 × 24h, 5s, near\n")
	require.NotContains(t, plan.out, "nothing to do")

	check := topics("check")
	require.Equal(t, 3, check.code)
	require.Contains(t, check.err, "create orders.lane.critical")

	apply := topics("apply")
	require.Equal(t, 0, apply.code, apply.err)
	require.Equal(t, all, strings.Count(apply.out, "create orders."))

	require.Contains(t, topics("plan").out, "nothing to do")
	require.Equal(t, "nothing to do\n", topics("apply").out)
	require.Equal(t, outcome{out: "domain orders: 14 topics match\n"}, topics("check"))

	object := topics("plan", "--json").object(t)
	require.Equal(t, "orders", object["domain"])
	require.Equal(t, []any{}, object["changes"])
	require.Len(t, object["hops"], 6)
}

func TestTopicsCheckFindsAChangeByHandAndApplyMendsIt(t *testing.T) {
	t.Parallel()
	c, flags := provisioned(t)
	_, err := c.Admin(t).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("1000")}}, "orders.lane.low")
	require.NoError(t, err)

	got := call(t, append([]string{"topics", "check", "--json"}, flags...)...)
	require.Equal(t, 3, got.code)
	require.Contains(t, got.object(t)["error"], "1 difference")
	require.Equal(t, []any{map[string]any{"action": "set", "topic": "orders.lane.low", "what": "retention.ms", "from": "1000", "to": "-1"}}, got.object(t)["changes"])
	require.Equal(t, 3, call(t, append([]string{"topics", "check"}, flags...)...).code, "check changed it")

	require.Equal(t, 0, call(t, append([]string{"topics", "apply"}, flags...)...).code)
	require.Equal(t, 0, call(t, append([]string{"topics", "check"}, flags...)...).code)
}

func TestTopicsApplyFailsOnWhatItNeverMends(t *testing.T) {
	t.Parallel()
	c, flags := provisioned(t)
	_, err := c.Admin(t).CreatePartitions(t.Context(), 1, "orders.lane.low")
	require.NoError(t, err)
	got := call(t, append([]string{"topics", "apply", "--json"}, flags...)...)
	require.Equal(t, 1, got.code)
	require.Contains(t, got.object(t)["error"], "partitions can't shrink")
	require.Len(t, got.object(t)["changes"], 1)
}

func TestADomainThatAsksForMoreBrokersIsABadConfiguration(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	got := call(t, "topics", "plan", "--spec", file(t, "domain: orders\n"), "--kafka", c.Addrs()[0])
	require.Equal(t, 2, got.code)
	require.Contains(t, got.err, "the cluster has 1 brokers")
}

func TestASubmittedTaskLandsWithAllThatTheFlagsSay(t *testing.T) {
	t.Parallel()
	c, flags := provisioned(t)
	got := call(t, append([]string{
		"submit", "order.close", `{"id": 7}`, "--lane", "high", "--key", "k", "--id", "id-1", "--timeout", "90s",
		"--attempts", "4", "--expires", "1h", "--header", "tenant=a,b", "--header", "trace=x=y", "--json",
	}, flags...)...)
	require.Equal(t, 0, got.code, got.err+got.out)
	object := got.object(t)
	require.Equal(t, "id-1", object["id"])
	require.Equal(t, "orders.lane.high", object["topic"])
	require.Contains(t, object, "partition")
	require.EqualValues(t, 0, object["offset"])

	records := c.Records(t, "orders.lane.high")
	require.Len(t, records, 1)
	task, err := ax.Decode(records[0], [16]byte{})
	require.NoError(t, err)
	require.Equal(t, `{"id": 7}`, string(task.Payload))
	require.Equal(t, "order.close", task.Kind)
	require.Equal(t, "k", task.Key)
	require.Equal(t, 90*time.Second, task.Timeout)
	require.Equal(t, 4, task.MaxAttempts)
	require.Equal(t, []ax.Header{{Name: "tenant", Value: []byte("a,b")}, {Name: "trace", Value: []byte("x=y")}}, task.Headers)
	require.WithinDuration(t, task.Submitted.Add(time.Hour), task.Expires, time.Second)
}

func TestADelayedTaskGoesToATier(t *testing.T) {
	t.Parallel()
	_, flags := provisioned(t)
	at := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Second)
	object := call(t, append([]string{"submit", "k", "--at", at.Format(time.RFC3339), "--json"}, flags...)...).object(t)
	require.Equal(t, "orders.delay.1h", object["topic"])
	require.Equal(t, at.Format(time.RFC3339), object["due"])
	got := call(t, append([]string{"submit", "k", "--after", "6h"}, flags...)...)
	require.Contains(t, got.out, "is in orders.delay.6h/")
}

func TestAPayloadComesFromStdinOrAFile(t *testing.T) {
	t.Parallel()
	c, flags := provisioned(t)
	require.Equal(t, 0, callWith(t, "one\n", append([]string{"submit", "k", "-", "--lane", "low"}, flags...)...).code)
	require.Equal(t, 0, callWith(t, "two\n", append([]string{"submit", "k", "--file", "-", "--lane", "low"}, flags...)...).code)
	require.Equal(t, 0, call(t, append([]string{"submit", "k", "--file", file(t, "three\n"), "--lane", "low"}, flags...)...).code)
	require.Equal(t, 0, call(t, append([]string{"submit", "k", "--lane", "low"}, flags...)...).code)
	var bodies []string
	for _, r := range c.Records(t, "orders.lane.low") {
		bodies = append(bodies, string(r.Value))
	}
	require.ElementsMatch(t, []string{"one\n", "two\n", "three\n", ""}, bodies)
}

func TestATaskThatTheDomainRefusesIsBadUsage(t *testing.T) {
	t.Parallel()
	_, flags := provisioned(t)
	got := call(t, append([]string{"submit", "k", "--lane", "fast"}, flags...)...)
	require.Equal(t, 2, got.code)
	require.Contains(t, got.err, "want one of critical, high, normal, low")
	got = callWith(t, strings.Repeat("x", 1<<20), append([]string{"submit", "k", "-", "--json"}, flags...)...)
	require.Equal(t, 2, got.code)
	require.Contains(t, got.object(t)["error"], "payload too large")
}

func TestAMissingTopicSaysHowToProvision(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	for _, args := range [][]string{{"mover"}, {"submit", "k"}} {
		got := call(t, append(args, "--spec", file(t, orders), "--kafka", c.Addrs()[0], "--json")...)
		require.Equal(t, 1, got.code)
		require.Contains(t, got.object(t)["error"], "ax topics apply")
	}
}

func TestAMoverMovesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	c, flags := provisioned(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	l, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	admin := l.Addr().String()
	require.NoError(t, l.Close())
	var out, log bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"ax", "mover", "--trim", "--health", address, "--admin", admin, "--log-format", "json", "--json"}, flags...), nil, &out, &log)
	}()
	require.Equal(t, 0, call(t, append([]string{"submit", "k", "moved", "--after", "300ms"}, flags...)...).code)

	reader := c.Client(t, kgo.ConsumeTopics("orders.lane.normal"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	within, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	fs := reader.PollFetches(within)
	require.NoError(t, fs.Err())
	require.Equal(t, "moved", string(fs.Records()[0].Value))
	for _, path := range []string{address + "/livez", address + "/readyz", admin + "/status"} {
		req, err := http.NewRequestWithContext(within, http.MethodGet, "http://"+path, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
	}

	stop()
	require.Equal(t, 0, <-code, log.String())
	require.Contains(t, log.String(), `"msg":"mover starts"`)
	require.Contains(t, log.String(), `"msg":"mover stopped"`)
	require.Equal(t, "orders", outcome{out: out.String()}.object(t)["domain"])
}

// The one test that takes its time: the whole of ax in three seconds.
func TestTheDemoAccountsForEveryTask(t *testing.T) {
	t.Parallel()
	got := call(t, "demo", "--for", "3s", "--rate", "300", "--json")
	require.Equal(t, 0, got.code, got.err+got.out)
	require.Equal(t, 1, strings.Count(got.out, "\n"), "only the last line")
	o := got.object(t)
	number := func(name string) int { return int(o[name].(float64)) }
	require.Greater(t, number("submitted"), 500)
	require.Positive(t, number("done"))
	require.Equal(t, number("submitted"), number("done")+number("dead")+number("waiting"))
	require.Zero(t, number("lost"))
	require.Zero(t, number("early"))
	for _, name := range []string{"repeats", "late_p50_ms", "late_p99_ms", "seconds", "version"} {
		require.Contains(t, o, name)
	}
	lanes := o["lanes"].(map[string]any)
	require.Len(t, lanes, 4)
	for _, lane := range lanes {
		for _, name := range []string{"done", "wait_p50_ms", "wait_p99_ms"} {
			require.Contains(t, lane, name)
		}
	}
}

func TestTheDemoShowsLinesAndABalanceWhereThereIsNoTerminal(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &untilLine{stop: stop}
	var errs bytes.Buffer
	code := run(ctx, []string{"ax", "demo", "--rate", "100", "--slots", "4", "--kafka", c.Addrs()[0]}, nil, out, &errs)
	require.Equal(t, 0, code, errs.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Contains(t, lines[0], "submitted ")
	require.Contains(t, lines[0], "critical ")
	require.Regexp(t, `^submitted \d+ = done \d+ \+ dead \d+ \+ waiting \d+ ✓$`, lines[len(lines)-1])
	require.NotContains(t, out.String(), "\x1b")
}

// untilLine presses Ctrl-C after the first line.
type untilLine struct {
	bytes.Buffer
	stop func()
}

func (u *untilLine) Write(p []byte) (int, error) {
	u.stop()
	return u.Buffer.Write(p)
}
