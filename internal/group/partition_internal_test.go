package group

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/offset"
)

var topicID = [16]byte{7}

// assign returns an assignment whose last commit says text, by a member that
// talks to nobody.
func assign(t *testing.T, at int64, text string, now time.Time) *Partition {
	t.Helper()
	m := &Member{cfg: Config{MaxUnfinished: 1000, Exact: true, Quarantine: true}, dirty: make(chan struct{}, 1)}
	m.alive.began, m.alive.session = now, 6*time.Second
	_, cancel := context.WithCancelCause(t.Context())
	p := &Partition{Topic: "t", member: m, cancel: cancel, topicID: topicID, base: -1, from: -1, life: life{on: true}}
	if at >= 0 {
		require.NoError(t, p.fetched(at, -1, text, now))
	}
	return p
}

func records(epoch int32, from, to int64) *kgo.FetchPartition {
	f := &kgo.FetchPartition{HighWatermark: to}
	for o := from; o < to; o++ {
		f.Records = append(f.Records, &kgo.Record{Topic: "t", Offset: o, LeaderEpoch: epoch})
	}
	return f
}

func readBy(p *Partition, f *kgo.FetchPartition) (map[int64]Ticket, news) {
	todo, ts, n := p.add(f)
	got := map[int64]Ticket{}
	for i, r := range todo {
		p.Start()
		got[r.Offset] = ts[i]
	}
	return got, n
}

// commit returns what a commit would say.
func commitOf(t *testing.T, p *Partition, leaving bool) (int64, string) {
	t.Helper()
	p.dirty = true
	pos, ok := p.position(leaving)
	require.True(t, ok)
	p.committed(pos)
	return pos.at.Offset, pos.metadata
}

// An unclean election cut the log behind a task that is still at work: the
// records that take the place of those that are gone are new ones, and the
// commit must not pass the one at work.
func TestACutOfTheLogForgetsWhatIsGoneAndNothingElse(t *testing.T) {
	t.Parallel()
	p := assign(t, 0, "", time.Now())
	got, _ := readBy(p, records(1, 0, 100))
	for o, ticket := range got {
		if o != 20 && o != 60 {
			p.Done(ticket)
		}
	}
	at, _ := commitOf(t, p, false)
	require.Equal(t, int64(20), at)
	again, n := readBy(p, records(2, 50, 80))
	require.True(t, n.backwards)
	require.Len(t, again, 30, "a record that took the place of another was skipped")
	at, _ = commitOf(t, p, false)
	require.Equal(t, int64(20), at, "the commit passes a task at work")
	p.Done(got[60]) // of a record that is gone
	require.True(t, p.Open(again[60]))
	for _, ticket := range again {
		p.Done(ticket)
	}
	at, text := commitOf(t, p, false)
	require.Equal(t, int64(20), at)
	m, err := offset.Parse(text, topicID, 20)
	require.NoError(t, err)
	require.True(t, m.Finished.Has(79, 2))
	require.False(t, m.Finished.Has(80, 2))
	p.Done(got[20])
	at, _ = commitOf(t, p, false)
	require.Equal(t, int64(80), at)
}

// The client may find the log cut without reading an offset twice.
func TestALossThatTheClientReportsForgetsWhatIsGone(t *testing.T) {
	t.Parallel()
	p := assign(t, 0, "", time.Now())
	got, _ := readBy(p, records(1, 0, 100))
	for o, ticket := range got {
		if o != 20 {
			p.Done(ticket)
		}
	}
	p.lost(50)
	_, text := commitOf(t, p, false)
	m, err := offset.Parse(text, topicID, 20)
	require.NoError(t, err)
	require.True(t, m.Finished.Has(49, 1))
	require.False(t, m.Finished.Has(50, 1))
}

// Other records under the offsets that a commit calls finished are worked.
func TestRecordsOfANewerEpochAreNotSkipped(t *testing.T) {
	t.Parallel()
	p := assign(t, 0, "", time.Now())
	got, _ := readBy(p, records(1, 0, 100))
	for o, ticket := range got {
		if o > 0 {
			p.Done(ticket)
		}
	}
	at, text := commitOf(t, p, true)
	again, _ := readBy(assign(t, at, text, time.Now()), records(1, 0, 100))
	require.Len(t, again, 1)
	again, _ = readBy(assign(t, at, text, time.Now()), records(2, 0, 100))
	require.Len(t, again, 100)
}

// die hands a partition from one owner, which died, to the next.
func die(t *testing.T, p *Partition, now time.Time) *Partition {
	t.Helper()
	at, text := commitOf(t, p, false)
	return assign(t, at, text, now)
}

func TestOwnersThatDieWithoutGettingOnLetTheirTasksBeSuspected(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := assign(t, 0, "", now)
	for i := range quarantineAfter {
		require.False(t, p.Alert(), "after %d", i)
		readBy(p, records(1, 0, 10))
		now = now.Add(10 * time.Second)
		p = die(t, p, now)
	}
	require.True(t, p.Alert())
	got, _ := readBy(p, records(1, 0, 300))
	require.Equal(t, Alone, p.Verdict(got[3]))
	require.Equal(t, Free, p.Verdict(got[suspects]), "what can't have been at work is not suspected")
	// One that gets on is not suspected.
	for o := range int64(suspects) {
		p.Done(got[o])
	}
	require.False(t, p.Alert())
	// A clean end clears all.
	at, text := commitOf(t, p, true)
	m, err := offset.Parse(text, topicID, at)
	require.NoError(t, err)
	require.False(t, m.Life.Open)
	require.Zero(t, m.Life.TakeOvers)
}

func TestOwnersThatDieButGetOnSuspectNothing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := assign(t, 0, "", now)
	for i := range int64(20) {
		got, _ := readBy(p, records(1, i, i+10))
		p.Done(got[i])
		p = die(t, p, now)
		require.False(t, p.Alert())
	}
}

// suspected returns a partition whose records are suspected, and its records.
func suspected(t *testing.T, now time.Time) (*Partition, map[int64]Ticket) {
	t.Helper()
	p := assign(t, 0, "", now)
	for range quarantineAfter {
		readBy(p, records(1, 0, 10))
		p = die(t, p, now)
	}
	got, _ := readBy(p, records(1, 0, 10))
	return p, got
}

func TestASuspectIsClearedWhenItsProcessDiesWithoutIt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p, got := suspected(t, now)
	for i := range 3 {
		p.mark(got[4], offset.MarkRun, now)
		now = now.Add(8 * time.Second)
		p = die(t, p, now)
		got, _ = readBy(p, records(1, 0, 10))
		require.Equal(t, Probe, p.Verdict(got[4]))
		require.Equal(t, Behind, p.Verdict(got[3]), "the others wait for the marked one")
		require.Equal(t, 1, p.Deaths(), "round %d", i)
		p.mark(got[4], offset.MarkProbe, now)
		now = now.Add(8 * time.Second)
		p = die(t, p, now)
		got, _ = readBy(p, records(1, 0, 10))
		require.Equal(t, Alone, p.Verdict(got[4]))
		require.Zero(t, p.Deaths())
		require.Equal(t, i+1, p.life.l.Cleared)
	}
}

func TestASuspectIsGuiltyOnlyBeyondDoubt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p, got := suspected(t, now)
	for i := range 20 {
		p.mark(got[4], offset.MarkRun, now)
		now = now.Add(6*time.Second + 100*time.Millisecond)
		p = die(t, p, now)
		p.member.alive.began = now
		got, _ = readBy(p, records(1, 0, 10))
		if p.Verdict(got[4]) == Guilty {
			require.GreaterOrEqual(t, i+1, guiltyAfter)
			require.LessOrEqual(t, i+1, guiltyAfter+2)
			require.True(t, p.Crashed(now))
			return
		}
		require.Equal(t, Probe, p.Verdict(got[4]))
		p.mark(got[4], offset.MarkProbe, now)
		now = now.Add(p.Probation())
		require.Equal(t, Alone, p.Verdict(got[4]), "it was kept for long enough")
	}
	t.Fatal("it never is")
}

// Whatever kills processes at a certain age meets what is run at that age.
func TestWhatDiesAtACertainAgeOfItsProcessIsNotGuilty(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p, got := suspected(t, now)
	const age = 20 * time.Second
	state := offset.MarkRun
	for i := range 100 {
		born := now
		p.member.alive.began = born
		if i == 0 {
			now = born.Add(age - time.Second) // its turn comes late
		}
		p.mark(got[4], state, now)
		for state == offset.MarkProbe && now.Add(p.Probation()).Sub(born) < age {
			now = now.Add(p.Probation())
			state = offset.MarkRun
			p.mark(got[4], state, now)
		}
		now = born.Add(age + 6*time.Second)
		p = die(t, p, now)
		got, _ = readBy(p, records(1, 0, 10))
		v := p.Verdict(got[4])
		require.NotEqual(t, Guilty, v)
		if state = offset.MarkRun; v == Probe {
			state = offset.MarkProbe
		}
	}
}

// Processes that are killed at random, again and again, and a task that needs
// longer than most of them live: hardly ever is it taken for the cause.
func TestWhatIsAtWorkAtRandomKillsIsNotGuilty(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	const trials = 400
	guilty := 0
	for range trials {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		p, got := suspected(t, now)
	kills:
		for range 60 {
			born := now
			dies := born.Add(time.Duration(dice.ExpFloat64() * float64(15*time.Second)))
			p.member.alive.began = born
			switch p.Verdict(got[4]) {
			case Guilty:
				guilty++
				break kills
			case Probe:
				p.mark(got[4], offset.MarkProbe, now)
				now = now.Add(p.Probation())
			}
			if now.Before(dies) {
				p.mark(got[4], offset.MarkRun, now)
				if now.Add(45 * time.Second).Before(dies) {
					break kills // it is done
				}
			}
			now = dies.Add(6*time.Second + 500*time.Millisecond)
			p = die(t, p, now)
			got, _ = readBy(p, records(1, 0, 10))
		}
	}
	require.LessOrEqual(t, guilty, trials/100)
}

func TestTooManyCrashesAreNoTasksFault(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := assign(t, 0, "", now)
	for range maxCrashed {
		require.True(t, p.Crashed(now))
	}
	require.False(t, p.Crashed(now.Add(59*time.Minute)))
	require.True(t, p.Crashed(now.Add(61*time.Minute)))
}

// The log was cut at 60 and went on in a new epoch while nobody looked. What an
// earlier owner had finished above is gone, and must not be handed on as of the
// new epoch; nor what it had noted, nor its suspect.
func TestWhatAnEarlierOwnerKnewEndsWhereANewerEpochBegins(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first := assign(t, 0, "", now)
	got, _ := readBy(first, records(5, 0, 110))
	for o, ticket := range got {
		if o != 0 && o != 80 {
			first.Done(ticket)
		}
	}
	first.Note(got[80], offset.Note{Attempt: 9, Since: now})
	first.mark(got[80], offset.MarkRun, now)
	at, text := commitOf(t, first, false)
	second := assign(t, at, text, now)
	got, _ = readBy(second, records(5, 0, 60))
	require.Len(t, got, 1)
	got, _ = readBy(second, records(6, 60, 90))
	require.Len(t, got, 30)
	_, noted := second.NoteOf(got[80])
	require.False(t, noted, "a note of a record that is gone")
	require.Zero(t, second.Deaths(), "the mark of a record that is gone")
	for _, ticket := range got {
		second.Done(ticket)
	}
	at, text = commitOf(t, second, true)
	third := assign(t, at, text, now)
	got, _ = readBy(third, records(6, 90, 120))
	require.Len(t, got, 30, "records that nobody ever ran were skipped")
}

// The marked suspect may be further than can be read while all before it waits.
func TestNobodyWaitsForASuspectThatIsNotRead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p, got := suspected(t, now)
	p.mark(got[9], offset.MarkRun, now)
	at, text := commitOf(t, p, false)
	p = assign(t, at, text, now.Add(10*time.Second))
	got, _ = readBy(p, records(1, 0, 9))
	require.Equal(t, Alone, p.Verdict(got[3]))
	got, _ = readBy(p, records(1, 9, 10))
	require.Equal(t, Probe, p.Verdict(got[9]))
}

// A last commit says that the partition was given up alive; one that comes after
// it must not say the opposite.
func TestNothingOpensAPartitionAgainThatIsGivenUp(t *testing.T) {
	t.Parallel()
	p := assign(t, 0, "", time.Now())
	got, _ := readBy(p, records(1, 0, 10))
	commitOf(t, p, false)
	commitOf(t, p, true)
	p.Done(got[3])
	_, ok := p.position(false)
	require.False(t, ok)
}
