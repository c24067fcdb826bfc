//go:build kafka

package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/trim"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

func trimmer(t *testing.T, d ax.Domain) *trim.Trimmer {
	t.Helper()
	r, err := router.New(d)
	require.NoError(t, err)
	opts, watch, err := kafka.Options(d, "trim", nil)
	require.NoError(t, err)
	cl, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return trim.New(r, kadm.NewClient(cl), watch, slog.New(slog.DiscardHandler))
}

// logStart returns where a partition's log begins.
func logStart(t *testing.T, adm *kadm.Client, topic string, partition int32) int64 {
	t.Helper()
	starts, err := adm.ListStartOffsets(t.Context(), topic)
	require.NoError(t, err)
	require.NoError(t, starts.Error())
	o, _ := starts.Lookup(topic, partition)
	return o.Offset
}

// onDisk returns what all replicas of a topic take.
func onDisk(t *testing.T, adm *kadm.Client, topic string) (bytes int64) {
	t.Helper()
	dirs, err := adm.DescribeAllLogDirs(t.Context(), kadm.TopicsSet{topic: {0: {}}})
	require.NoError(t, err)
	dirs.Each(func(d kadm.DescribedLogDir) { bytes += d.Size() })
	return bytes
}

// A worker has done all tasks but one in the middle. The log's start moves to
// that one and the segments before it go from the disks of all replicas; once it
// is done, so does the rest.
func TestTrimmingMovesTheLogsStartToTheCommitAndFreesTheDisk(t *testing.T) {
	t.Parallel()
	const half, payload = 100, 100 << 10
	r := newDomain(t, func(d *ax.Domain) { d.Lanes = []ax.Lane{{Name: "main", Weight: 1, Partitions: 1}} })
	d, adm, topic := r.Domain(), admin(t), r.Lane("main")
	_, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "segment.bytes", Value: kadm.StringPtr("1048576")},
		{Op: kadm.SetConfig, Name: "file.delete.delay.ms", Value: kadm.StringPtr("1000")},
	}, topic)
	require.NoError(t, err)

	release := make(chan struct{})
	mux := consumer.NewMux()
	mux.HandleFunc("job", func(context.Context, *ax.Task) error { return nil })
	mux.HandleFunc("held", func(ctx context.Context, _ *ax.Task) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	w, err := consumer.New(d, mux)
	require.NoError(t, err)
	work(t, w.Run)
	c := client(t, d)
	large := func(n int) []ax.Task {
		tasks := make([]ax.Task, n)
		for i := range tasks {
			tasks[i] = ax.Task{Kind: "job", Payload: make([]byte, payload)}
			_, _ = rand.Read(tasks[i].Payload) // nothing compresses it
		}
		return tasks
	}
	submit(t, c, large(half)...)
	held := submit(t, c, ax.Task{Kind: "held"})[0].Offset
	submit(t, c, large(half)...)
	awaitCommit(t, adm, r.LaneGroup("main"), topic, held, 2*half+1)
	before := onDisk(t, adm, topic)
	require.Greater(t, before, int64(3*2*half*payload*9/10))

	trimmer := trimmer(t, d)
	// freed trims up to an offset and waits until the disk holds no more than
	// the bytes.
	freed := func(at, bytes int64) {
		report, err := trimmer.Once(t.Context())
		require.NoError(t, err)
		require.Positive(t, report.Deleted())
		require.Equal(t, at, logStart(t, adm, topic, 0))
		began := time.Now()
		have := int64(0)
		eventually(t, 30*time.Second, func() (bool, string) {
			have = onDisk(t, adm, topic)
			return have <= bytes, fmt.Sprintf("%d bytes on disk, of %d", have, before)
		})
		t.Logf("start %d: %d of %d bytes are left on the disks of three replicas, %s after the trim", at, have, before, time.Since(began).Round(100*time.Millisecond))
	}
	freed(held, before*6/10)
	require.GreaterOrEqual(t, onDisk(t, adm, topic), before*4/10, "what is behind the held task was deleted")
	again, err := trimmer.Once(t.Context())
	require.NoError(t, err)
	require.Zero(t, again.Deleted(), "a second round has nothing to do")

	close(release)
	awaitEnd(t, adm, r.LaneGroup("main"), topic, 2*half+1)
	// Three replicas of the active segment, which may be full.
	freed(2*half+1, 3*(1<<20))
}

// The user of the secure listener may not delete, and then may not ask a group
// that the domain lists. Nothing is deleted, and delayed tasks go on.
func TestATrimWithoutThePermissionIsHarmless(t *testing.T) {
	t.Parallel()
	r := newDomain(t, func(d *ax.Domain) { d.Lanes = []ax.Lane{{Name: "main", Weight: 1, Partitions: 1}} })
	audit := r.Domain().Name + ".audit"
	d := secure(t, r.Domain(), "SCRAM-SHA-512")
	d.Trim = ax.Trim{Every: time.Second, Groups: []string{audit}}
	adm, topic := admin(t), r.Lane("main")
	user := "User:" + d.Kafka.SASL.User
	permit := func(b *kadm.ACLBuilder) {
		t.Helper()
		got, err := adm.CreateACLs(t.Context(), b.ResourcePatternType(kadm.ACLPatternLiteral))
		require.NoError(t, err)
		for _, acl := range got {
			require.NoError(t, acl.Err, `the brokers need an authorizer: let "make real" start them`)
		}
		t.Cleanup(func() {
			_, err := adm.DeleteACLs(context.Background(), b)
			require.NoError(t, err)
		})
	}
	// Who has a rule is bound by it; without one all is allowed here.
	permit(kadm.NewACLs().Topics(r.Topics()...).Allow(user).AllowHosts("*").Operations(kadm.OpRead, kadm.OpWrite))

	var got journal
	mux := consumer.NewMux()
	mux.HandleFunc("job", got.handle)
	w, err := consumer.New(d, mux)
	require.NoError(t, err)
	var log lines
	m, err := delay.New(d, delay.WithTrim(), delay.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	require.NoError(t, err)
	work(t, w.Run)
	work(t, m.Run)
	c := client(t, d)
	submit(t, c, jobs("now", 10)...)
	for range 5 {
		_, err := c.Submit(t.Context(), ax.Task{Kind: "job"}, producer.After(2500*time.Millisecond))
		require.NoError(t, err)
	}
	eventually(t, 30*time.Second, func() (bool, string) {
		return len(got.list()) == 15, fmt.Sprintf("%d of 15 tasks have run", len(got.list()))
	})
	awaitEnd(t, adm, r.LaneGroup("main"), topic, 15)
	require.NoError(t, commitTo(t, adm, audit, topic, 12, ""))

	trimmer := trimmer(t, d)
	report, err := trimmer.Once(t.Context())
	require.ErrorIs(t, err, ax.ErrAuth)
	require.ErrorContains(t, err, topic+": delete records: TOPIC_AUTHORIZATION_FAILED")
	require.Zero(t, report.Deleted())
	require.Zero(t, logStart(t, adm, topic, 0))
	require.Contains(t, log.text(), "trim failed; nothing is lost")

	// Now it may delete, but the audit's group has a rule that names another.
	permit(kadm.NewACLs().Topics(r.Topics()...).Allow(user).AllowHosts("*").Operations(kadm.OpDelete))
	permit(kadm.NewACLs().Groups(audit).Allow("User:auditor").AllowHosts("*").Operations(kadm.OpRead))
	eventually(t, 10*time.Second, func() (bool, string) {
		report, err = trimmer.Once(t.Context())
		return errors.Is(err, kerr.GroupAuthorizationFailed), fmt.Sprintf("the group may not be asked: %v", err)
	})
	require.Contains(t, report.String(), "group "+audit)

	permit(kadm.NewACLs().Groups(audit).Allow(user).AllowHosts("*").Operations(kadm.OpDescribe))
	eventually(t, 10*time.Second, func() (bool, string) {
		at := logStart(t, adm, topic, 0)
		return at == 12, fmt.Sprintf("the mover has to trim to the audit's commit: the log starts at %d", at)
	})
}
