package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The users of the SECURE listener, known to SCRAM-SHA-512 and to PLAIN.
const (
	adminUser = "admin" // a super user where -acl is on
	appUser   = "ax"
)

// security is the private part of one cluster: certificates and passwords that
// live as long as it does.
type security struct {
	caFile, keystoreFile       string
	adminPassword, appPassword string
}

// newSecurity makes certificates in dir and chooses passwords.
func newSecurity(dir string) (*security, error) {
	s := &security{
		caFile:        filepath.Join(dir, "ca.pem"),
		keystoreFile:  filepath.Join(dir, "keystore.pem"),
		adminPassword: rand.Text(),
		appPassword:   rand.Text(),
	}
	ca, keystore, err := makeCertificates(time.Now())
	if err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	if err := os.WriteFile(s.caFile, ca, 0o644); err != nil {
		return nil, fmt.Errorf("write certificate: %w", err)
	}
	if err := os.WriteFile(s.keystoreFile, keystore, 0o600); err != nil {
		return nil, fmt.Errorf("write key store: %w", err)
	}
	return s, nil
}

// properties returns the settings of the SECURE listener.
func (s *security) properties() map[string]string {
	return map[string]string{
		"sasl.enabled.mechanisms":                             "SCRAM-SHA-512,PLAIN",
		"listener.name.secure.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.secure.plain.sasl.jaas.config": fmt.Sprintf(
			"org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=%q user_%s=%q;",
			adminUser, s.adminPassword, appUser, s.appPassword),
		"ssl.keystore.type":       "PEM",
		"ssl.keystore.location":   s.keystoreFile,
		"ssl.truststore.type":     "PEM",
		"ssl.truststore.location": s.caFile,
	}
}

// scramArgs returns the arguments that make the storage tool create the users.
func (s *security) scramArgs() []string {
	user := func(name, password string) string {
		return fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", name, password)
	}
	return []string{
		"--add-scram", user(adminUser, s.adminPassword),
		"--add-scram", user(appUser, s.appPassword),
	}
}

// makeCertificates returns a new authority and, signed by it, a key store for
// brokers on this machine, both as PEM. One certificate serves all nodes: it
// speaks of the host, which they share.
func makeCertificates(now time.Time) (ca, keystore []byte, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	// An hour back, for the clock of a client that a test has shifted a little.
	from, to := now.Add(-time.Hour), now.Add(30*24*time.Hour)
	caCert := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "ax test rig authority"},
		NotBefore:             from,
		NotAfter:              to,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "ax test rig broker"},
		NotBefore:    from,
		NotAfter:     to,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     []string{"localhost"},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, caCert, caCert, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, nil, err
	}
	certDER, err := x509.CreateCertificate(rand.Reader, cert, caCert, &key.PublicKey, caKey)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	ca = block("CERTIFICATE", caDER)
	keystore = append(block("PRIVATE KEY", keyDER), block("CERTIFICATE", certDER)...)
	return ca, append(keystore, ca...), nil
}
