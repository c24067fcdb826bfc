package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// proxy stands between the clients and one node, and makes the network between
// them as bad as it is told. A rule applies to all clients, or to those that
// dial from one address: every address of 127.0.0.0/8 is this machine, so a
// client that is to be cut off alone dials from one of its own.
type proxy struct {
	addr string // where clients dial
	to   string // the node

	mu      sync.Mutex
	l       net.Listener // nil while the node is down
	rules   map[string]rule
	changed chan struct{} // closed when the rules change
	conns   map[net.Conn]struct{}

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// rule is what happens to what passes. The zero rule lets it pass.
type rule struct {
	cut   bool // nothing passes; it is held until the rule ends
	delay time.Duration
}

const (
	everybody = "" // the key of the rule for all clients
	// What a connection may hold back for one direction, in chunks.
	proxyChunk  = 32 << 10
	proxyChunks = 64

	proxyDialTimeout = 5 * time.Second
)

// newProxy listens at addr for clients of the node at to.
func newProxy(addr, to string) (*proxy, error) {
	p := &proxy{addr: addr, to: to, rules: map[string]rule{}, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if err := p.open(); err != nil {
		p.cancel()
		return nil, err
	}
	return p, nil
}

// open lets clients in. It does nothing where they are let in already.
func (p *proxy) open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l != nil || p.ctx.Err() != nil {
		return nil
	}
	l, err := net.Listen("tcp4", p.addr)
	if err != nil {
		return fmt.Errorf("proxy of %s: %w", p.to, err)
	}
	p.l = l
	p.wg.Go(func() { p.accept(l) })
	return nil
}

// shut refuses clients and resets their connections, as a node does that has
// died. A client would take an accepted connection that closes at once for
// something else.
func (p *proxy) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l != nil {
		p.l.Close()
		p.l = nil
	}
	// First all of them, since the end of one makes its other half close too.
	for c := range p.conns {
		abrupt(c)
	}
	for c := range p.conns {
		c.Close()
	}
}

// close ends the proxy and waits for its goroutines.
func (p *proxy) close() {
	p.cancel()
	p.shut()
	p.wg.Wait()
}

// set changes the rule for the clients that dial from an address, or for
// everybody.
func (p *proxy) set(from string, r rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rules[from] = r; r == (rule{}) {
		delete(p.rules, from)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// heal ends all rules.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.rules)
	close(p.changed)
	p.changed = make(chan struct{})
}

// rule returns what applies to a client, and a channel that is closed when
// that may have changed.
func (p *proxy) rule(from string) (rule, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, one := p.rules[everybody], p.rules[from]
	return rule{cut: all.cut || one.cut, delay: max(all.delay, one.delay)}, p.changed
}

func (p *proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of files, or a client that has gone again: the next may do.
			if !p.pause(10 * time.Millisecond) {
				return
			}
			continue
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

func (p *proxy) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// serve passes on what a client and the node say to each other, until either
// hangs up.
func (p *proxy) serve(client net.Conn) {
	from, _, _ := net.SplitHostPort(client.RemoteAddr().String())
	dialer := net.Dialer{Timeout: proxyDialTimeout}
	node, err := dialer.DialContext(p.ctx, "tcp4", p.to)
	if err != nil {
		reset(client)
		return
	}
	if !p.keep(client, node) {
		return
	}
	var wg sync.WaitGroup
	ended := make(chan struct{})
	once := sync.OnceFunc(func() { close(ended) })
	wg.Go(func() { p.pass(from, node, client, ended); once() })
	wg.Go(func() { p.pass(from, client, node, ended); once() })
	<-ended
	client.Close()
	node.Close()
	wg.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, node)
	p.mu.Unlock()
}

// keep remembers the connections, so that shut finds them. It reports false,
// and resets them, where the proxy has been shut meanwhile.
func (p *proxy) keep(client, node net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l == nil {
		reset(client)
		node.Close()
		return false
	}
	p.conns[client], p.conns[node] = struct{}{}, struct{}{}
	return true
}

type chunk struct {
	data []byte
	at   time.Time
}

// pass copies one direction under the rules, until the source ends and all of
// it was passed on, or a write fails, or the other direction has ended.
func (p *proxy) pass(client string, to, from net.Conn, ended <-chan struct{}) {
	chunks := make(chan chunk, proxyChunks)
	p.wg.Go(func() {
		defer close(chunks)
		for {
			b := make([]byte, proxyChunk)
			n, err := from.Read(b)
			if n > 0 {
				select {
				case chunks <- chunk{b[:n], time.Now()}:
				case <-ended:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	for c := range chunks {
		if !p.mayPass(client, c.at, ended) {
			return
		}
		if _, err := to.Write(c.data); err != nil {
			return
		}
	}
}

// mayPass waits until what came at an instant may be passed on. It reports
// false when the connection ends first.
func (p *proxy) mayPass(client string, at time.Time, ended <-chan struct{}) bool {
	for {
		r, changed := p.rule(client)
		wait := time.Until(at.Add(r.delay))
		if !r.cut && wait <= 0 {
			return true
		}
		var due <-chan time.Time
		if !r.cut {
			t := time.NewTimer(wait)
			defer t.Stop()
			due = t.C
		}
		select {
		case <-due:
		case <-changed:
		case <-ended:
			return false
		case <-p.ctx.Done():
			return false
		}
	}
}

// reset closes a connection so that the other side gets an error and not an
// end.
func reset(c net.Conn) {
	abrupt(c)
	c.Close()
}

// abrupt makes the close of a connection, whoever does it, a reset.
func abrupt(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // it may be closed already
	}
}
