package ax_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/axtasks/ax"
)

var topicID = [16]byte{0xab, 15: 0xcd}

func record(headers ...string) *kgo.Record {
	r := &kgo.Record{Topic: "orders.lane.normal", Partition: 3, Offset: 42, LeaderEpoch: 7, Value: []byte("body")}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

func anyTime() *rapid.Generator[time.Time] {
	first := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	return rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		s := rapid.Int64Range(first, last).Draw(t, "seconds")
		return time.Unix(s, rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	})
}

// anyTask draws a task that the domain would accept, with what ax sets.
func anyTask() *rapid.Generator[*ax.Task] {
	name := func(n int) *rapid.Generator[string] {
		return rapid.StringOfN(rapid.RuneFrom([]rune("abcXYZ019.-_/:äß日本😀")), 1, -1, n)
	}
	optional := func(g *rapid.Generator[string]) *rapid.Generator[string] {
		return rapid.OneOf(rapid.Just(""), g)
	}
	return rapid.Custom(func(t *rapid.T) *ax.Task {
		task := &ax.Task{
			ID:          name(ax.MaxIDBytes).Draw(t, "id"),
			Kind:        name(ax.MaxKindBytes).Draw(t, "kind"),
			Payload:     rapid.SliceOf(rapid.Byte()).Draw(t, "payload"),
			Lane:        optional(rapid.StringMatching(`[a-z][a-z0-9]{0,20}`)).Draw(t, "lane"),
			Key:         string(rapid.SliceOfN(rapid.Byte(), 0, ax.MaxKeyBytes).Draw(t, "key")),
			Due:         anyTime().Draw(t, "due"),
			Expires:     anyTime().Draw(t, "expires"),
			Leave:       anyTime().Draw(t, "leave"),
			Submitted:   anyTime().Draw(t, "submitted"),
			Timeout:     time.Duration(rapid.Int64Range(0, int64(ax.MaxTimeout)).Draw(t, "timeout")),
			MaxAttempts: rapid.IntRange(0, 1<<20).Draw(t, "max attempts"),
			Attempt:     rapid.IntRange(1, 1<<20).Draw(t, "attempt"),
			Deferrals:   rapid.IntRange(0, 1<<20).Draw(t, "deferrals"),
			Hop:         optional(rapid.Just("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")).Draw(t, "hop"),
		}
		for i := range rapid.IntRange(0, ax.MaxHeaders).Draw(t, "headers") {
			task.Headers = append(task.Headers, ax.Header{
				Name:  fmt.Sprintf("x%d-%s", i, name(20).Draw(t, "name")),
				Value: rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "value"),
			})
		}
		return task
	})
}

func TestDecodeGivesBackWhatEncodeWrote(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		task := anyTask().Draw(t, "task")
		r := ax.Encode(task)
		r.Topic, r.Partition, r.Offset, r.LeaderEpoch = "orders.lane.normal", 3, 42, 7
		back, err := ax.Decode(r, topicID)
		require.NoError(t, err)
		want := *task
		want.Source = ax.Source{Topic: "orders.lane.normal", Partition: 3, Offset: 42, Epoch: 7}
		require.Equal(t, &want, back)
		require.Equal(t, ax.Encode(task), ax.Encode(back), "the bytes are canonical")
	})
}

// Records that share their memory are those that would have been alone.
func TestEncoderAndDecoderGiveWhatEncodeAndDecodeGive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tasks := rapid.SliceOfN(anyTask(), 1, 8).Draw(t, "tasks")
		order := rapid.SliceOfN(rapid.IntRange(0, len(tasks)-1), 1, 40).Draw(t, "order") // with repeats
		ahead := rapid.IntRange(0, 50)
		var e ax.Encoder
		var d ax.Decoder
		e.Grow(ahead.Draw(t, "encode ahead"))
		d.Grow(ahead.Draw(t, "decode ahead"))
		records, back := make([]kgo.Record, len(order)), make([]*ax.Task, len(order))
		for i, at := range order {
			records[i].Topic, records[i].Key = "t", []byte("of another task")
			e.Encode(&records[i], tasks[at])
			var err error
			back[i], err = d.Decode(&records[i], topicID)
			require.NoError(t, err)
			_, err = d.Decode(record("ax-kind", "k", "x", "y", "ax-due", "never"), topicID)
			require.ErrorIs(t, err, ax.ErrMalformed)
			back[i].Headers = append(back[i].Headers, ax.Header{Name: "mine"})
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: "mine"})
		}
		for i, at := range order {
			want := ax.Encode(tasks[at])
			want.Topic = "t"
			task, err := ax.Decode(want, topicID)
			require.NoError(t, err)
			want.Headers = append(want.Headers, kgo.RecordHeader{Key: "mine"})
			require.Equal(t, *want, records[i])
			task.Headers = append(task.Headers, ax.Header{Name: "mine"})
			require.Equal(t, task, back[i])
		}
	})
}

func TestEncodeIsCanonical(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("far", 5*3600+1800)
	r := ax.Encode(&ax.Task{
		ID: "id", Kind: "k", Lane: "high", Key: "key", Payload: []byte("body"),
		Due:     time.Date(2026, 1, 2, 20, 34, 5, 120_000_000, zone),
		Timeout: 90 * time.Second, Attempt: 2, MaxAttempts: 5, Deferrals: 1,
		Headers: []ax.Header{{Name: "b", Value: []byte("2")}, {Name: "a", Value: []byte("1")}},
	})
	var got []string
	for _, h := range r.Headers {
		got = append(got, h.Key+"="+string(h.Value))
	}
	require.Equal(t, []string{
		"ax-kind=k", "ax-id=id", "ax-lane=high", "ax-due=2026-01-02T15:04:05.12Z", "ax-timeout=1m30s",
		"ax-attempt=2", "ax-max-attempts=5", "ax-deferrals=1", "b=2", "a=1",
	}, got)
	require.Equal(t, "key", string(r.Key))
	require.Equal(t, "body", string(r.Value))
}

// What a client in any language writes with the least effort is a task.
func TestBareRecordWithOnlyAKindIsATask(t *testing.T) {
	t.Parallel()
	task, err := ax.Decode(record("ax-kind", "order.close"), topicID)
	require.NoError(t, err)
	require.Equal(t, &ax.Task{
		ID: "ab0000000000000000000000000000cd-3-42-7", Kind: "order.close", Payload: []byte("body"), Attempt: 1,
		Source: ax.Source{Topic: "orders.lane.normal", Partition: 3, Offset: 42, Epoch: 7},
	}, task)

	again, err := ax.Decode(record("ax-kind", "order.close"), topicID)
	require.NoError(t, err)
	require.Equal(t, task.ID, again.ID, "the same at each delivery")
}

func TestPositionIDIsNeverAnotherRecords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, id := range [][16]byte{{}, {1}, {2}} {
		for _, s := range []ax.Source{{Topic: "t"}, {Topic: "u"}, {Topic: "t", Partition: 1}, {Topic: "t", Offset: 1}, {Topic: "t", Epoch: 1}, {Topic: "t", Epoch: -1}} {
			if id != ([16]byte{}) && s.Topic == "u" {
				continue // the id stands for the name
			}
			got := ax.PositionID(s, id)
			require.False(t, seen[got], got)
			seen[got] = true
		}
	}
	require.NotEqual(t, ax.PositionID(ax.Source{Topic: strings.Repeat("t", 248) + "a"}, [16]byte{}),
		ax.PositionID(ax.Source{Topic: strings.Repeat("t", 248) + "b"}, [16]byte{}))
}

// An id derived from a topic of 249 bytes was longer than an id may be: the
// first hop wrote it, and the next reader sent the task to the dead topic.
func TestDerivedIDSurvivesTheNextHopWhateverTheTopic(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 249; n++ {
		r := record("ax-kind", "k")
		r.Topic = strings.Repeat("t", n)
		r.Partition, r.Offset, r.LeaderEpoch = 1<<31-1, 1<<63-1, 1<<31-1
		task, err := ax.Decode(r, [16]byte{})
		require.NoError(t, err)
		back, err := ax.Decode(ax.Encode(task), topicID)
		require.NoError(t, err)
		require.Equal(t, task.ID, back.ID)
	}
}

func TestDecodeRefusesMalformedHeaders(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	bad := map[string][]string{
		"ax-kind":         {"", "a b", "a\nb", "a\x00", "\xff", "a\u200bb", long},
		"ax-id":           {"", "a b", "a\r\nax-kind: x", "\xff", long},
		"ax-lane":         {"", "a b", "\xff", strings.Repeat("x", 61)},
		"ax-due":          {"", "tomorrow", "1700000000", "2026-13-01T00:00:00Z", "2026-01-02 15:04:05Z", "2026-01-02T15:04:05", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "10000-01-01T00:00:00Z", long},
		"ax-leave":        {"", "soon", "1900-01-01T00:00:00Z"},
		"ax-expires":      {"", "never", "1900-01-01T00:00:00Z"},
		"ax-submitted":    {"", "yesterday", "1900-01-01T00:00:00Z"},
		"ax-timeout":      {"", "60", "0s", "-1s", "1d", "721h", "9999999999h", long},
		"ax-attempt":      {"", "0", "-1", "+1", "01", "1.0", "1e3", "0x1", " 1", "1048577", "4294967296", "99999999999999999999", long},
		"ax-max-attempts": {"", "0", "-1", "1048577"},
		"ax-deferrals":    {"", "-1", "1048577"},
		"ax-hop":          {"", "a b", "\xff", strings.Repeat("x", 129)},
	}
	for name, values := range bad {
		for _, value := range values {
			headers := []string{"ax-kind", "k", name, value}
			if name == "ax-kind" {
				headers = headers[2:]
			}
			_, err := ax.Decode(record(headers...), topicID)
			require.ErrorIs(t, err, ax.ErrMalformed, "%s %q", name, value)
			e, ok := errors.AsType[*ax.RecordError](err)
			require.True(t, ok)
			require.Equal(t, name, e.Header)
			require.Equal(t, int64(42), e.Source.Offset)
			require.NotEmpty(t, e.Reason)
			require.LessOrEqual(t, len(e.Value), 64)
			require.Less(t, len(err.Error()), 400)
			require.NotContains(t, err.Error(), "\n")
		}
	}
}

func TestDecodeRefusesARepeatedHeader(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"ax-kind": "k", "ax-id": "i", "ax-lane": "l", "ax-due": "2026-01-02T15:04:05Z", "ax-leave": "2026-01-02T15:04:05Z",
		"ax-expires": "2026-01-02T15:04:05Z", "ax-timeout": "1s", "ax-attempt": "1", "ax-max-attempts": "1",
		"ax-deferrals": "1", "ax-submitted": "2026-01-02T15:04:05Z", "ax-hop": "h",
	} {
		headers := []string{"ax-kind", "k", name, value, name, value}
		if name == "ax-kind" {
			headers = headers[2:]
		}
		_, err := ax.Decode(record(headers...), topicID)
		require.ErrorIs(t, err, ax.ErrMalformed, name)
		require.ErrorContains(t, err, "is repeated", name)
	}
}

func TestDecodeRefusesARecordWithoutAKind(t *testing.T) {
	t.Parallel()
	_, err := ax.Decode(record("AX-Kind", "k", "kind", "k"), topicID)
	require.EqualError(t, err, `ax: record orders.lane.normal/3@42: header ax-kind "": is missing`)
}

func TestDecodeHoldsItsLimits(t *testing.T) {
	t.Parallel()
	many := func(n, size int, prefix string) []string {
		headers := []string{"ax-kind", "k"}
		for i := range n {
			headers = append(headers, fmt.Sprintf("%s%03d", prefix, i), strings.Repeat("v", size))
		}
		return headers
	}
	for name, c := range map[string]struct {
		headers []string
		fault   string
	}{
		"64 headers":                  {many(64, 1, "x-"), ""},
		"65 headers":                  {many(65, 1, "x-"), "is the 65th of at most 64"},
		"16 KiB":                      {many(1, 16<<10-5, "x-"), ""},
		"a byte more":                 {many(1, 16<<10-4, "x-"), "brings the headers above 16384 bytes"},
		"in many pieces":              {many(33, 500, "x-"), "brings the headers above 16384 bytes"},
		"64 of ours, unknown":         {many(64, 1, "ax-new-"), ""},
		"65 of ours, unknown":         {many(65, 1, "ax-new-"), "is the 65th of at most 64"},
		"unknown, too long":           {many(1, 16<<10, "ax-new-"), "brings the headers above 16384 bytes"},
		"unknown, too long, in parts": {many(33, 500, "ax-new-"), "brings the headers above 16384 bytes"},
	} {
		_, err := ax.Decode(record(c.headers...), topicID)
		if c.fault == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, ax.ErrMalformed, name)
			require.ErrorContains(t, err, c.fault, name)
		}
	}
	r := record("ax-kind", "k")
	r.Key = make([]byte, ax.MaxKeyBytes)
	_, err := ax.Decode(r, topicID)
	require.NoError(t, err)
	r.Key = make([]byte, ax.MaxKeyBytes+1)
	_, err = ax.Decode(r, topicID)
	require.ErrorIs(t, err, ax.ErrMalformed)
}

func TestForeignHeadersTravelAlongUnchanged(t *testing.T) {
	t.Parallel()
	r := record("z", "1", "ax-future", "\x00\xff", "a", "", "ax-kind", "k", "Z", "2", "z", "3", "traceparent", "00-x")
	want := []ax.Header{
		{Name: "z", Value: []byte("1")}, {Name: "ax-future", Value: []byte("\x00\xff")}, {Name: "a", Value: []byte("")},
		{Name: "Z", Value: []byte("2")}, {Name: "z", Value: []byte("3")}, {Name: "traceparent", Value: []byte("00-x")},
	}
	for range 100 { // hops
		task, err := ax.Decode(r, topicID)
		require.NoError(t, err)
		require.Equal(t, want, task.Headers)
		r = ax.Encode(task)
	}
}

func TestSizeStaysConstantOverHopsAndRetries(t *testing.T) {
	t.Parallel()
	size := func(r *kgo.Record) (n int) {
		for _, h := range r.Headers {
			n += len(h.Key) + len(h.Value)
		}
		return n + len(r.Value) + len(r.Key)
	}
	task := &ax.Task{ID: "i", Kind: "k", Payload: []byte("p"), Attempt: 10, Deferrals: 100, Due: time.Unix(1e9, 0), Hop: "00-a"}
	first := ax.Encode(task)
	for i := range 89 {
		back, err := ax.Decode(ax.Encode(task), topicID)
		require.NoError(t, err)
		back.Attempt++
		back.Deferrals++
		back.Due = back.Due.Add(time.Second)
		back.Hop = "00-b"
		require.Equal(t, size(first), size(ax.Encode(back)), i)
		task = back
	}
}

func FuzzDecode(f *testing.F) {
	pack := func(headers ...string) []byte { return []byte(strings.Join(headers, "\x00")) }
	f.Add([]byte("key"), []byte("body"), pack("ax-kind", "k"))
	f.Add([]byte(nil), []byte(nil), pack("ax-kind", "k", "ax-id", "i", "ax-lane", "l", "ax-due", "2026-01-02T15:04:05.5+01:00",
		"ax-timeout", "1h1m1.5s", "ax-attempt", "3", "ax-max-attempts", "5", "ax-deferrals", "9", "ax-hop", "00-a"))
	f.Add([]byte("\xff"), []byte("b"), pack("x", "\xff", "ax-kind", "k", "x", "", "ax-new", "?", "", "v"))
	f.Add([]byte("k"), []byte("b"), pack("ax-kind", "k", "ax-leave", "2026-01-02T15:04:05,999Z", "ax-expires", "9999-12-31T23:59:59-23:59", "ax-submitted", "1970-01-01T00:00:00Z"))
	f.Add([]byte("k"), []byte("b"), pack("ax-kind", "", "ax-kind", "k"))
	f.Fuzz(func(t *testing.T, key, value, headers []byte) {
		r := &kgo.Record{Topic: "orders.lane.normal", Partition: 3, Offset: 42, LeaderEpoch: -1, Key: key, Value: value}
		parts := bytes.Split(headers, []byte{0})
		for i := 0; i+1 < len(parts); i += 2 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: string(parts[i]), Value: parts[i+1]})
		}
		task, err := ax.Decode(r, topicID)
		if err != nil {
			require.ErrorIs(t, err, ax.ErrMalformed)
			require.Less(t, len(err.Error()), 1000)
			return
		}
		// What a worker accepts, it can write, and the next one reads the same.
		hop := ax.Encode(task)
		hop.Topic, hop.Partition, hop.Offset, hop.LeaderEpoch = r.Topic, r.Partition, r.Offset, r.LeaderEpoch
		back, err := ax.Decode(hop, topicID)
		require.NoError(t, err)
		require.Equal(t, task, back)
		require.Equal(t, hop.Headers, ax.Encode(back).Headers)
		require.True(t, bytes.Equal(value, hop.Value))
	})
}
