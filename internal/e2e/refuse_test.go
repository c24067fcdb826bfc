//go:build kafka

package e2e

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

// run returns the error with which each role starts, or fails to.
func run(t *testing.T, d ax.Domain) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	mux := consumer.NewMux()
	mux.HandleFunc("job", func(context.Context, *ax.Task) error { return nil })
	w, err := consumer.New(d, mux)
	require.NoError(t, err)
	m, err := delay.New(d)
	require.NoError(t, err)
	c, err := producer.New(d)
	require.NoError(t, err)
	defer c.Close(ctx)
	_, submitted := c.Submit(ctx, ax.Task{Kind: "job"})
	return map[string]error{"worker": w.Run(ctx), "mover": m.Run(ctx), "producer": submitted}
}

func TestNoBrokerIsSaidAtTheStart(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	d := bareDomain()
	d.Kafka.Brokers = []string{addr}
	for role, err := range run(t, d) {
		require.ErrorIs(t, err, ax.ErrUnreachable, role)
		require.ErrorContains(t, err, addr, role)
		require.NotErrorIs(t, err, ax.ErrUnknownOutcome, role)
	}
}

func TestMissingTopicsAreNamed(t *testing.T) {
	t.Parallel()
	d := bareDomain()
	for role, err := range run(t, d) {
		require.ErrorIs(t, err, ax.ErrTopicMissing, role)
		require.ErrorContains(t, err, "ax topics apply", role)
		if role != "producer" {
			require.ErrorContains(t, err, d.Name, role)
		}
	}
}

func TestMoreReplicasThanBrokersIsRefusedByThePlan(t *testing.T) {
	t.Parallel()
	d := bareDomain()
	d.Replication = 5
	r, err := router.New(d)
	require.NoError(t, err)
	_, err = r.Plan(t.Context(), admin(t))
	require.ErrorIs(t, err, ax.ErrInvalid)
	require.ErrorContains(t, err, "replication: 5: the cluster has 3 brokers")
	var field *ax.FieldError
	require.ErrorAs(t, err, &field)
	require.Equal(t, "replication", field.Path)
}

// secure returns a domain that reaches the cluster through TLS and SASL. The
// command of internal/rig sets the variables where it starts the brokers
// itself.
func secure(t *testing.T, d ax.Domain, mechanism string) ax.Domain {
	t.Helper()
	addrs := os.Getenv("AX_KAFKA_SECURE")
	require.NotEmpty(t, addrs, "AX_KAFKA_SECURE names no listener with TLS and SASL: let internal/rig start the brokers")
	d.Kafka = ax.Kafka{
		Brokers: strings.Split(addrs, ","),
		TLS:     ax.TLS{CAFile: os.Getenv("AX_KAFKA_SECURE_CA")},
		SASL:    ax.SASL{Mechanism: mechanism, User: os.Getenv("AX_KAFKA_SECURE_USER"), Password: ax.Secret(os.Getenv("AX_KAFKA_SECURE_PASSWORD"))},
	}
	return d
}

func TestTLSAndSASLReachEveryRole(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			r := newDomain(t, nil)
			d := secure(t, r.Domain(), mechanism)
			var got journal
			mux := consumer.NewMux()
			mux.HandleFunc("job", got.handle)
			roles(t, d, mux)
			_, err := client(t, d).Submit(t.Context(), ax.Task{Kind: "job"}, producer.After(2*time.Second))
			require.NoError(t, err)
			eventually(t, 30*time.Second, func() (bool, string) { return len(got.list()) == 1, "the task has to run" })
		})
	}
}

func TestAWrongPasswordIsSaidAtTheStartAndNotPrinted(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-512"} {
		d := secure(t, bareDomain(), mechanism)
		d.Kafka.SASL.Password = "open-sesame"
		for role, err := range run(t, d) {
			require.ErrorIs(t, err, ax.ErrAuth, role)
			require.NotContains(t, err.Error(), "open-sesame", role)
		}
	}
}
