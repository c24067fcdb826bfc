package producer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// secured starts a cluster whose topic is made by the cluster itself, since
// only the producer under test has credentials.
func secured(t *testing.T, opts ...kfake.Opt) ax.Domain {
	t.Helper()
	c := fakekafka.Start(t, fakekafka.With(append(opts, kfake.SeedTopics(1, "orders.lane.normal"))...))
	return c.Domain(ax.Domain{Name: "orders"})
}

func submitOne(t *testing.T, d ax.Domain) error {
	t.Helper()
	cl, err := producer.New(d)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	_, err = cl.Submit(ctx, ax.Task{Kind: "k"})
	require.Less(t, time.Since(began), 6*time.Second)
	require.NoError(t, cl.Close(ctx))
	return err
}

func TestSASLComesFromTheDomain(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			d := secured(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "ax", "s3cret"))
			d.Kafka.SASL = ax.SASL{Mechanism: mechanism, User: "ax", Password: "s3cret"}
			require.NoError(t, submitOne(t, d))

			file := filepath.Join(t.TempDir(), "password")
			require.NoError(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
			d.Kafka.SASL.Password, d.Kafka.SASL.PasswordFile = "", file
			require.NoError(t, submitOne(t, d))

			d.Kafka.SASL.Password, d.Kafka.SASL.PasswordFile = "guess", ""
			err := submitOne(t, d)
			requireTaskError(t, err)
			require.NotContains(t, err.Error(), "guess", "the password is in no error")
			require.NotErrorIs(t, err, ax.ErrUnknownOutcome)
			// kfake hangs up where a real broker says why: the test below.
			require.ErrorIs(t, err, ax.ErrUnreachable)
			require.ErrorContains(t, err, "wrong user or password?")
			require.ErrorContains(t, err, d.Kafka.Brokers[0])
		})
	}
}

// A real broker answers a wrong password with SASL_AUTHENTICATION_FAILED.
func TestWrongPasswordIsAnAuthErrorWhereTheBrokerSaysSo(t *testing.T) {
	t.Parallel()
	c := fakekafka.Start(t, fakekafka.With(kfake.EnableSASL(), kfake.Superuser("PLAIN", "ax", "s3cret")))
	c.Kfake().ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	d := c.Domain(ax.Domain{Name: "orders"})
	d.Kafka.SASL = ax.SASL{Mechanism: "PLAIN", User: "ax", Password: "guess"}
	err := submitOne(t, d)
	require.ErrorIs(t, err, ax.ErrAuth)
	require.NotErrorIs(t, err, ax.ErrUnknownOutcome)
	require.NotContains(t, err.Error(), "guess")
}

func TestMissingCredentialsFailAndAreNotUnknown(t *testing.T) {
	t.Parallel()
	d := secured(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "ax", "s3cret"))
	err := submitOne(t, d)
	require.ErrorIs(t, err, ax.ErrUnreachable)
	require.ErrorContains(t, err, "SASL", "a guess of the Kafka client")
	require.NotErrorIs(t, err, ax.ErrUnknownOutcome)
}

// authority makes a CA and a server certificate for the loopback address. It
// returns the server's configuration and the file of the CA.
func authority(t *testing.T) (*tls.Config, string) {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ax test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"kafka.example"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), 0o600))
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}, file
}

func TestTLSComesFromTheDomain(t *testing.T) {
	t.Parallel()
	server, ca := authority(t)
	_, otherCA := authority(t)
	d := secured(t, kfake.TLS(server))
	with := func(tls ax.TLS) ax.Domain {
		d := d
		d.Kafka.TLS = tls
		return d
	}
	require.NoError(t, submitOne(t, with(ax.TLS{CAFile: ca})))
	require.NoError(t, submitOne(t, with(ax.TLS{CAFile: ca, ServerName: "kafka.example"})))

	for why, tls := range map[string]ax.TLS{
		"unknown authority": {Enabled: true}, // the system's CAs
		"certificate":       {CAFile: otherCA},
		"other.example":     {CAFile: ca, ServerName: "other.example"},
		"TLS missing":       {},
	} {
		err := submitOne(t, with(tls))
		require.ErrorIs(t, err, ax.ErrUnreachable, why)
		require.ErrorContains(t, err, why)
		require.ErrorContains(t, err, d.Kafka.Brokers[0])
		require.NotErrorIs(t, err, ax.ErrUnknownOutcome)
	}
}

func TestTLSAndSASLTogether(t *testing.T) {
	t.Parallel()
	server, ca := authority(t)
	d := secured(t, kfake.TLS(server), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "ax", "s3cret"))
	d.Kafka.TLS = ax.TLS{CAFile: ca}
	d.Kafka.SASL = ax.SASL{Mechanism: "SCRAM-SHA-512", User: "ax", Password: "s3cret"}
	require.NoError(t, submitOne(t, d))
}

func TestNewNamesTheFileThatItCantUse(t *testing.T) {
	t.Parallel()
	d := orders()
	d.Kafka.TLS.CAFile = filepath.Join(t.TempDir(), "gone.pem")
	_, err := producer.New(d)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, d.Kafka.TLS.CAFile)
}
