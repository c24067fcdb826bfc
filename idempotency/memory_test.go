package idempotency_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/axtasks/ax/idempotency"
	"github.com/axtasks/ax/idempotency/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryPassesTheSuiteInVirtualTime(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) idempotency.Store { return idempotency.NewMemory() }, storetest.Options{Bubble: true})
}

// The form that stores with a server run: real time, short leases.
func TestMemoryPassesTheSuiteInRealTime(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	storetest.Run(t, func(*testing.T) idempotency.Store { return idempotency.NewMemory() }, storetest.Options{})
}

func TestMemoryPassesTheSuiteAtItsLimit(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) idempotency.Store {
		m := idempotency.NewMemory(idempotency.WithMaxKeys(100))
		for i := range 50 { // these have expired when the suite wants room
			_, err := m.Claim(context.Background(), fmt.Sprint("old", i), time.Nanosecond)
			require.NoError(t, err)
		}
		return m
	}, storetest.Options{Bubble: true})
}

func TestMemoryIsFullOfLiveKeysOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		m := idempotency.NewMemory(idempotency.WithMaxKeys(2))
		claim := func(key string, lease time.Duration) (idempotency.Claim, error) { return m.Claim(ctx, key, lease) }
		a, err := claim("a", time.Minute)
		require.NoError(t, err)
		b, err := claim("b", time.Hour)
		require.NoError(t, err)

		_, err = claim("c", time.Minute)
		require.ErrorIs(t, err, idempotency.ErrFull)
		require.EqualError(t, err, `idempotency: the store is full: claim "c": 2 keys are claimed or done`)
		again, err := claim("a", time.Minute)
		require.NoError(t, err, "a key that it knows takes no room")
		require.Equal(t, idempotency.Held, again.State)

		require.NoError(t, m.Complete(ctx, "b", b.Token, time.Hour))
		_, err = claim("c", time.Minute)
		require.ErrorIs(t, err, idempotency.ErrFull, "a done key is not forgotten before its time")

		require.NoError(t, m.Release(ctx, "a", a.Token))
		_, err = claim("c", time.Minute)
		require.NoError(t, err, "a released key makes room")

		time.Sleep(time.Minute)
		_, err = claim("d", time.Minute)
		require.NoError(t, err, "an expired key makes room")
		done, err := claim("b", time.Minute)
		require.NoError(t, err)
		require.Equal(t, idempotency.Done, done.State)
	})
}

func TestMemoryForgetsWhatExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		m := idempotency.NewMemory()
		for i := range 1000 {
			_, err := m.Claim(ctx, fmt.Sprint(i), time.Duration(i%7+1)*time.Second)
			require.NoError(t, err)
		}
		require.Equal(t, 1000, m.Len())
		time.Sleep(7 * time.Second)
		for i := range 500 {
			_, err := m.Claim(ctx, fmt.Sprint("new", i), time.Hour)
			require.NoError(t, err)
		}
		require.Equal(t, 500, m.Len(), "two out for each one in")
	})
}

// What was renewed or completed must not hide, in the order of expiry, what
// has expired behind it.
func TestMemoryMakesRoomBehindWhatLastsLonger(t *testing.T) {
	t.Parallel()
	for name, extend := range map[string]func(*idempotency.Memory, int64) error{
		"renew": func(m *idempotency.Memory, token int64) error {
			return m.Renew(context.Background(), "a", token, time.Hour)
		},
		"complete": func(m *idempotency.Memory, token int64) error {
			return m.Complete(context.Background(), "a", token, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				m := idempotency.NewMemory(idempotency.WithMaxKeys(2))
				a, err := m.Claim(ctx, "a", time.Minute)
				require.NoError(t, err)
				_, err = m.Claim(ctx, "b", 2*time.Minute)
				require.NoError(t, err)
				require.NoError(t, extend(m, a.Token))
				time.Sleep(2 * time.Minute)
				_, err = m.Claim(ctx, "c", time.Minute)
				require.NoError(t, err)
			})
		})
	}
}

func TestMemoryTokensRiseOverRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		before, err := idempotency.NewMemory().Claim(ctx, "a", time.Minute)
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
		after, err := idempotency.NewMemory().Claim(ctx, "a", time.Minute)
		require.NoError(t, err)
		require.Greater(t, after.Token, before.Token)
	})
}

func TestMemoryHoldsItsLimitUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := idempotency.NewMemory(idempotency.WithMaxKeys(100))
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 500 {
				key := fmt.Sprint(w, "-", i)
				c, err := m.Claim(ctx, key, time.Hour)
				if err != nil {
					continue
				}
				if i%2 == 0 {
					_ = m.Release(ctx, key, c.Token)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 100, m.Len())
}

func TestStateNamesItself(t *testing.T) {
	t.Parallel()
	require.Equal(t, "granted done held unknown", fmt.Sprint(idempotency.Granted, " ", idempotency.Done, " ", idempotency.Held, " ", idempotency.State(0)))
}

// A store is a leaf that everybody may link.
func TestPackageImportsNothingBeyondTheRoot(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").Output()
	require.NoError(t, err)
	for path := range strings.FieldsSeq(string(out)) {
		if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
			continue // standard library
		}
		require.Contains(t, []string{"github.com/axtasks/ax", "github.com/axtasks/ax/internal/clock"}, path)
	}
	out, err = exec.Command("go", "list", "-deps", "-f", `{{with .Module}}{{.Path}}{{end}}`, ".").Output()
	require.NoError(t, err)
	for path := range strings.FieldsSeq(string(out)) {
		require.True(t, path == "github.com/axtasks/ax" || strings.HasPrefix(path, "github.com/twmb/franz-go") ||
			path == "github.com/klauspost/compress" || path == "github.com/pierrec/lz4/v4", "links %s", path)
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			ctx := context.Background()
			m := idempotency.NewMemory(idempotency.WithMaxKeys(n + 1))
			for i := range n {
				_, _ = m.Claim(ctx, fmt.Sprint("k", i), time.Hour)
			}
			b.ReportAllocs()
			for b.Loop() {
				c, _ := m.Claim(ctx, "key", time.Minute)
				_ = m.Release(ctx, "key", c.Token)
			}
		})
	}
}

func ExampleMemory() {
	ctx := context.Background()
	store := idempotency.NewMemory()

	first, _ := store.Claim(ctx, "order-7", time.Minute)
	second, _ := store.Claim(ctx, "order-7", time.Minute)
	fmt.Println(first.State, second.State)

	_ = store.Complete(ctx, "order-7", first.Token, 24*time.Hour)
	third, _ := store.Claim(ctx, "order-7", time.Minute)
	fmt.Println(third.State)
	// Output:
	// granted held
	// done
}
