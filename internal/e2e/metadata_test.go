//go:build kafka

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/offset"
)

// What a commit says beside the offset may be so long and no longer.
func TestABrokerTakesMetadataUpToTheLimitAndNoMore(t *testing.T) {
	t.Parallel()
	r := newDomain(t, nil)
	adm := admin(t)
	try := func(n int) error {
		return commitTo(t, adm, r.LaneGroup("low"), r.Lane("low"), 0, strings.Repeat("x", n))
	}
	var err error
	eventually(t, 30*time.Second, func() (bool, string) { // until the group has a coordinator
		err = try(offset.MaxMetadata)
		return err == nil || errors.Is(err, kerr.OffsetMetadataTooLarge), fmt.Sprint(err)
	})
	require.NoError(t, err)
	require.ErrorIs(t, try(offset.MaxMetadata+1), kerr.OffsetMetadataTooLarge)
}

func commitTo(t *testing.T, adm *kadm.Client, group, topic string, at int64, metadata string) error {
	t.Helper()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, At: at, LeaderEpoch: -1, Metadata: metadata})
	got, err := adm.CommitOffsets(t.Context(), group, os)
	if err != nil {
		return err
	}
	return got.Error()
}

// Of 13,780 tasks every 13th is unfinished, and many of these are noted, so
// that a commit's metadata is as long as it gets. An owner reads it, commits as
// much itself while all that is unfinished works, and the next one reads that:
// each of them runs what is unfinished, and nothing else.
func TestMetadataAtItsLimitIsCommittedAndReadByTheNextOwner(t *testing.T) {
	t.Parallel()
	const n, gap, notes, more = 13_780, 13, 60, 100
	r := newDomain(t, func(d *ax.Domain) { d.Lanes = []ax.Lane{{Name: "main", Weight: 1, Partitions: 1}} })
	d, adm, c := r.Domain(), admin(t), client(t, r.Domain())
	topic, group := r.Lane("main"), r.LaneGroup("main")
	ledger := watchCommits(t, adm, group)
	for i := range n / 1378 {
		submit(t, c, jobs(fmt.Sprintf("batch-%d", i), 1378)...)
	}
	text, finished := scattered(topicID(t, adm, topic), n, gap, notes)
	require.NoError(t, commitTo(t, adm, group, topic, 0, text))

	var log lines
	held := &gathering{release: make(chan struct{})}
	first := work(t, held.worker(t, d, n/gap+slots, &log))
	eventually(t, time.Minute, func() (bool, string) {
		ran := held.count()
		return ran == n/gap && len(ledger.list()) >= 2, fmt.Sprintf("%d of %d tasks run, %d commits", ran, n/gap, len(ledger.list()))
	})
	// What comes now is not read: there is no room left to say what of it is done.
	submit(t, c, jobs("more", more)...)
	first()
	longest := 0
	for _, c := range ledger.list()[1:] {
		longest = max(longest, len(c.metadata))
		m, err := offset.Parse(c.metadata, topicID(t, adm, topic), c.at)
		require.NoError(t, err)
		require.Equal(t, finished, finishedOf(&m, n))
	}
	t.Logf("metadata of %d characters at first, then %d", len(text), longest)
	require.Greater(t, longest, offset.MaxMetadata*9/10)
	require.Equal(t, n/gap, held.count(), "only what was unfinished may run")

	next := &gathering{release: make(chan struct{})}
	close(next.release)
	second := work(t, next.worker(t, d, slots, &log))
	awaitEnd(t, adm, group, topic, n+more)
	second()
	require.Equal(t, n/gap+more, next.count(), "only what was unfinished may run")
	require.NotContains(t, log.text(), "commit")
}

// scattered returns a commit's text in which all of n offsets are finished but
// those that are a multiple of gap, and how many it names as finished.
func scattered(id [16]byte, n, gap int64, notes int) (text string, finished int) {
	var w offset.Window
	for o := range n {
		w.Add(o, 0)
	}
	now := time.Now()
	m := offset.Metadata{Notes: map[int64]offset.Note{}, Life: offset.Life{Crashed: 3, CrashedSince: now}}
	for o := range n {
		switch {
		case o%gap > 0:
			w.Done(o)
		case len(m.Notes) < notes:
			m.Notes[o] = offset.Note{Attempt: 3, Deferrals: 200, Due: now.Add(time.Hour), Since: now}
		}
	}
	text = m.Encode(&w, id)
	parsed, _ := offset.Parse(text, id, 0)
	return text, finishedOf(&parsed, n)
}

func finishedOf(m *offset.Metadata, n int64) (finished int) {
	for o := range n {
		if m.Finished.Has(o, -1) {
			finished++
		}
	}
	return finished
}

// gathering is tasks that work until they are released, or stopped.
type gathering struct {
	release chan struct{}
	mu      sync.Mutex
	runs    int
}

func (g *gathering) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.runs
}

func (g *gathering) worker(t *testing.T, d ax.Domain, slots int, log *lines) func(context.Context) error {
	t.Helper()
	mux := consumer.NewMux()
	mux.HandleFunc("job", func(ctx context.Context, _ *ax.Task) error {
		g.mu.Lock()
		g.runs++
		g.mu.Unlock()
		select {
		case <-g.release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	w, err := consumer.New(d, mux, consumer.WithSlots(slots), consumer.WithGrace(time.Second),
		consumer.WithLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	require.NoError(t, err)
	return w.Run
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
