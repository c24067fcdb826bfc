package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echoBundle is a proxy in front of a server that sends lines back.
type echoBundle struct {
	t *testing.T
	p *proxy
	l net.Listener
}

func setupEcho(t *testing.T) *echoBundle {
	t.Helper()
	l, err := net.Listen("tcp4", local(0))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	ports, err := reservePorts(1)
	require.NoError(t, err)
	ports.release()
	p, err := newProxy(local(ports.ports[0]), l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(p.close)
	return &echoBundle{t: t, p: p, l: l}
}

// client is a connection through the proxy.
type client struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

// dial connects from an address; empty is any.
func (b *echoBundle) dial(from string) *client {
	b.t.Helper()
	d := net.Dialer{Timeout: 5 * time.Second}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c, err := d.DialContext(b.t.Context(), "tcp4", b.p.addr)
	if err != nil && from != "" && os.Getenv("CI") == "" {
		b.t.Skipf("this machine has no address %s: %v", from, err)
	}
	require.NoError(b.t, err)
	b.t.Cleanup(func() { c.Close() })
	return &client{b.t, c, bufio.NewReader(c)}
}

func (c *client) say(line string) {
	c.t.Helper()
	_, err := io.WriteString(c, line+"\n")
	require.NoError(c.t, err)
}

// hears requires that the line comes back within a time, and returns how long
// that took.
func (c *client) hears(line string) time.Duration {
	c.t.Helper()
	began := time.Now()
	require.NoError(c.t, c.SetReadDeadline(began.Add(10*time.Second)))
	got, err := c.lines.ReadString('\n')
	require.NoError(c.t, err)
	require.Equal(c.t, line+"\n", got)
	return time.Since(began)
}

func (c *client) hearsNothing(d time.Duration) {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(d)))
	_, err := c.lines.ReadString('\n')
	timeout, ok := err.(net.Error)
	require.True(c.t, ok && timeout.Timeout(), "%v", err)
}

func TestTheProxyPassesEverythingOn(t *testing.T) {
	t.Parallel()
	b := setupEcho(t)
	c := b.dial("")
	for range 3 {
		c.say("hello")
		c.hears("hello")
	}
	require.NoError(t, c.Close())
}

// What was sent into a cut network arrives when it is healed, as TCP has it.
func TestACutHoldsEverythingUntilItIsHealed(t *testing.T) {
	t.Parallel()
	b := setupEcho(t)
	before := b.dial("")
	before.say("one")
	before.hears("one")
	b.p.set(everybody, rule{cut: true})
	before.say("two")
	before.hearsNothing(100 * time.Millisecond)
	during := b.dial("")
	during.say("three")
	during.hearsNothing(100 * time.Millisecond)
	b.p.heal()
	before.hears("two")
	during.hears("three")
}

func TestOneClientIsCutOffAndTheOthersAreNot(t *testing.T) {
	t.Parallel()
	b := setupEcho(t)
	cut, other := b.dial("127.0.0.2"), b.dial("127.0.0.3")
	b.p.set("127.0.0.2", rule{cut: true})
	cut.say("one")
	other.say("two")
	other.hears("two")
	cut.hearsNothing(100 * time.Millisecond)
	b.p.set("127.0.0.2", rule{})
	cut.hears("one")
}

func TestADelayIsAddedEachWayAndNotForEachChunk(t *testing.T) {
	t.Parallel()
	b := setupEcho(t)
	c := b.dial("")
	b.p.set(everybody, rule{delay: 200 * time.Millisecond})
	began := time.Now()
	for range 20 {
		c.say("x")
	}
	c.hears("x")
	require.GreaterOrEqual(t, time.Since(began), 400*time.Millisecond)
	for range 19 {
		c.hears("x")
	}
	require.Less(t, time.Since(began), 4*time.Second, "20 chunks one after the other")
	b.p.set(everybody, rule{delay: time.Hour})
	c.say("y")
	c.hearsNothing(100 * time.Millisecond)
	b.p.heal()
	c.hears("y")
}

func TestAShutProxyResetsAndRefuses(t *testing.T) {
	t.Parallel()
	b := setupEcho(t)
	c := b.dial("")
	c.say("one")
	c.hears("one")
	b.p.shut()
	_, err := c.lines.ReadString('\n')
	require.ErrorContains(t, err, "reset")
	_, err = (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp4", b.p.addr)
	require.ErrorContains(t, err, "refused")
	require.NoError(t, b.p.open())
	again := b.dial("")
	again.say("two")
	again.hears("two")
}

func TestAProxyOfADeadNodeResets(t *testing.T) {
	t.Parallel()
	b := setupEcho(t)
	require.NoError(t, b.l.Close())
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "tcp4", b.p.addr)
	if err == nil { // the reset can be faster than the dial
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	require.ErrorContains(t, err, "reset")
}

func TestClosingAProxyEndsWhatItHolds(t *testing.T) {
	t.Parallel()
	b := setupEcho(t)
	b.p.set(everybody, rule{cut: true})
	c := b.dial("")
	c.say("one")
	done := make(chan struct{})
	go func() { b.p.close(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("close did not return")
	}
}
