package rfc3339_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/axtasks/ax/internal/rfc3339"
)

func TestParseReadsWhatPackageTimeWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.OneOf(rapid.Int64Range(-1e11, 3e11), rapid.Int64Range(0, 4e9)).Draw(t, "seconds")
		ns := rapid.OneOf(rapid.Int64Range(0, 999_999_999), rapid.SampledFrom([]int64{0, 1, 10, 500_000_000, 120_000_000})).Draw(t, "ns")
		zone := time.FixedZone("", rapid.IntRange(-86_000, 86_000).Draw(t, "zone"))
		at := time.Unix(seconds, ns).In(zone)
		requireSame(t, at.Format(time.RFC3339Nano))
		requireSame(t, at.UTC().Format(time.RFC3339Nano))
	})
}

func requireSame(t require.TestingT, text string) {
	want, fault := time.Parse(time.RFC3339Nano, text)
	got, err := rfc3339.Parse([]byte(text))
	require.Equal(t, fault, err, "%q", text)
	require.Equal(t, want.UTC(), got, "%q", text)
}

var texts = []string{
	"2026-01-02T15:04:05Z", "2026-01-02T15:04:05.999999999Z", "2026-01-02T15:04:05.10Z", "2026-01-02T15:04:05.0Z",
	"0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00Z", "2024-02-29T00:00:00Z",
	"2026-01-02T15:04:05.1234567891Z", "2026-01-02T15:04:05.Z", "2026-01-02T15:04:05,5Z", "2026-01-02T15:04:05+01:00",
	"2026-01-02T15:04:05.5-23:59", "2026-01-02T15:04:05", "2026-01-02t15:04:05z", "2026-01-02 15:04:05Z",
	"2025-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-00-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-00T00:00:00Z",
	"2026-01-32T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:60Z", "2026-1-01T00:00:000Z",
	"a026-01-01T00:00:00Z", "202a-01-01T00:00:00Z", "2026-01-01T00:00:0aZ", "2026-01-01T00:00:00.0a0Z", "2026-01-01T00:00:00a0Z",
	"+026-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "", "Z", "2026-01-02T15:04:05ZZ", "2026-01-02T15:04:05.5", "2026-01-02T5:04:05.00Z",
}

func TestParseReadsWhatPackageTimeReads(t *testing.T) {
	t.Parallel()
	for _, text := range texts {
		requireSame(t, text)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { requireSame(t, text) })
}

func BenchmarkParse(b *testing.B) {
	text := []byte("2026-01-02T15:04:05.123456789Z")
	b.Run("of=rfc3339", func(b *testing.B) {
		for b.Loop() {
			_, _ = rfc3339.Parse(text)
		}
	})
	b.Run("of=time", func(b *testing.B) {
		for b.Loop() {
			_, _ = time.Parse(time.RFC3339Nano, string(text))
		}
	})
}
