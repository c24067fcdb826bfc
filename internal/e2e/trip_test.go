//go:build kafka

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

// journal records the starts of handlers.
type journal struct {
	mu     sync.Mutex
	starts []started
}

type started struct {
	ax.Task
	at time.Time
}

func (j *journal) handle(_ context.Context, t *ax.Task) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.starts = append(j.starts, started{*t, time.Now()})
	return nil
}

func (j *journal) list() []started {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]started(nil), j.starts...)
}

// roles runs a worker and a mover for d until the test ends.
func roles(t *testing.T, d ax.Domain, mux *consumer.Mux) {
	t.Helper()
	w, err := consumer.New(d, mux)
	require.NoError(t, err)
	m, err := delay.New(d)
	require.NoError(t, err)
	work(t, w.Run)
	work(t, m.Run)
}

func TestDelaysComeOutRightAndNeverEarly(t *testing.T) {
	t.Parallel()
	r := newDomain(t, nil)
	var got journal
	mux := consumer.NewMux()
	mux.HandleFunc("job", got.handle)
	roles(t, r.Domain(), mux)
	c := client(t, r.Domain())
	due := map[string]time.Time{}
	for i := range 60 {
		// At once, within the lead, near only, a tier exactly, several hops.
		wait := []time.Duration{0, 30 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second, 2100 * time.Millisecond, 5 * time.Second}[i%6]
		receipt, err := c.Submit(t.Context(), ax.Task{Kind: "job", Payload: []byte(wait.String())}, producer.After(wait))
		require.NoError(t, err)
		due[receipt.ID] = receipt.Due
	}
	eventually(t, time.Minute, func() (bool, string) {
		n := len(got.list())
		return n >= len(due), fmt.Sprintf("%d of %d ran", n, len(due))
	})
	var worst time.Duration
	for _, s := range got.list() {
		late := s.at.Sub(due[s.ID])
		require.GreaterOrEqual(t, late, time.Duration(0), "%s", s.Payload)
		worst = max(worst, late)
	}
	require.Len(t, got.list(), len(due))
	t.Logf("worst lateness %s", worst)
}

// The broker stamps what is appended to a tier, so that a leave time that
// somebody claims can't hold up those behind it.
func TestAForgedLeaveTimeHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	r := newDomain(t, func(d *ax.Domain) { d.Delay.Partitions = 1 })
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.Domain().Kafka.Brokers...))
	require.NoError(t, err)
	defer cl.Close()
	head := func(name, value string) kgo.RecordHeader {
		return kgo.RecordHeader{Key: name, Value: []byte(value)}
	}
	forged := &kgo.Record{Topic: r.Tiers()[0].Topic, Headers: []kgo.RecordHeader{
		head(ax.HeaderKind, "job"), head(ax.HeaderID, "forged"), head(ax.HeaderLane, "normal"), head(ax.HeaderLeave, "9999-01-01T00:00:00Z"),
	}}
	require.NoError(t, cl.ProduceSync(t.Context(), forged).FirstErr())
	var got journal
	mux := consumer.NewMux()
	mux.HandleFunc("job", got.handle)
	roles(t, r.Domain(), mux)
	receipt, err := client(t, r.Domain()).Submit(t.Context(), ax.Task{Kind: "job", ID: "behind"}, producer.After(3*time.Second))
	require.NoError(t, err)
	require.Equal(t, r.Tiers()[0].Topic, receipt.Topic)
	eventually(t, 30*time.Second, func() (bool, string) { return len(got.list()) == 2, "both have to run" })
	for _, s := range got.list() {
		if s.ID == "behind" {
			require.False(t, s.at.Before(receipt.Due))
			require.Less(t, s.at.Sub(receipt.Due), 5*time.Second)
		}
	}
}

// Another client, kcat, writes a bare record and reads one of ours.
func TestAnotherClientCanSubmitAndRead(t *testing.T) {
	t.Parallel()
	kcat, err := exec.LookPath("kcat")
	require.NoError(t, err, "this test needs kcat (Debian's package of that name)")
	r := newDomain(t, nil)
	var got journal
	mux := consumer.NewMux()
	mux.HandleFunc("order.close", got.handle)
	roles(t, r.Domain(), mux)
	run := func(in string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), kcat, append([]string{"-q", "-b", os.Getenv("AX_KAFKA")}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "kcat: %s", out)
		return string(out)
	}
	run(`{"order":7}`, "-P", "-t", r.Lane("high"), "-H", "ax-kind=order.close")
	eventually(t, 30*time.Second, func() (bool, string) { return len(got.list()) == 1, "the bare record has to run" })
	task := got.list()[0]
	require.Equal(t, `{"order":7}`, string(task.Payload))
	require.Equal(t, "high", task.Lane)
	require.NotEmpty(t, task.ID)
	require.Equal(t, 1, task.Attempt)

	receipt, err := client(t, r.Domain()).Submit(t.Context(), ax.Task{Kind: "order.close", Payload: []byte("ours"), Lane: "low", Headers: []ax.Header{{Name: "tenant", Value: []byte("acme")}}})
	require.NoError(t, err)
	out := run("", "-C", "-t", receipt.Topic, "-p", fmt.Sprint(receipt.Partition), "-o", fmt.Sprint(receipt.Offset), "-c", "1", "-f", "%h|%s\n")
	require.Contains(t, out, "ax-kind=order.close")
	require.Contains(t, out, "ax-id="+receipt.ID)
	require.Contains(t, out, "ax-lane=low")
	require.Contains(t, out, "tenant=acme")
	require.Contains(t, out, "|ours")
}

func TestPlanApplyPlanAgain(t *testing.T) {
	t.Parallel()
	r, err := router.New(bareDomain())
	require.NoError(t, err)
	adm := admin(t)
	ctx := t.Context()
	plan, err := r.Plan(ctx, adm)
	require.NoError(t, err)
	require.Len(t, plan.Changes, len(r.Topics()), "an empty cluster lacks all topics")
	require.NoError(t, plan.Apply(ctx, adm))
	awaitEverywhere(t, r.Topics())
	t.Cleanup(func() { _, _ = adm.DeleteTopics(context.Background(), r.Topics()...) })
	plan, err = r.Plan(ctx, adm)
	require.NoError(t, err)
	require.Empty(t, plan.Changes)
	require.NoError(t, r.Check(ctx, adm))

	_, err = adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("60000")}}, r.Near())
	require.NoError(t, err)
	_, err = adm.UpdatePartitions(ctx, 9, r.Dead())
	require.NoError(t, err)
	var drift *router.DriftError
	eventually(t, 10*time.Second, func() (bool, string) { // until the broker that is asked knows
		err := r.Check(ctx, adm)
		return errors.As(err, &drift) && len(drift.Changes) == 2 &&
			strings.Contains(err.Error(), "retention.ms 60000") &&
			strings.Contains(err.Error(), r.Dead()+" partitions 9"), fmt.Sprint(err)
	})
	plan, err = r.Plan(ctx, adm)
	require.NoError(t, err)
	require.ErrorAs(t, plan.Apply(ctx, adm), &drift, "partitions can't shrink")
	require.Len(t, drift.Changes, 1)
}
