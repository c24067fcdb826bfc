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

// Heal lets the process connect again.
func (p *Process) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
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
	return conn, nil
}
