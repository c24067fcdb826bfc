package router_test

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/router"
)

// small is a domain of few topics, and of lanes of each sort.
func small() ax.Domain {
	return ax.Domain{
		Name: "orders",
		Lanes: []ax.Lane{
			{Name: "plain", Weight: 2, Partitions: 2},
			{Name: "keyed", Weight: 1, Partitions: 2, Order: ax.OrderKey},
			{Name: "limited", Weight: 1, Partitions: 2, Limit: 4},
		},
		Delay: ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}, Partitions: 2, NearPartitions: 2, Rate: 1000},
	}
}

func mustPlan(t *testing.T, r *router.Router, adm *kadm.Client) *router.Plan {
	t.Helper()
	p, err := r.Plan(t.Context(), adm)
	require.NoError(t, err)
	return p
}

func changes(p *router.Plan) []string {
	out := []string{}
	for _, c := range p.Changes {
		out = append(out, c.String())
	}
	return out
}

// existing returns all topics of the cluster. It wants a fresh client: one that
// asked for a missing topic by name goes on listing it.
func existing(t *testing.T, adm *kadm.Client) kadm.TopicDetails {
	t.Helper()
	topics, err := adm.ListTopics(t.Context())
	require.NoError(t, err)
	return topics
}

func requireDrift(t *testing.T, err error) []router.Change {
	t.Helper()
	drift, ok := errors.AsType[*router.DriftError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "orders", drift.Domain)
	require.ErrorContains(t, err, drift.Changes[0].Topic)
	return drift.Changes
}

func configs(t *testing.T, adm *kadm.Client, topic string) map[string]string {
	t.Helper()
	all, err := adm.DescribeTopicConfigs(t.Context(), topic)
	require.NoError(t, err)
	rc, err := all.On(topic, nil)
	require.NoError(t, err)
	out := map[string]string{}
	for _, c := range rc.Configs {
		out[c.Key] = c.MaybeValue()
	}
	return out
}

func TestPlanOfAnEmptyClusterCreatesAllAndThenNothing(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t, fakekafka.Brokers(3))
	adm, r := c.Admin(t), newRouter(t, small())

	p := mustPlan(t, r, adm)
	require.Equal(t, []string{
		"create orders.lane.plain (2 partitions, replication 3)",
		"create orders.lane.keyed (2 partitions, replication 3)",
		"create orders.lane.limited (2 partitions, replication 3)",
		"create orders.delay.5s (2 partitions, replication 3)",
		"create orders.delay.1m (2 partitions, replication 3)",
		"create orders.delay.near (2 partitions, replication 3)",
		"create orders.dead (3 partitions, replication 3)",
	}, changes(p))
	require.Empty(t, existing(t, c.Admin(t)), "a plan changes nothing")
	require.Len(t, requireDrift(t, r.Check(t.Context(), adm)), 7)

	require.NoError(t, p.Apply(t.Context(), adm))
	require.True(t, mustPlan(t, r, adm).Empty())
	require.NoError(t, r.Check(t.Context(), adm))
	require.NoError(t, p.Apply(t.Context(), adm), "the same plan again")
}

func TestTopicsHaveTheSettingsOfTheirRole(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t, fakekafka.Brokers(3))
	d := small()
	d.MaxPayload = 1 << 20
	d.Retention.Tasks = 30 * day
	r, adm := c.Provision(t, d), c.Admin(t)
	tasks := strconv.Itoa(int((30 * day).Milliseconds()))
	for topic, want := range map[string]map[string]string{
		r.Lane("plain"):    {"cleanup.policy": "delete", "retention.ms": tasks},
		r.Tiers()[0].Topic: {"cleanup.policy": "delete", "retention.ms": tasks, "message.timestamp.type": "LogAppendTime"},
		r.Near():           {"cleanup.policy": "delete", "retention.ms": tasks, "message.timestamp.type": "LogAppendTime"},
		r.Dead():           {"cleanup.policy": "compact", "retention.ms": "-1", "max.compaction.lag.ms": "86400000"},
	} {
		have := configs(t, adm, topic)
		want["min.insync.replicas"], want["retention.bytes"] = "2", "-1"
		for key, value := range want {
			require.Equal(t, value, have[key], "%s %s", topic, key)
		}
		largest, err := strconv.Atoi(have["max.message.bytes"])
		require.NoError(t, err)
		require.Greater(t, largest, 1<<20)
	}
	require.NotEqual(t, "LogAppendTime", configs(t, adm, r.Lane("plain"))["message.timestamp.type"])
}

func TestFastDomainAsksForOneReplica(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r := c.Provision(t, small())
	require.Equal(t, "1", configs(t, c.Admin(t), r.Near())["min.insync.replicas"])
}

func TestTwoAppliesAtOnceBothSucceed(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t, fakekafka.Brokers(3))
	r := newRouter(t, small())
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		adm := c.Admin(t)
		p := mustPlan(t, r, adm)
		wg.Go(func() { errs[i] = p.Apply(t.Context(), adm) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, r.Check(t.Context(), c.Admin(t)))
}

func TestHandChangedSettingShowsAsDriftAndIsSetBack(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r, adm := c.Provision(t, small()), c.Admin(t)
	_, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("60000")},
		{Op: kadm.SetConfig, Name: "compression.type", Value: kadm.StringPtr("zstd")}, // the operator's own
	}, r.Lane("plain"), r.Dead())
	require.NoError(t, err)
	_, err = adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "message.timestamp.type", Value: kadm.StringPtr("CreateTime")},
	}, r.Near())
	require.NoError(t, err)

	p := mustPlan(t, r, adm)
	require.Equal(t, []string{
		"set    orders.lane.plain retention.ms 60000 → -1",
		"set    orders.delay.near message.timestamp.type CreateTime → LogAppendTime",
		"set    orders.dead retention.ms 60000 → -1",
	}, changes(p))
	require.Len(t, requireDrift(t, r.Check(t.Context(), adm)), 3)
	require.NoError(t, p.Apply(t.Context(), adm))
	require.True(t, mustPlan(t, r, adm).Empty())
	require.Equal(t, "zstd", configs(t, adm, r.Dead())["compression.type"])
}

func TestMorePartitionsThanTheDomainAreRefused(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r, adm := c.Provision(t, small()), c.Admin(t)
	_, err := adm.UpdatePartitions(t.Context(), 5, r.Near())
	require.NoError(t, err)

	p := mustPlan(t, r, adm)
	require.Len(t, p.Refused(), 1)
	for _, err := range []error{r.Check(t.Context(), adm), p.Apply(t.Context(), adm)} {
		got := requireDrift(t, err)
		require.Equal(t, []router.Change{{
			Action: router.Refuse, Topic: r.Near(), What: "partitions", From: "5", To: "2",
			Reason: "partitions can't shrink; raise the number in the domain",
		}}, got)
	}
}

func TestFewerPartitionsThanTheDomainGrow(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	c.Provision(t, small())
	d := small()
	d.Lanes[0].Partitions, d.Delay.Partitions = 7, 4
	adm, r := c.Admin(t), newRouter(t, c.Domain(d))
	p := mustPlan(t, r, adm)
	require.Equal(t, []string{
		"grow   orders.lane.plain partitions 2 → 7",
		"grow   orders.delay.5s partitions 2 → 4",
		"grow   orders.delay.1m partitions 2 → 4",
	}, changes(p))
	require.NoError(t, p.Apply(t.Context(), adm))
	require.NoError(t, r.Check(t.Context(), adm))
}

func TestKeyedAndLimitedLanesGrowOnlyWhenDrained(t *testing.T) {
	t.Parallel()
	for i, lane := range []string{"keyed", "limited"} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			c := fakekafka.Start(t)
			d := small()
			old := c.Provision(t, d)
			d.Lanes[i+1].Partitions = 4
			adm, r := c.Admin(t), newRouter(t, c.Domain(d))
			topic, group := old.Lane(lane), old.LaneGroup(lane)
			rec := &kgo.Record{Topic: topic, Value: []byte("x")}
			cl := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			require.NoError(t, cl.ProduceSync(t.Context(), rec, &kgo.Record{Topic: topic, Value: []byte("y")}).FirstErr())

			refused := func(why string) {
				t.Helper()
				p := mustPlan(t, r, adm)
				require.Len(t, p.Changes, 1)
				require.Equal(t, router.Refuse, p.Changes[0].Action, why)
				require.ErrorContains(t, p.Apply(t.Context(), adm), "drained")
				require.Len(t, mustDetails(t, adm, topic).Partitions, 2)
			}
			refused("no commit at all")
			commit := func(at int64) {
				offsets := kadm.Offsets{}
				offsets.AddOffset(topic, 0, at, -1)
				require.NoError(t, adm.CommitAllOffsets(t.Context(), group, offsets))
			}
			commit(1)
			refused("one of two done")
			commit(2)
			p := mustPlan(t, r, adm)
			require.Equal(t, []string{"grow   " + topic + " partitions 2 → 4"}, changes(p))
			require.NoError(t, p.Apply(t.Context(), adm))
			require.Len(t, mustDetails(t, adm, topic).Partitions, 4)
		})
	}
}

func mustDetails(t *testing.T, adm *kadm.Client, topic string) kadm.TopicDetail {
	t.Helper()
	all, err := adm.ListTopics(t.Context(), topic)
	require.NoError(t, err)
	require.NoError(t, all.Error())
	return all[topic]
}

func TestLaneTrimmedToItsEndCountsAsDrained(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	d := small()
	old := c.Provision(t, d)
	topic := old.Lane("keyed")
	require.NoError(t, c.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr())
	adm := c.Admin(t)
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	_, err = adm.DeleteRecords(t.Context(), ends.Offsets())
	require.NoError(t, err)
	d.Lanes[1].Partitions = 3
	p := mustPlan(t, newRouter(t, c.Domain(d)), adm)
	require.Equal(t, []string{"grow   orders.lane.keyed partitions 2 → 3"}, changes(p))
}

func TestReplicationAboveTheBrokersNamesBoth(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r, adm := newRouter(t, small()), c.Admin(t)
	for _, err := range []error{r.Check(t.Context(), adm), func() error { _, err := r.Plan(t.Context(), adm); return err }()} {
		require.ErrorIs(t, err, ax.ErrInvalid)
		fault, ok := errors.AsType[*ax.FieldError](err)
		require.True(t, ok)
		require.Equal(t, "replication", fault.Path)
		require.Equal(t, "3", fault.Value)
		require.ErrorContains(t, err, "1 brokers")
	}
}

func TestOtherReplicationIsRefused(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t, fakekafka.Brokers(3))
	d := small()
	d.Replication = 2
	c.Provision(t, d)
	p := mustPlan(t, newRouter(t, small()), c.Admin(t))
	require.Len(t, p.Refused(), 7)
	require.Equal(t, "replication", p.Refused()[0].What)
}

// K63: provisioning once made topics beside its own, with the wrong shape.
// Topics that look like the domain's, and an operator's own, stay untouched.
func TestTopicsOutsideTheDomainAreNeverTouched(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t, fakekafka.With(kfake.AllowAutoTopicCreation()))
	adm := c.Admin(t)
	foreign := []string{"orders", "orders.lane.old", "orders.delay.7m", "payments.dead"}
	for _, topic := range foreign {
		_, err := adm.CreateTopic(t.Context(), 9, 1, map[string]*string{"retention.ms": kadm.StringPtr("777")}, topic)
		require.NoError(t, err)
	}
	r := c.Provision(t, small())
	require.NoError(t, r.Check(t.Context(), adm))

	topics := existing(t, c.Admin(t))
	require.ElementsMatch(t, append(r.Topics(), foreign...), slices.Collect(maps.Keys(topics)))
	for _, topic := range foreign {
		require.Len(t, topics[topic].Partitions, 9)
		require.Equal(t, "777", configs(t, adm, topic)["retention.ms"])
	}
}

// K66: between plan and apply somebody else makes the topic, in another shape.
// "Exists already" is no success then.
func TestTopicMadeMeanwhileInAnotherShapeIsReported(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		adm, r := c.Admin(t), newRouter(t, c.Domain(small()))
		p := mustPlan(t, r, adm)
		_, err := adm.CreateTopic(t.Context(), 1, 1, nil, r.Near())
		require.NoError(t, err)
		got := requireDrift(t, p.Apply(t.Context(), adm))
		require.Equal(t, router.Grow, got[0].Action)
		require.Equal(t, r.Near(), got[0].Topic)

		require.NoError(t, mustPlan(t, r, adm).Apply(t.Context(), adm), "a new plan mends it")
	})
}

// K66: on a real cluster a create returns before every broker has heard of the
// topic, and each question may reach another broker: the one that is asked for
// the settings knows less than the one that named the leaders.
func TestApplyWaitsForBrokersThatHeardNothingYet(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		adm, r := c.Admin(t), newRouter(t, c.Domain(small()))
		p := mustPlan(t, r, adm)
		began := time.Now()
		c.Kfake().Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: r.Dead(), Err: kerr.UnknownTopicOrPartition, Count: -1,
			When: func(kmsg.Request) bool { return time.Since(began) < 3*time.Second },
		})
		require.NoError(t, p.Apply(t.Context(), adm))
		require.InDelta(t, 3, time.Since(began).Seconds(), 0.2)
	})
}

// A client with default options answers for 5 s from what it remembers.
func TestApplySucceedsWithAClientThatRemembers(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		r := newRouter(t, c.Domain(small()))
		adm := kadm.NewClient(c.Client(t, kgo.MetadataMinAge(5*time.Second)))
		began := time.Now()
		require.NoError(t, mustPlan(t, r, adm).Apply(t.Context(), adm))
		t.Log("applied in", time.Since(began))
		d := small()
		d.Lanes[0].Partitions = 7
		more := newRouter(t, c.Domain(d))
		require.NoError(t, mustPlan(t, more, adm).Apply(t.Context(), adm))
		t.Log("and grown at", time.Since(began))
	})
}

func TestCheckChangesNothing(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r := newRouter(t, c.Domain(small()))
	writes := c.Kfake().Fault(kfake.Fault{
		Keys:    []kmsg.Key{kmsg.CreateTopics, kmsg.CreatePartitions, kmsg.IncrementalAlterConfigs, kmsg.AlterConfigs, kmsg.DeleteTopics},
		Observe: true, Count: -1,
	})
	requireDrift(t, r.Check(t.Context(), c.Admin(t)))
	require.Zero(t, writes.Hits())
}

func TestApplyNamesTheChangeThatFailed(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r, adm := newRouter(t, c.Domain(small())), c.Admin(t)
	c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: r.Near(), Err: kerr.PolicyViolation})
	err := mustPlan(t, r, adm).Apply(t.Context(), adm)
	require.ErrorIs(t, err, kerr.PolicyViolation)
	require.ErrorContains(t, err, "create orders.delay.near")
	require.NoError(t, mustPlan(t, r, adm).Apply(t.Context(), adm), "a second run goes on where the first stopped")
}
