package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestOrdersThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	s := &control{c: &javaCluster{nodes: testNodes(3)}}
	for order, want := range map[string]string{
		"":                   "want an order and a node",
		"kill":               "want an order and a node",
		"kill 4":             "want a node from 1 to 3",
		"kill x":             "want a node from 1 to 3",
		"kill 1 now":         "unexpected",
		"eat 1":              "eat node 1: unknown order",
		"fill 1":             "start the rig with -own-disk",
		"unfill 1 now":       "unexpected",
		"cut 1":              "start the rig with -proxy",
		"delay 2 1s 1.2.3.4": "start the rig with -proxy",
	} {
		require.ErrorContains(t, s.obey(strings.Fields(order)), want, order)
	}
	s.c.nodes[0].proxy = setupEcho(t).p
	for order, want := range map[string]string{
		"cut 1 localhost":       "the address that the client dials from",
		"cut 1 127.0.0.1 again": "unexpected",
		"delay 1":               "want a duration",
		"delay 1 soon":          "want a duration",
		"delay 1 -1s":           "want a duration",
		"heal 1 x":              "the address that the client dials from",
	} {
		require.ErrorContains(t, s.obey(strings.Fields(order)), want, order)
	}
}

// A soak's whole repertoire: the brokers are killed and come back, and the
// network to one of them is cut and slow, for all clients or for one.
func TestRigObeysOrders(t *testing.T) {
	b := setupRig(t)
	code, stdout, stderr := b.run(t, "-nodes", "3", "-proxy", "--", b.self, "client", "plaintext", "scram", "orders", "plaintext")
	require.Equal(t, 0, code, "output: %s\nerrors: %s", stdout, stderr)
	require.Equal(t, "ok plaintext\nok scram\nok orders\nok plaintext\n", stdout)
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
}

// A rig that has no command serves until a signal, also while all of its nodes
// are dead by order.
func TestRigThatServesObeysOrdersToo(t *testing.T) {
	b := setupRig(t)
	cmd := b.command(t, "-provider", "java")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	path := ""
	for lines := bufio.NewScanner(said); path == "" && lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "export AX_KAFKA_CONTROL="); ok {
			path = strings.Trim(v, "'")
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, order(ctx, path, "kill 1"))
	require.Error(t, alone(ctx, strings.TrimSpace(address), ""))
	require.NoError(t, order(ctx, path, "start 1"))
	require.NoError(t, alone(ctx, strings.TrimSpace(address), ""))
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
	b.requireNothingRuns(t)
	b.requireNoFiles(t)
}

// order has an order carried out through the socket.
func order(ctx context.Context, path, text string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(c, text); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err
	}
	if answer != "ok\n" {
		return fmt.Errorf("%s: %s", text, strings.TrimSpace(answer))
	}
	return nil
}

// alone asks one broker something, from an address of ours, for a second.
func alone(ctx context.Context, address, from string) error {
	d := &net.Dialer{Timeout: time.Second}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.Dialer(d.DialContext), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	within, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return cl.Ping(within)
}

// obeyOrders is the client's role that gives orders and looks what comes of
// them.
func obeyOrders(ctx context.Context) error {
	path, addresses := os.Getenv("AX_KAFKA_CONTROL"), seeds(os.Getenv("AX_KAFKA"))
	for _, s := range []struct {
		order     string
		node      int
		from      string
		reachable bool
	}{
		{"kill 2", 2, "", false},
		{"start 2", 2, "", true},
		{"cut 3", 3, "", false},
		{"heal 3", 3, "", true},
		{"cut 3 127.0.0.7", 3, "127.0.0.7", false},
		{"cut 3 127.0.0.7", 3, "", true},
		{"cut 3 127.0.0.7", 1, "127.0.0.7", true},
		{"heal 3 127.0.0.7", 3, "127.0.0.7", true},
		{"delay 1 2s", 1, "", false},
		{"delay 1 50ms", 1, "", true},
		{"heal 1", 1, "", true},
		{"freeze 1", 1, "", false},
		{"thaw 1", 1, "", true},
	} {
		if err := order(ctx, path, s.order); err != nil {
			return err
		}
		err := alone(ctx, addresses[s.node-1], s.from)
		for tries := 0; s.reachable && err != nil && tries < 10; tries++ { // it may have been slow
			err = alone(ctx, addresses[s.node-1], s.from)
		}
		if (err == nil) != s.reachable {
			return fmt.Errorf("after %q node %d is reachable from %q: %t, want %t: %w", s.order, s.node, s.from, err == nil, s.reachable,
				errors.Join(err, ctx.Err()))
		}
	}
	if err := order(ctx, path, "start 1"); err == nil {
		return errors.New("a node that runs was started again")
	}
	return nil
}
