package ax

import (
	"fmt"
	"log/slog"
)

// Kafka says how to reach the brokers. TLS and SASL apply to every client that
// is made from the domain.
type Kafka struct {
	// Brokers are host:port pairs; any one that answers leads to the others.
	Brokers []string `yaml:"brokers" env:"KAFKA"`
	TLS     TLS      `yaml:"tls" envPrefix:"TLS_"`
	SASL    SASL     `yaml:"sasl" envPrefix:"SASL_"`
	// GroupProtocol is how workers and movers share partitions: [Classic],
	// which is the default, or [Consumer].
	GroupProtocol string `yaml:"group_protocol" env:"GROUP_PROTOCOL"`
}

// The protocols of consumer groups, by the names of Kafka's own setting
// group.protocol. A group changes from one to the other while it works: its
// members may be restarted one by one.
const (
	// Classic lets the members share the partitions out, cooperatively. ax
	// asks for a session of 6 s, so that a killed worker's partitions move
	// within seconds.
	Classic = "classic"
	// Consumer lets the broker share them out (KIP-848); it needs Kafka 4.0
	// or newer. The session is the broker's setting, 45 s unless
	// group.consumer.session.timeout.ms says otherwise: for that long a killed
	// worker's partitions stand still.
	Consumer = "consumer"
)

// TLS encrypts the connections when Enabled, or when any other field is set.
type TLS struct {
	Enabled bool `yaml:"enabled" env:"ENABLED"`
	// CAFile holds the PEM certificates that sign the brokers'. Empty: the
	// system's.
	CAFile string `yaml:"ca_file" env:"CA_FILE"`
	// CertFile and KeyFile hold the client's own certificate, where brokers
	// ask for one.
	CertFile string `yaml:"cert_file" env:"CERT_FILE"`
	KeyFile  string `yaml:"key_file" env:"KEY_FILE"`
	// ServerName is the name that the brokers' certificates must hold. Empty:
	// the name that was dialled.
	ServerName string `yaml:"server_name" env:"SERVER_NAME"`
}

// On reports whether connections are encrypted.
func (t TLS) On() bool { return t != TLS{} }

// SASL authenticates the connections when Mechanism is set.
type SASL struct {
	// Mechanism is "PLAIN", "SCRAM-SHA-256" or "SCRAM-SHA-512".
	Mechanism string `yaml:"mechanism" env:"MECHANISM"`
	User      string `yaml:"user" env:"USER"`
	Password  Secret `yaml:"password" env:"PASSWORD"`
	// PasswordFile holds the password where it is not given itself; a final
	// newline is not part of it. It is read when a client is made.
	PasswordFile string `yaml:"password_file" env:"PASSWORD_FILE"`
}

// Secret is a text that prints as stars in package fmt, in logs, and in what
// encoders write. Convert it to a string to use it. Package fmt can't call
// methods of what an unexported field holds: don't print a struct of your own
// that keeps a Domain in one.
type Secret string

const stars = "*****"

// String returns stars, or nothing for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return stars
}

// Format prints stars for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// MarshalText gives stars, so that encoders print no secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue gives stars to a logger.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
