package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"go.uber.org/goleak"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestOptionsNameTheFileAtFault(t *testing.T) {
	t.Parallel()
	gone := filepath.Join(t.TempDir(), "gone.pem")
	junk := file(t, "junk.pem", "no certificate")
	for name, c := range map[string]struct {
		kafka    ax.Kafka
		contains []string
		is       error
	}{
		"missing ca":       {ax.Kafka{TLS: ax.TLS{CAFile: gone}}, []string{"tls: ca_file", gone}, os.ErrNotExist},
		"ca without PEM":   {ax.Kafka{TLS: ax.TLS{CAFile: junk}}, []string{"tls: ca_file", junk, "no PEM certificate"}, nil},
		"missing cert":     {ax.Kafka{TLS: ax.TLS{CertFile: gone, KeyFile: junk}}, []string{"tls: cert_file", gone}, os.ErrNotExist},
		"missing key":      {ax.Kafka{TLS: ax.TLS{CertFile: junk, KeyFile: gone}}, []string{"tls: cert_file", gone}, os.ErrNotExist},
		"cert without PEM": {ax.Kafka{TLS: ax.TLS{CertFile: junk, KeyFile: junk}}, []string{"tls: cert_file", junk}, nil},
		"missing password": {ax.Kafka{SASL: ax.SASL{Mechanism: "PLAIN", User: "u", PasswordFile: gone}}, []string{"sasl: password_file", gone}, os.ErrNotExist},
		"no password":      {ax.Kafka{SASL: ax.SASL{Mechanism: "SCRAM-SHA-256", User: "u"}}, []string{"sasl: no password"}, nil},
		"other mechanism":  {ax.Kafka{SASL: ax.SASL{Mechanism: "GSSAPI", Password: "p"}}, []string{`sasl: mechanism "GSSAPI"`, "PLAIN"}, nil},
	} {
		opts, w, err := kafka.Options(ax.Domain{Name: "orders", Kafka: c.kafka}, "test", nil)
		require.Error(t, err, name)
		require.Nil(t, opts)
		require.Nil(t, w)
		require.ErrorContains(t, err, "domain orders", name)
		for _, want := range c.contains {
			require.ErrorContains(t, err, want, name)
		}
		if c.is != nil {
			require.ErrorIs(t, err, c.is, name)
		}
	}
}

func TestOptionsMakeAClientForEachRole(t *testing.T) {
	t.Parallel()
	for _, d := range []ax.Domain{{Name: "orders", Durability: ax.Fast}, {Name: "orders", Durability: ax.Safe, Kafka: ax.Kafka{Brokers: []string{"a:1", "b:2"}}}} {
		opts, _, err := kafka.Options(d, "mover", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		cl, err := kgo.NewClient(append(append(opts, kafka.Producing(d)...), kafka.Consuming("g", "")...)...)
		require.NoError(t, err)
		require.Equal(t, "ax-mover", cl.OptValue(kgo.ClientID))
		if len(d.Kafka.Brokers) > 0 {
			require.Equal(t, d.Kafka.Brokers, cl.OptValue(kgo.SeedBrokers))
		}
		require.Equal(t, d.Durability == ax.Fast, cl.OptValue(kgo.DisableIdempotentWrite))
		cl.CloseAllowingRebalance()
	}
}

// A rotated password file is read again, and its last newline is none of it.
func TestPasswordFileIsReadAtEachLogin(t *testing.T) {
	t.Parallel()
	path := file(t, "password", "first\r\n")
	opts, _, err := kafka.Options(ax.Domain{Kafka: ax.Kafka{SASL: ax.SASL{Mechanism: "PLAIN", User: "u", PasswordFile: path}}}, "test", nil)
	require.NoError(t, err)
	cl, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	defer cl.Close()
	for _, pass := range []string{"first", "second word"} {
		require.NoError(t, os.WriteFile(path, []byte(pass+"\n"), 0o600))
		_, first, err := cl.OptValue(kgo.SASL).([]sasl.Mechanism)[0].Authenticate(t.Context(), "h")
		require.NoError(t, err)
		require.Equal(t, "\x00u\x00"+pass, string(first))
	}
}

var meta = kgo.BrokerMetadata{Host: "kafka.example", Port: 9092}

func failed(err error) *kafka.Watch {
	w := &kafka.Watch{}
	w.OnBrokerConnect(meta, 0, nil, err)
	return w
}

func TestExplainGivesTheSentinelOfTheClass(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for name, c := range map[string]struct {
		watch *kafka.Watch
		err   error
		want  error
		text  string
	}{
		"closed":             {&kafka.Watch{}, kgo.ErrClientClosed, ax.ErrClosed, ""},
		"bad password":       {&kafka.Watch{}, kerr.SaslAuthenticationFailed, ax.ErrAuth, ""},
		"no such mechanism":  {&kafka.Watch{}, kerr.UnsupportedSaslMechanism, ax.ErrAuth, ""},
		"topic forbidden":    {&kafka.Watch{}, kerr.TopicAuthorizationFailed, ax.ErrAuth, ""},
		"group forbidden":    {&kafka.Watch{}, kerr.GroupAuthorizationFailed, ax.ErrAuth, ""},
		"cluster forbidden":  {&kafka.Watch{}, kerr.ClusterAuthorizationFailed, ax.ErrAuth, ""},
		"no topic":           {&kafka.Watch{}, kerr.UnknownTopicOrPartition, ax.ErrTopicMissing, "ax topics apply"},
		"no topic id":        {&kafka.Watch{}, kerr.UnknownTopicID, ax.ErrTopicMissing, ""},
		"too large":          {&kafka.Watch{}, kerr.MessageTooLarge, ax.ErrTooLarge, ""},
		"dial":               {&kafka.Watch{}, dial, ax.ErrUnreachable, "refused"},
		"timeout, and dial":  {failed(dial), context.DeadlineExceeded, ax.ErrUnreachable, "last: kafka.example:9092"},
		"timeout, and login": {failed(kerr.SaslAuthenticationFailed), context.DeadlineExceeded, ax.ErrAuth, "kafka.example:9092"},
		"known before":       {failed(dial), fmt.Errorf("x: %w", ax.ErrUnknownOutcome), ax.ErrUnknownOutcome, ""},
		"anything else":      {&kafka.Watch{}, io.ErrShortWrite, io.ErrShortWrite, ""},
	} {
		got := c.watch.Explain(fmt.Errorf("wrapped: %w", c.err))
		require.ErrorIs(t, got, c.want, name)
		require.ErrorIs(t, got, c.err, name)
		require.ErrorContains(t, got, c.text, name)
		if errors.Is(c.err, ax.ErrUnknownOutcome) {
			require.NotErrorIs(t, got, ax.ErrUnreachable)
		}
	}
	require.NoError(t, failed(dial).Explain(nil))
	same := failed(dial).Explain(dial)
	require.Equal(t, 1, strings.Count(same.Error(), "refused"), "said once: %v", same)
}

func TestWatchForgetsTheFailureAfterASuccess(t *testing.T) {
	t.Parallel()
	w := failed(io.EOF)
	require.EqualError(t, w.Err(), "kafka.example:9092: EOF")
	w.OnBrokerConnect(meta, 0, nil, nil)
	require.NoError(t, w.Err())
	require.NoError(t, (&kafka.Watch{}).Err())
}

func TestPingEndsWithItsTimeoutAndNamesTheSeeds(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		require.NoError(t, kafka.Ping(t.Context(), c.Client(t), &kafka.Watch{}, time.Second))
		silent := c.Client(t, kgo.SeedBrokers("one.example:1", "two.example:2"), kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		began := time.Now()
		err := kafka.Ping(t.Context(), silent, &kafka.Watch{}, time.Second)
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorIs(t, err, ax.ErrUnreachable)
		require.ErrorContains(t, err, "one.example:1, two.example:2")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err = kafka.Ping(ctx, silent, &kafka.Watch{}, time.Second)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ax.ErrUnreachable)
	})
}

func TestTopicIDsNamesAllThatAreMissing(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t)
	r := c.Provision(t, ax.Domain{Name: "orders"})
	ids, err := kafka.TopicIDs(t.Context(), c.Client(t), &kafka.Watch{}, r.Near(), r.Dead())
	require.NoError(t, err)
	require.Len(t, ids, 2)
	require.NotEqual(t, ids[r.Near()], ids[r.Dead()])
	require.NotZero(t, ids[r.Near()])

	_, err = kafka.TopicIDs(t.Context(), c.Client(t), &kafka.Watch{}, "gone.a", r.Near(), "gone.b")
	require.ErrorIs(t, err, ax.ErrTopicMissing)
	require.ErrorContains(t, err, "gone.a, gone.b")
	require.NotContains(t, err.Error(), r.Near())
}

func TestClientsLogHasTheLevelsOfSlog(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]kgo.LogLevel{
		slog.LevelDebug - 4: kgo.LogLevelDebug, slog.LevelDebug: kgo.LogLevelInfo, slog.LevelInfo: kgo.LogLevelWarn,
		slog.LevelWarn: kgo.LogLevelWarn, slog.LevelError: kgo.LogLevelError, slog.LevelError + 4: kgo.LogLevelNone,
	} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		opts, _, err := kafka.Options(ax.Domain{}, "test", log)
		require.NoError(t, err)
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers("127.0.0.1:1"))...)
		require.NoError(t, err)
		logger := cl.OptValue(kgo.WithLogger).(kgo.Logger)
		require.Equal(t, want, logger.Level(), "%s", level)
		if want == kgo.LogLevelError {
			logger.Log(kgo.LogLevelError, "text", "key", "value")
		}
		cl.Close()
		if want == kgo.LogLevelError {
			require.Contains(t, out.String(), "level=ERROR msg=text key=value")
		}
	}
}
