package delay

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

func TestWhatIsPackedComesOutAsItWas(t *testing.T) {
	t.Parallel()
	text := rapid.Custom(func(t *rapid.T) []byte {
		return rapid.SampledFrom([][]byte{nil, {}, rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "bytes")}).Draw(t, "text")
	})
	rapid.Check(t, func(t *rapid.T) {
		r := &kgo.Record{Key: text.Draw(t, "key"), Value: text.Draw(t, "value")}
		for range rapid.IntRange(0, 20).Draw(t, "headers") {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: rapid.OneOf(rapid.String(), rapid.SampledFrom(known[:])).Draw(t, "name"), Value: text.Draw(t, "header")})
		}
		b := pack(nil, r)
		got, err := unpack(b)
		require.NoError(t, err)
		require.Equal(t, r, got)
		if n := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); len(b) > 0 {
			_, err = unpack(b[:n])
			require.Error(t, err)
		}
	})
}
