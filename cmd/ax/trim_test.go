package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/fakekafka"
)

// submitted puts tasks into the lane and commits as many of them.
func submitted(t *testing.T, c *fakekafka.Cluster, flags []string, lane string, n, committed int) {
	t.Helper()
	adm := c.Admin(t)
	for range n {
		got := call(t, append([]string{"submit", "k", "--lane", lane, "--key", "same"}, flags...)...)
		require.Equal(t, 0, got.code, got.err)
	}
	ends, err := adm.ListEndOffsets(t.Context(), "orders.lane."+lane)
	require.NoError(t, err)
	os := kadm.Offsets{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			os.AddOffset(o.Topic, o.Partition, int64(committed), -1)
		}
	})
	require.NoError(t, adm.CommitAllOffsets(t.Context(), "orders.worker."+lane, os))
}

func starts(t *testing.T, c *fakekafka.Cluster, topic string) (n int64) {
	t.Helper()
	for _, p := range c.Kfake().PartitionInfos(topic) {
		n += p.LogStartOffset
	}
	return n
}

func TestTrimOnceSaysWhatWasDeletedAndWhatWasNot(t *testing.T) {
	t.Parallel()
	c, flags := provisioned(t)
	submitted(t, c, flags, "high", 5, 3)
	require.Equal(t, 0, call(t, append([]string{"submit", "k", "--lane", "low"}, flags...)...).code)
	once := func(more ...string) outcome {
		return call(t, append(append([]string{"trim", "--once"}, flags...), more...)...)
	}
	got := once()
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `^orders.lane.high: 3 records deleted\norders.lane.low/\d: kept: group orders.worker.low: it has committed nothing\n$`, got.out)
	require.EqualValues(t, 3, starts(t, c, "orders.lane.high"))
	require.Regexp(t, `kept.*\nnothing deleted\n$`, once().out)

	o := once("--json").object(t)
	require.Equal(t, "orders", o["domain"])
	require.EqualValues(t, 0, o["deleted"])
	require.NotContains(t, o, "error")
	low := o["topics"].([]any)[0].(map[string]any)
	require.Equal(t, "orders.lane.low", low["topic"])
	blocked := low["blocked"].([]any)[0].(map[string]any)
	require.Equal(t, "orders.worker.low", blocked["group"])
	require.Equal(t, "it has committed nothing", blocked["reason"])
	require.Len(t, blocked["partitions"], 1)
}

func TestTrimOnceFailsWhereItIsRefusedAndSaysWhatItDid(t *testing.T) {
	t.Parallel()
	c, flags := provisioned(t)
	submitted(t, c, flags, "high", 5, 3)
	submitted(t, c, flags, "low", 5, 2)
	c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Topic: "orders.lane.low", Err: kerr.TopicAuthorizationFailed, Count: -1})
	got := call(t, append([]string{"trim", "--once", "--json"}, flags...)...)
	require.Equal(t, 1, got.code)
	require.Empty(t, got.err)
	o := got.object(t)
	require.EqualValues(t, 3, o["deleted"])
	require.Contains(t, o["error"], "orders.lane.low: delete records: TOPIC_AUTHORIZATION_FAILED")
	require.Len(t, o["topics"], 2)

	got = call(t, append([]string{"trim", "--once"}, flags...)...)
	require.Equal(t, 1, got.code)
	require.Contains(t, got.out, "nothing deleted")
	require.Contains(t, got.err, "TOPIC_AUTHORIZATION_FAILED")
}

func TestTrimWithoutABrokerFailsAtOnce(t *testing.T) {
	t.Parallel()
	for _, more := range [][]string{nil, {"--once"}} {
		got := call(t, append([]string{"trim", "--json", "--spec", file(t, orders), "--kafka", "127.0.0.1:1"}, more...)...)
		require.Equal(t, 1, got.code)
		require.Contains(t, got.object(t)["error"], "no broker reachable")
	}
}

func TestTrimWaitsForTheGroupsOfTheFile(t *testing.T) {
	t.Parallel()
	c, flags := provisioned(t)
	submitted(t, c, flags, "high", 5, 3)
	flags = []string{"--spec", file(t, orders+"trim: {every: 10s, groups: [audit]}\n"), "--kafka", c.Addrs()[0]}
	got := call(t, append([]string{"trim", "--once"}, flags...)...)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.out, "group audit: it has committed nothing\nnothing deleted\n")
}

func TestTrimRunsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	c, flags := provisioned(t)
	submitted(t, c, flags, "high", 5, 3)
	flags = []string{"--spec", file(t, orders+"trim: {every: 1s}\n"), "--kafka", c.Addrs()[0]}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, log bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"ax", "trim", "--log-format", "json", "--json"}, flags...), nil, &out, &log)
	}()
	deleted := func(n int64) {
		require.Eventually(t, func() bool { return starts(t, c, "orders.lane.high") == n }, 20*time.Second, 20*time.Millisecond)
	}
	deleted(3)
	submitted(t, c, flags, "high", 1, 6)
	deleted(6)
	stop()
	require.Equal(t, 0, <-code, log.String())
	require.Contains(t, log.String(), `"msg":"trim starts"`)
	require.Contains(t, log.String(), `"msg":"trim stopped"`)
	require.Equal(t, "orders", outcome{out: out.String()}.object(t)["domain"])
}
