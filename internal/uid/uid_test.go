package uid_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax/internal/uid"
)

var version7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestIDsAreUniqueUUIDsSortedByTime(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	last := ""
	for i := range 100 {
		now := time.UnixMilli(1_700_000_000_000).Add(time.Duration(i) * time.Millisecond)
		many := uid.Many(now, 10)
		require.Len(t, many, 10*uid.Size)
		ids := []string{uid.New(now)}
		for ; many != ""; many = many[uid.Size:] {
			ids = append(ids, many[:uid.Size])
		}
		for _, id := range ids {
			require.Regexp(t, version7, id)
			require.False(t, seen[id])
			seen[id] = true
			require.Greater(t, id[:13], last)
		}
		last = ids[0][:13]
	}
	require.Equal(t, "018bcfe5-6863", last)
	require.Empty(t, uid.Many(time.Now(), 0))
}

func BenchmarkNew(b *testing.B) {
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		uid.New(now)
	}
}

func BenchmarkMany(b *testing.B) {
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		uid.Many(now, 64)
	}
}
