package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/axtasks/ax"
)

// Options returns the client options that every role shares, and the watch
// that is hooked into them. It reads certificate files but talks to nobody.
// log may be nil.
func Options(d ax.Domain, role string, log *slog.Logger) ([]kgo.Opt, *Watch, error) {
	w := &Watch{sasl: d.Kafka.SASL.Mechanism != ""}
	opts := []kgo.Opt{
		kgo.ClientID("ax-" + role),
		kgo.SoftwareNameAndVersion("ax", "0"),
		kgo.WithHooks(w),
		// An error of a produce waits for a metadata refresh; the default of
		// 5 s between two of them would make each leader change that slow.
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.DialTimeout(5 * time.Second),
	}
	if len(d.Kafka.Brokers) > 0 {
		opts = append(opts, kgo.SeedBrokers(d.Kafka.Brokers...))
	}
	if log != nil {
		opts = append(opts, kgo.WithLogger(logger{log}))
	}
	if d.Kafka.TLS.On() {
		cfg, err := tlsConfig(d.Kafka.TLS)
		if err != nil {
			return nil, nil, fmt.Errorf("ax: domain %s: tls: %w", d.Name, err)
		}
		opts = append(opts, kgo.DialTLSConfig(cfg))
	}
	if d.Kafka.SASL.Mechanism != "" {
		m, err := mechanism(d.Kafka.SASL)
		if err != nil {
			return nil, nil, fmt.Errorf("ax: domain %s: sasl: %w", d.Name, err)
		}
		opts = append(opts, kgo.SASL(m))
	}
	return opts, w, nil
}

// Producing returns the options of a client that writes tasks.
func Producing(d ax.Domain) []kgo.Opt {
	opts := []kgo.Opt{
		// A task is worth more than a few milliseconds of batching, and under
		// load batches fill while requests are in flight.
		kgo.ProducerLinger(0),
	}
	if d.Durability == ax.Fast {
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	return opts
}

// HeaderRoom is what a record may take beside its payload: key, headers, and
// what a record of the dead topic adds.
const HeaderRoom = 64 << 10

// Consuming returns the options of a client that reads topics in a group with
// commits of its own. protocol is the domain's; empty is the classic one, whose
// session and heartbeat are set here. With the other the broker sets them.
func Consuming(group, protocol string) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.DisableAutoCommit(),
		// No callback may run between a poll and the end of its bookkeeping.
		kgo.BlockRebalanceOnPoll(),
		// Markers of transactions take offsets, too; a reader that doesn't see
		// them can't tell that it has read all.
		kgo.KeepControlRecords(),
		// Both are set, since the one no longer follows the other: a group
		// without a commit reads from the log's start, or tasks are skipped.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// A killed member's partitions move within seconds, and a join is
		// seen at the next heartbeat.
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.RebalanceTimeout(30 * time.Second),
		// A partition that is added is seen at the next refresh; what is due
		// in it waits until then.
		kgo.MetadataMaxAge(15 * time.Second),
		// A partition that is resumed waits for the fetch that is in flight.
		kgo.FetchMaxWait(200 * time.Millisecond),
	}
	if protocol == ax.Consumer {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	return opts
}

func tlsConfig(t ax.TLS) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file %s: holds no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file %s: %w", t.CertFile, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// mechanism asks for the password at each authentication, so that a rotated
// file is seen, and once now, so that a missing one is an error at the start.
func mechanism(s ax.SASL) (sasl.Mechanism, error) {
	if _, err := password(s); err != nil {
		return nil, err
	}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			pass, err := password(s)
			return plain.Auth{User: s.User, Pass: pass}, err
		}), nil
	case "SCRAM-SHA-256":
		return scram.Sha256(scramAuth(s)), nil
	case "SCRAM-SHA-512":
		return scram.Sha512(scramAuth(s)), nil
	}
	return nil, fmt.Errorf("mechanism %q: want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", s.Mechanism)
}

func scramAuth(s ax.SASL) func(context.Context) (scram.Auth, error) {
	return func(context.Context) (scram.Auth, error) {
		pass, err := password(s)
		return scram.Auth{User: s.User, Pass: pass}, err
	}
}

func password(s ax.SASL) (string, error) {
	if s.Password != "" {
		return string(s.Password), nil
	}
	if s.PasswordFile == "" {
		return "", errors.New("no password")
	}
	b, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("password_file: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// logger hands the client's log to slog.
type logger struct{ log *slog.Logger }

var levels = map[kgo.LogLevel]slog.Level{
	kgo.LogLevelError: slog.LevelError,
	kgo.LogLevelWarn:  slog.LevelWarn,
	// What the client calls info is life inside the client.
	kgo.LogLevelInfo:  slog.LevelDebug,
	kgo.LogLevelDebug: slog.LevelDebug - 4,
}

func (l logger) Level() kgo.LogLevel {
	for _, level := range []kgo.LogLevel{kgo.LogLevelDebug, kgo.LogLevelInfo, kgo.LogLevelWarn, kgo.LogLevelError} {
		if l.log.Enabled(context.Background(), levels[level]) {
			return level
		}
	}
	return kgo.LogLevelNone
}

func (l logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	l.log.Log(context.Background(), levels[level], msg, keyvals...)
}
