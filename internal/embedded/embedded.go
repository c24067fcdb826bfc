// Package embedded runs a Kafka broker inside this process, for the demo and
// for a first try without an installation.
//
// The broker is franz-go's kfake. It speaks the real protocol on a loopback
// port, and is no place for tasks that matter: it has one copy of each record,
// and what it holds is deleted when it is closed. It ignores
// message.timestamp.type, so records keep the time of their producer.
package embedded

import (
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Broker is a broker in this process. Make it with [Start], end it with
// [Broker.Close].
type Broker struct {
	cluster *kfake.Cluster
	dir     string
}

// Start returns a running broker without topics. Its records are on disk, in a
// new directory for temporary files, so that a long run costs little memory. A
// directory of its own also means that no other broker can share it, which
// kfake would not notice. A process that is killed leaves the directory behind.
func Start() (*Broker, error) {
	dir, err := os.MkdirTemp("", "ax-embedded-")
	if err != nil {
		return nil, fmt.Errorf("embedded broker: make its directory: %w", err)
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.DataDir(dir),
		kfake.BrokerConfigs(map[string]string{
			// Only whole segments are deleted, and the default of 100 MiB
			// for each of some forty partitions would fill a disk first.
			"log.segment.bytes": "1048576",
			// How often retention and compaction run; the default is an hour.
			"log.cleaner.backoff.ms": "30000",
		}),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("embedded broker: start in %s: %w", dir, err), os.RemoveAll(dir))
	}
	return &Broker{cluster: cluster, dir: dir}, nil
}

// Addrs returns host:port of the broker.
func (b *Broker) Addrs() []string { return b.cluster.ListenAddrs() }

// Close ends the broker and deletes what it holds. Clients of it are to be
// closed before. A second call does nothing.
func (b *Broker) Close() error {
	b.cluster.Close()
	if err := os.RemoveAll(b.dir); err != nil {
		return fmt.Errorf("embedded broker: delete its directory: %w", err)
	}
	return nil
}
