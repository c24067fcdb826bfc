package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/checker"
	"github.com/axtasks/ax/router"
)

var everything = targets{workers: 3, movers: 2, producers: 1, brokers: 3, skew: true}

func script(seed uint64, length time.Duration, name string, t targets) string {
	var b strings.Builder
	printScript(&b, makeScript(seed, length, scenarios[name], t))
	return b.String()
}

func TestAScriptFollowsFromItsSeedAlone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		first := script(seed, time.Minute, "all", everything)
		require.Equal(t, first, script(seed, time.Minute, "all", everything))
	}
	require.NotEqual(t, script(1, time.Minute, "all", everything), script(2, time.Minute, "all", everything))
}

// Changing what a seed stands for makes every seed in an old report worthless.
func TestTheScriptOfSeed7IsStillThat(t *testing.T) {
	t.Parallel()
	require.Equal(t, strings.TrimLeft(`
   3.0s kill worker-1 for 1.2s
  10.0s broker kill broker 1 for 2s
  14.3s kill worker-2 for 2.3s
  20.0s leader normal
  23.1s kill mover-2 for 2.1s
`, "\n"), script(7, 30*time.Second, "all", everything))
}

func TestScriptsAimOnlyAtWhatIsThere(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		bare := script(seed, 2*time.Minute, "all", targets{workers: 1, movers: 1, producers: 1})
		for _, what := range []string{"broker", "skew", "-2", "-3"} {
			require.NotContains(t, bare, what)
		}
		for _, st := range makeScript(seed, 2*time.Minute, scenarios["all"], everything) {
			require.Less(t, st.at, 2*time.Minute-tail)
			require.LessOrEqual(t, st.broker, 3)
		}
	}
	require.Empty(t, script(1, time.Minute, "none", everything))
}

// Two of three brokers down is no fault that anything is promised under.
func TestScriptsHarmOneBrokerAtATime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		var until time.Duration
		for _, st := range makeScript(seed, 3*time.Minute, scenarios["all"], everything) {
			if st.what == faultBrokerKill || st.what == faultBrokerFreeze {
				require.GreaterOrEqual(t, st.at, until, "seed %d", seed)
				until = st.at + st.length + 6*time.Second
			}
		}
	}
}

func TestEveryScenarioIsADomainAndEveryKindHasAHandler(t *testing.T) {
	t.Parallel()
	for name := range scenarios {
		d := newDomain(config{scenario: name, brokers: []string{"localhost:9092"}})
		_, err := router.New(d)
		require.NoError(t, err, name)
		for kind := range d.Kinds {
			require.Contains(t, handlers, kind)
		}
	}
	sum := 0
	for _, m := range mix {
		require.Contains(t, handlers, m.kind)
		sum += m.part
	}
	require.Equal(t, 100, sum)
}

func TestTasksAreDistinctAndComplete(t *testing.T) {
	t.Parallel()
	d := newDomain(config{scenario: "all", brokers: []string{"localhost:9092"}}).WithDefaults()
	r := role{Proc: "producer-1.1", Domain: d, MaxDelay: 10 * time.Second}
	dice := rand.New(rand.NewPCG(1, 1))
	seen, now := map[string]bool{}, time.Now()
	for n := range 2000 {
		task := r.task(dice, n)
		require.False(t, seen[task.ID])
		seen[task.ID] = true
		require.NoError(t, d.Complete(&task, now))
		require.Equal(t, task.Kind == kindKeyed, task.Key != "")
	}
}

func TestOutcomesAreThoseOfTheWorker(t *testing.T) {
	t.Parallel()
	over := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		return ctx
	}
	boom := errors.New("boom")
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want string
		wait time.Duration
	}{
		{context.Background(), nil, checker.Done, 0},
		{over(ax.ErrShutdown), nil, checker.Done, 0},
		{over(ax.ErrShutdown), boom, checker.Interrupted, 0},
		{over(ax.ErrPartitionLost), boom, checker.Interrupted, 0},
		{over(ax.ErrTimeout), boom, checker.Failed, 0},
		{context.Background(), boom, checker.Failed, 0},
		{context.Background(), ax.RetryAfter(time.Second, boom), checker.Failed, time.Second},
		{context.Background(), ax.Snooze(time.Minute), checker.Snoozed, time.Minute},
		{context.Background(), ax.Permanent(boom), checker.Permanent, 0},
		{context.Background(), ax.Cancel("no"), checker.Cancelled, 0},
	} {
		got, asked := outcome(c.ctx, c.err)
		require.Equal(t, c.want, got, "%v", c.err)
		require.Equal(t, int64(c.wait), asked)
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	t.Setenv("AX_KAFKA", "localhost:9092")
	c, err := parseArgs(strings.Fields("--for 30s --seed 9 --scenario brokers"), io.Discard)
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, c.length)
	require.Equal(t, uint64(9), c.seed)
	for args, want := range map[string]string{
		"--scenario some": `--scenario "some"`,
		"--for 0s":        "--for 0s",
		"--drain 0s":      "--drain 0s",
		"--workers 0":     "at least one of each",
		"--movers 61":     "more than 60",
		"--max-delay -1s": "--max-delay",
		"more":            `unexpected argument "more"`,
	} {
		_, err := parseArgs(strings.Fields(args), io.Discard)
		require.ErrorContains(t, err, want, args)
	}
	t.Setenv("AX_KAFKA", "")
	_, err = parseArgs(nil, io.Discard)
	require.ErrorContains(t, err, "make soak")
	var out, said strings.Builder
	require.Equal(t, 2, soakMain(t.Context(), nil, &out, &said))
	require.Equal(t, 0, soakMain(t.Context(), []string{"-h"}, &out, &said))
	require.Contains(t, said.String(), "-seed")
	require.Empty(t, out.String())
}

func TestOrdersAreAnswered(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(c).ReadString('\n')
			answer := "ok"
			if line != "kill 1\n" {
				answer = "error: no"
			}
			fmt.Fprintln(c, answer)
			c.Close()
		}
	}()
	require.NoError(t, control{path}.order(t.Context(), "kill %d", 1))
	require.ErrorContains(t, control{path}.order(t.Context(), "kill %d", 2), `order "kill 2": error: no`)
	require.ErrorIs(t, control{path + "x"}.order(t.Context(), "kill 1"), os.ErrNotExist)
}

func TestAnEarlierRunIsJudgedAgain(t *testing.T) {
	t.Setenv("AX_KAFKA", "")
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "facts"), 0o755))
	w, err := checker.NewWriter(filepath.Join(dir, "facts", "producer-1.1.jsonl"), "producer-1.1")
	require.NoError(t, err)
	w.Write(checker.Fact{Type: checker.Offered, ID: "a", Limit: 1})
	w.Write(checker.Fact{Type: checker.Submitted, ID: "a"})
	require.NoError(t, w.Close())
	var out, said strings.Builder
	require.Equal(t, 1, soakMain(t.Context(), []string{"--judge", dir}, &out, &said), said.String())
	require.Contains(t, out.String(), "task a ")
	require.True(t, strings.HasSuffix(out.String(), "\n0 passed, 1 failed\n"), out.String())

	w, err = checker.NewWriter(filepath.Join(dir, "facts", "worker-1.1.jsonl"), "worker-1.1")
	require.NoError(t, err)
	w.Write(checker.Fact{Type: checker.Started, ID: "a", Run: "1", Attempt: 1, Own: time.Now().UnixNano()})
	w.Write(checker.Fact{Type: checker.Settled, ID: "a", Run: "1", Outcome: checker.Done})
	require.NoError(t, w.Close())
	require.Equal(t, 0, soakMain(t.Context(), []string{"--judge", dir}, &out, &said), out.String())
	require.Equal(t, 2, soakMain(t.Context(), []string{"--judge", t.TempDir()}, &out, &said))
}

func TestAKnownFailureIsReportedAndDoesNotFailTheRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "facts"), 0o755))
	// One acknowledged task that has no end.
	facts := `{"f":"offered","at":1,"id":"a","kind":"quick","lane":"normal"}
{"f":"submitted","at":2,"id":"a","topic":"t"}
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "facts", "x.jsonl"), []byte(facts), 0o600))
	for known, code := range map[string]int{"": 1, "early": 1, "lost": 0, "early,lost": 0} {
		args := []string{"--judge", dir}
		if known != "" {
			args = append(args, "--known", known)
		}
		var out bytes.Buffer
		require.Equal(t, code, soakMain(t.Context(), args, &out, &out), "%s\n%s", known, out.String())
		require.Contains(t, out.String(), "FAILED  lost")
	}
}
