package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testNodes(n int) []*node {
	var nodes []*node
	for i := range n {
		nodes = append(nodes, &node{id: i + 1, dir: filepath.Join("dir", string(rune('1'+i))),
			plainPort: 100 + i, securePort: 200 + i, controllerPort: 300 + i})
	}
	return nodes
}

func TestNodeProperties(t *testing.T) {
	t.Parallel()
	sec := &security{caFile: "ca", keystoreFile: "ks", adminPassword: "A", appPassword: "B"}
	nodes := testNodes(3)
	cfg := config{set: map[string]string{"num.io.threads": "9"}}
	p := nodeProperties(nodes[1], nodes, sec, cfg)
	for key, want := range map[string]string{
		"node.id":                                     "2",
		"controller.quorum.voters":                    "1@127.0.0.1:300,2@127.0.0.1:301,3@127.0.0.1:302",
		"listeners":                                   "PLAINTEXT://127.0.0.1:101,SECURE://127.0.0.1:201,CONTROLLER://127.0.0.1:301",
		"advertised.listeners":                        "PLAINTEXT://127.0.0.1:101,SECURE://127.0.0.1:201",
		"log.dirs":                                    filepath.Join("dir", "2", "data"),
		"metadata.log.dir":                            filepath.Join("dir", "2", "meta"),
		"default.replication.factor":                  "3",
		"min.insync.replicas":                         "2",
		"offsets.topic.replication.factor":            "3",
		"group.initial.rebalance.delay.ms":            "0",
		"group.min.session.timeout.ms":                "500",
		"group.consumer.heartbeat.interval.ms":        "500",
		"group.consumer.session.timeout.ms":           "6000",
		"group.share.heartbeat.interval.ms":           "200",
		"num.io.threads":                              "9", // -set has the last word
		"listener.name.secure.plain.sasl.jaas.config": `org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="A" user_ax="B";`,
	} {
		require.Equal(t, want, p[key], key)
	}
	require.NotContains(t, p, "authorizer.class.name")

	for i, n := range nodes {
		n.proxyPort, n.internalPort = 400+i, 500+i
	}
	p = nodeProperties(nodes[1], nodes, sec, config{})
	for key, want := range map[string]string{
		"listeners":                  "PLAINTEXT://127.0.0.1:101,SECURE://127.0.0.1:201,INTERNAL://127.0.0.1:501,CONTROLLER://127.0.0.1:301",
		"advertised.listeners":       "PLAINTEXT://127.0.0.1:401,SECURE://127.0.0.1:201,INTERNAL://127.0.0.1:501",
		"inter.broker.listener.name": "INTERNAL",
	} {
		require.Equal(t, want, p[key], key)
	}
	nodes[0].proxyPort = 0

	one := nodeProperties(nodes[0], nodes[:1], sec, config{acl: true})
	require.Equal(t, "1", one["default.replication.factor"])
	require.Equal(t, "1", one["transaction.state.log.min.isr"])
	require.Equal(t, "User:ANONYMOUS;User:admin", one["super.users"])
}

func TestFormatProperties(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a=x\\\\y\\nz\nb=1\n", formatProperties(map[string]string{"b": "1", "a": "x\\y\nz"}))
}

func TestReservedPortsAreFreeDistinctAndLow(t *testing.T) {
	t.Parallel()
	s, err := reservePorts(9)
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, p := range s.ports {
		require.False(t, seen[p], "port %d twice", p)
		seen[p] = true
		require.GreaterOrEqual(t, p, 20000)
		require.Less(t, p, 32768)
		_, err := net.Listen("tcp4", local(p))
		require.Error(t, err, "port %d is not held", p)
	}
	s.release()
	for _, p := range s.ports {
		l, err := net.Listen("tcp4", local(p))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

func TestJavaMajor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime":       17,
		"Picked up JAVA_TOOL_OPTIONS: -Dx\nopenjdk version \"21\" 2023": 21,
		"java version \"1.8.0_392\"":                                    8,
		"openjdk version \"25-ea\"":                                     25,
	} {
		got, err := javaMajor(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := javaMajor("command not found")
	require.ErrorContains(t, err, "command not found")
}

func TestJarsDependOnVersionAndLogging(t *testing.T) {
	t.Parallel()
	four, three := jarsOf("cache", "4.4.0"), jarsOf("cache", "3.9.2")
	require.Contains(t, four.pom, "<version>4.4.0</version>")
	require.Contains(t, four.pom, "log4j-slf4j-impl")
	require.Contains(t, three.pom, "slf4j-reload4j")
	require.NotEqual(t, four.dir, three.dir)
	require.True(t, strings.HasPrefix(four.dir, filepath.Join("cache", "ax-kafka", "4.4.0-")))
	require.False(t, four.complete())
}

func TestLockFileGivesUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path)
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = lockFile(short, path)
	require.ErrorContains(t, err, "held by another rig")
	unlock()
	unlock, err = lockFile(t.Context(), path)
	require.NoError(t, err)
	unlock()
}

func TestKafkaIDs(t *testing.T) {
	t.Parallel()
	for range 1000 {
		id := newKafkaID()
		require.Len(t, id, 22)
		require.NotEqual(t, byte('-'), id[0])
	}
}

func TestCertificatesServeThisHost(t *testing.T) {
	t.Parallel()
	ca, keystore, err := makeCertificates(time.Now())
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(keystore, keystore)
	require.NoError(t, err)
	require.Len(t, pair.Certificate, 2, "the authority is part of the chain")
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	for _, name := range []string{"127.0.0.1", "localhost"} {
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
		require.NoError(t, err)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "example.com"})
	require.Error(t, err)
}

func TestSecretsAreNotReadableByOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sec, err := newSecurity(dir)
	require.NoError(t, err)
	file := filepath.Join(dir, "1", "server.properties")
	require.NoError(t, writeProperties(file, sec.properties()))
	for _, f := range []string{file, sec.keystoreFile} {
		st, err := os.Stat(f)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), st.Mode().Perm(), f)
	}
	require.NotEqual(t, sec.adminPassword, sec.appPassword)
}
