package embedded_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/axtasks/ax/internal/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestABrokerServesAndLeavesNothingBehind(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	one, err := embedded.Start()
	require.NoError(t, err)
	two, err := embedded.Start()
	require.NoError(t, err)
	require.NotEqual(t, one.Addrs(), two.Addrs())

	cl, err := kgo.NewClient(kgo.SeedBrokers(one.Addrs()...), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	_, err = kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "t")
	require.NoError(t, err)
	require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("x")}).FirstErr())
	fs := cl.PollFetches(t.Context())
	require.NoError(t, fs.Err())
	require.Equal(t, "x", string(fs.Records()[0].Value))
	cl.Close()

	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
	require.NoError(t, two.Close())
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestStartSaysWhereItCanNotWrite(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/absent")
	_, err := embedded.Start()
	require.ErrorContains(t, err, "make its directory")
	require.ErrorIs(t, err, os.ErrNotExist)
}
