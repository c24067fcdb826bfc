package demo

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// The scan behind the commits, and with it the judgement, on a real protocol:
// what is behind a commit waits, what is before it and not done is lost.
func TestTheScanFindsWhatWaitsAndTheBalanceWhatIsLost(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r := c.Provision(t, domain(ax.Kafka{}, 1))
	a := newAccount("run", r.Domain().Lanes)
	client, err := producer.New(r.Domain(), producer.WithKafka(c.Opts()...))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(context.Background())) }()
	submit := func(n uint64, kind string, lane string, opts ...producer.SubmitOption) ax.Receipt {
		a.submit(n, lane, queued)
		got, err := client.Submit(t.Context(), ax.Task{Kind: kind, ID: a.id(n), Key: "k"}, opts...)
		require.NoError(t, err)
		a.answered(n, nil)
		return got
	}
	first := submit(1, kindExport, "low")
	submit(2, kindExport, "low")
	submit(3, kindReminder, "high", producer.After(8*time.Second))
	near := submit(4, kindReminder, "high", producer.After(time.Second))
	submit(5, kindAlert, "critical")
	_, err = client.Submit(t.Context(), ax.Task{Kind: kindExport, ID: "another-1"})
	require.NoError(t, err)
	require.NoError(t, c.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: r.Lane("low"), Value: []byte("no task")}).FirstErr())

	adm := c.Admin(t)
	scan := func() Summary {
		found, err := waiting(t.Context(), c.Opts(), adm, r, a)
		require.NoError(t, err)
		return a.judge(found)
	}
	require.NoError(t, scan().Err())
	require.Equal(t, 5, scan().Waiting)

	commit := func(group string, at ax.Receipt) {
		offsets := kadm.Offsets{}
		offsets.AddOffset(at.Topic, at.Partition, at.Offset+1, -1)
		require.NoError(t, adm.CommitAllOffsets(t.Context(), group, offsets))
	}
	commit(r.LaneGroup("low"), first)
	commit(r.NearGroup(), near)
	a.finish(1, endedDone)
	s := scan()
	require.Equal(t, []int{5, 1, 3, 1}, []int{s.Submitted, s.Done, s.Waiting, s.Lost})
	require.Equal(t, []string{"run-4"}, s.LostIDs)
	require.Error(t, s.Err())
}

func TestATailReadsEachRecordOnce(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r := c.Provision(t, domain(ax.Kafka{}, 1))
	cl, adm := c.Client(t), c.Admin(t)
	put := func(values ...string) {
		for _, v := range values {
			require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: r.Dead(), Key: []byte(v), Value: []byte(v)}).FirstErr())
		}
	}
	put("before")
	from, err := ends(t.Context(), adm, r.Dead())
	require.NoError(t, err)
	tl, err := newTail(c.Opts(), from)
	require.NoError(t, err)
	defer tl.close()
	read := func() (got []string) {
		require.NoError(t, tl.read(t.Context(), func(rec *kgo.Record) { got = append(got, string(rec.Value)) }))
		return got
	}
	require.Empty(t, read())
	put("a", "b", "c")
	require.ElementsMatch(t, []string{"a", "b", "c"}, read())
	require.Empty(t, read())
	put("d")
	require.Equal(t, []string{"d"}, read())
}

func TestTwoDemosDoNotShareACluster(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r := c.Provision(t, domain(ax.Kafka{}, 1))
	c.Client(t, kgo.ConsumerGroup(r.LaneGroup("low")), kgo.ConsumeTopics(r.Lane("low")))
	within, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := c.Kfake().WaitGroupStable(within, r.LaneGroup("low"), 1)
	require.NoError(t, err)
	_, err = Run(t.Context(), Config{Kafka: ax.Kafka{Brokers: c.Addrs()}, Rate: 1, Slots: 1})
	require.ErrorContains(t, err, "another demo runs on this cluster")
}

func TestRunRefusesAnImpossibleConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Rate: 0, Slots: 1}, {Rate: 1, Slots: 0}} {
		_, err := Run(t.Context(), cfg)
		require.ErrorContains(t, err, "want at least 1 of each")
	}
}
