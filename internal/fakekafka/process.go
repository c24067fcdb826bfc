package fakekafka

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Process stands for a process on the virtual network: its clients can be cut
// off from all brokers, for a time or, as by its death, for ever.
type Process struct {
	c    *Cluster
	dead chan struct{}

	mu    sync.Mutex
	cut   bool
	held  chan struct{} // closed when bytes flow again; nil while they do
	conns map[net.Conn]bool
}

// Process returns a process that lives. The cluster must be one of [Bubble].
func (c *Cluster) Process() *Process {
	return &Process{c: c, dead: make(chan struct{}), conns: map[net.Conn]bool{}}
}

// Opts returns what the clients of the process need, instead of [Cluster.Opts].
func (p *Process) Opts() []kgo.Opt { return append(p.c.Opts(), kgo.Dialer(p.dial)) }

// Cut closes all connections of the process and lets it make no new ones.
func (p *Process) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
}

// Stall lets no byte through and closes nothing, as if the process, or the
// network, were frozen.
func (p *Process) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Heal ends a Cut and a Stall.
func (p *Process) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// wait waits while the process is stalled.
func (p *Process) wait() {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held != nil {
		<-held
	}
}

// stallable is a connection that a Stall holds up.
type stallable struct {
	net.Conn
	p *Process
}

func (c stallable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.p.wait()
	return n, err
}

func (c stallable) Write(b []byte) (int, error) {
	c.p.wait()
	return c.Conn.Write(b)
}

// Kill is what kill -9 looks like to the others: the process is cut off for
// ever. What it would do from then on must not count: see [Process.Dead]. A
// second call does nothing.
func (p *Process) Kill() {
	p.Cut()
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.dead:
	default:
		close(p.dead)
	}
}

// Dead returns a channel that is closed when the process is killed. A handler
// that plays a part in the process waits for it beside its own work.
func (p *Process) Dead() <-chan struct{} { return p.dead }

var errCut = errors.New("the process is cut off")

func (p *Process) dial(ctx context.Context, network, host string) (net.Conn, error) {
	conn, err := p.c.network.DialContext(ctx, network, host)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		_ = conn.Close()
		return nil, errCut
	}
	p.conns[conn] = true
	return stallable{conn, p}, nil
}
