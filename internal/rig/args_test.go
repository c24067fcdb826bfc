package main

import (
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseArgs(t *testing.T) {
	t.Parallel()
	defaults := func(change func(*config)) config {
		c := config{nodes: 1, provider: "auto", kafkaVersion: "4.4.0", timeout: 90 * time.Second, set: map[string]string{}}
		change(&c)
		return c
	}
	for _, tc := range []struct {
		name, args string
		want       config
	}{
		{"nothing", "", defaults(func(*config) {})},
		{"command with flags of its own", "-nodes 3 -- go test -nodes 5 -- x", defaults(func(c *config) {
			c.nodes = 3
			c.command = []string{"go", "test", "-nodes", "5", "--", "x"}
		})},
		{"settings", "-set a=b=c -set d= -acl -timeout 5s", defaults(func(c *config) {
			c.set = map[string]string{"a": "b=c", "d": ""}
			c.acl = true
			c.timeout = 5 * time.Second
		})},
		{"disk", "-own-disk 3 -nodes 3", defaults(func(c *config) { c.ownDisk, c.nodes = 3, 3 })},
		{"proxy", "-proxy -nodes 3", defaults(func(c *config) { c.proxy, c.nodes = true, 3 })},
		{"version", "-kafka-version 4.0.1 -provider java", defaults(func(c *config) {
			c.kafkaVersion, c.versionAsked, c.provider = "4.0.1", true, "java"
		})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseArgs(strings.Fields(tc.args), io.Discard)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestParseArgsRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-nodes 2":                     "want 1 or 3",
		"-provider podman":             `-provider "podman"`,
		"-kafka-version ../x":          `-kafka-version "../x"`,
		"-timeout 0s":                  "positive",
		"-proxy -provider docker":      "-proxy: provider docker",
		"-own-disk 2":                  "-own-disk 2: want a node from 1 to 1",
		"-own-disk 1 -provider docker": "-own-disk: provider docker",
		"-set novalue":                 "key=value",
		"go test":                      "after --",
		"-nodes 1 --":                  "no command",
		"-nodes 2 -provider x -acl yy": "-nodes 2: want 1 or 3\n-provider",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			_, err := parseArgs(strings.Fields(args), io.Discard)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestHelpGoesToStderrAndSucceeds(t *testing.T) {
	t.Parallel()
	var out, errOut strings.Builder
	require.Equal(t, 0, rigMain([]string{"-h"}, &out, &errOut))
	require.Empty(t, out.String())
	require.Contains(t, errOut.String(), "-kafka-version")
	_, err := parseArgs([]string{"-help"}, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
}
