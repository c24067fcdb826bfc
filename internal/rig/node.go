package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// node is one Java process, broker and controller in one.
type node struct {
	id             int
	dir            string
	plainPort      int
	securePort     int
	controllerPort int
	// With a proxy, clients dial its port, and brokers talk to each other at
	// one that is theirs alone. Zero: there is none.
	proxyPort    int
	internalPort int
	proxy        *proxy // nil until started
	ownDisk      bool   // the data directory is one, and can be made full
	// archive is the file in which this node's JVM leaves a class archive when
	// it ends by itself; empty: none.
	archive string

	orders sync.Mutex // one at a time

	mu   sync.Mutex
	proc *process // nil until started; a node that is started again has a new one
}

// address is where clients dial, direct where the node itself listens for them.
func (n *node) address() string {
	if n.proxyPort != 0 {
		return local(n.proxyPort)
	}
	return n.direct()
}

func (n *node) direct() string         { return local(n.plainPort) }
func (n *node) secureAddress() string  { return local(n.securePort) }
func (n *node) dataDir() string        { return filepath.Join(n.dir, "data") }
func (n *node) metaDir() string        { return filepath.Join(n.dir, "meta") }
func (n *node) propertiesFile() string { return filepath.Join(n.dir, "server.properties") }
func (n *node) logFile() string        { return filepath.Join(n.dir, "out.log") }

func (n *node) start(j *jvm, g *guard) error {
	out, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start node %d: %w", n.id, err)
	}
	defer out.Close()
	var opts []string
	if n.archive != "" {
		// Dumping warns of each class that cannot be archived.
		opts = []string{"-XX:ArchiveClassesAtExit=" + n.archive, "-Xlog:cds=off", "-Xlog:cds+dynamic=off"}
	}
	cmd := j.command(opts, "kafka.Kafka", n.propertiesFile())
	cmd.Dir = n.dir // where a JVM that crashes leaves its report
	cmd.Stdout, cmd.Stderr = out, out
	p, err := startProcess(cmd, g)
	if err != nil {
		return fmt.Errorf("start node %d: %w", n.id, err)
	}
	n.mu.Lock()
	n.proc = p
	n.mu.Unlock()
	return nil
}

// process returns the node's present or last process, nil before the first.
func (n *node) process() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}

func (n *node) exited() bool {
	p := n.process()
	return p != nil && p.exited()
}

// logTail returns the last lines that the node wrote.
func (n *node) logTail(lines int) string {
	b, err := os.ReadFile(n.logFile())
	if err != nil {
		return fmt.Sprintf("no log: %v", err)
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
