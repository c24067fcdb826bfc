package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPickProvider(t *testing.T) {
	t.Parallel()
	fake := func(name string, err error) provider {
		return provider{name: name, usable: func(context.Context, config) error { return err }}
	}
	no := errors.New("not here")
	list := []provider{fake("address", no), fake("docker", nil), fake("java", nil)}

	p, err := pickProvider(t.Context(), config{provider: "auto"}, list)
	require.NoError(t, err)
	require.Equal(t, "docker", p.name, "the first usable one")

	p, err = pickProvider(t.Context(), config{provider: "java"}, list)
	require.NoError(t, err)
	require.Equal(t, "java", p.name, "the one that is forced")

	_, err = pickProvider(t.Context(), config{provider: "address"}, list)
	require.ErrorContains(t, err, "address: not here")
	require.NotContains(t, err.Error(), "docker:", "others are not asked")

	none := []provider{fake("docker", no), fake("java", errors.New("no java in PATH"))}
	_, err = pickProvider(t.Context(), config{provider: "auto"}, none)
	for _, want := range []string{"docker: not here", "java: no java in PATH", "docker.io", "openjdk-17-jdk-headless maven"} {
		require.ErrorContains(t, err, want)
	}
}

func TestProvidersAreTriedInDocumentedOrder(t *testing.T) {
	t.Parallel()
	var names []string
	for _, p := range providers() {
		names = append(names, p.name)
	}
	require.Equal(t, []string{"address", "docker", "java"}, names)
}

func TestDockerIsRuledOutByWhatItCannotDo(t *testing.T) {
	t.Parallel()
	for _, cfg := range []config{{nodes: 3}, {nodes: 1, acl: true}, {nodes: 1, versionAsked: true}} {
		require.Error(t, dockerUsable(t.Context(), cfg))
	}
}

// The library panics where there is no engine, and takes no context.
func TestMissingDockerEngineIsNoticedQuickly(t *testing.T) {
	t.Parallel()
	start := time.Now()
	err := dockerUsable(t.Context(), config{nodes: 1})
	require.Less(t, time.Since(start), dockerProbeTimeout+2*time.Second)
	if err != nil {
		require.ErrorContains(t, err, "Docker engine")
	}
}

func TestContainerEnv(t *testing.T) {
	t.Parallel()
	env := containerEnv(config{set: map[string]string{"a.b_c-d": "x", "num.io.threads": "9"}})
	require.Equal(t, "x", env["KAFKA_A_B__C___D"])
	require.Equal(t, "9", env["KAFKA_NUM_IO_THREADS"])
	require.Equal(t, "false", env["KAFKA_AUTO_CREATE_TOPICS_ENABLE"])
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	base := []string{"AX_KAFKA=old", "AX_KAFKA_PIDS=1", "AX_KAFKA_SECURE=s", "AX_KAFKAESQUE=kept", "PATH=p"}

	e := endpoints{bootstrap: "h:1", pids: []int{5, 6, 7}}
	require.Equal(t, []string{"AX_KAFKAESQUE=kept", "PATH=p", "AX_KAFKA=h:1", "AX_KAFKA_PIDS=5,6,7"}, e.environ(base),
		"nothing about another cluster stays")

	e = endpoints{bootstrap: "old", inherited: true}
	require.Equal(t, append(base, "AX_KAFKA=old"), e.environ(base))

	e = endpoints{bootstrap: "h:1", secure: &secureEndpoint{bootstrap: "h:2", caFile: "f", password: "p", adminPassword: "q"}}
	require.Equal(t, []string{
		"AX_KAFKA=h:1", "AX_KAFKA_SECURE=h:2", "AX_KAFKA_SECURE_CA=f",
		"AX_KAFKA_SECURE_USER=ax", "AX_KAFKA_SECURE_PASSWORD=p",
		"AX_KAFKA_SECURE_ADMIN_USER=admin", "AX_KAFKA_SECURE_ADMIN_PASSWORD=q",
	}, e.environ(nil))
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	require.Equal(t, `'a b'`, shellQuote("a b"))
	require.Equal(t, `'it'\''s $x'`, shellQuote("it's $x"))
}
