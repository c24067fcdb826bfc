package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// control lets the command do harm to the cluster: it serves a Unix socket on
// which each line is an order, answered by "ok" or "error: ..." once it is
// done. doc.go lists the orders.
type control struct {
	c      *javaCluster
	g      *guard
	l      net.Listener
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	conns sync.Map // net.Conn
}

// restartTimeout bounds the wait for a node that was started again.
const restartTimeout = time.Minute

func startControl(c *javaCluster, g *guard) (*control, error) {
	path := filepath.Join(c.work.path, "control")
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s := &control{c: c, g: g, l: l}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(s.accept)
	return s, nil
}

func (s *control) path() string { return s.l.Addr().String() }

// close ends the service, also amid an order, and waits for it.
func (s *control) close() {
	s.cancel()
	s.l.Close()
	s.conns.Range(func(c, _ any) bool {
		c.(net.Conn).Close()
		return true
	})
	s.wg.Wait()
}

func (s *control) accept() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.conns.Store(c, nil)
		s.wg.Go(func() {
			defer s.conns.Delete(c)
			defer c.Close()
			if s.ctx.Err() != nil {
				return
			}
			for lines := bufio.NewScanner(c); lines.Scan(); {
				answer := "ok"
				if err := s.obey(strings.Fields(lines.Text())); err != nil {
					answer = "error: " + strings.ReplaceAll(err.Error(), "\n", "; ")
				}
				if _, err := fmt.Fprintln(c, answer); err != nil {
					return
				}
			}
		})
	}
}

func (s *control) obey(words []string) error {
	if len(words) < 2 {
		return errors.New("want an order and a node")
	}
	order, args := words[0], words[2:]
	id, err := strconv.Atoi(words[1])
	if err != nil || id < 1 || id > len(s.c.nodes) {
		return fmt.Errorf("%s %s: want a node from 1 to %d", order, words[1], len(s.c.nodes))
	}
	n := s.c.nodes[id-1]
	// One order at a time to each node. Nodes that are started again may need
	// each other for that: alone, none of them is in a quorum.
	n.orders.Lock()
	defer n.orders.Unlock()
	if err := s.order(n, order, args); err != nil {
		return fmt.Errorf("%s node %d: %w", order, id, err)
	}
	return nil
}

func (s *control) order(n *node, order string, args []string) error {
	switch order {
	case "kill", "start", "freeze", "thaw", "fill", "unfill":
		if len(args) > 0 {
			return fmt.Errorf("unexpected %q", args)
		}
	}
	switch order {
	case "kill":
		if n.proxy != nil {
			n.proxy.shut()
		}
		return n.process().kill()
	case "start":
		return s.start(n)
	case "freeze":
		n.process().signal(syscall.SIGSTOP)
		return nil
	case "thaw":
		n.process().signal(syscall.SIGCONT)
		return nil
	case "fill", "unfill":
		return disk(n, order)
	case "cut", "heal", "delay":
		return network(n, order, args)
	}
	return errors.New("unknown order")
}

// disk leaves the node no room, or gives it back.
func disk(n *node, order string) error {
	if !n.ownDisk {
		return errors.New("it has no disk of its own: start the rig with -own-disk")
	}
	if order == "unfill" {
		return freeDisk(n.dataDir())
	}
	// It ends by itself at the next thing that it can't write, or has done so
	// while the room is given back.
	n.process().killed.Store(true)
	return fillDisk(n.dataDir())
}

// network changes the rules of the node's proxy.
func network(n *node, order string, args []string) error {
	if n.proxy == nil {
		return errors.New("there is no proxy: start the rig with -proxy")
	}
	r := rule{cut: order == "cut"}
	if order == "delay" {
		if len(args) == 0 {
			return errors.New("want a duration")
		}
		d, err := time.ParseDuration(args[0])
		if err != nil || d < 0 {
			return fmt.Errorf("%q: want a duration such as 200ms", args[0])
		}
		r.delay, args = d, args[1:]
	}
	switch {
	case len(args) > 1:
		return fmt.Errorf("unexpected %q", args[1:])
	case len(args) == 1 && net.ParseIP(args[0]) == nil:
		return fmt.Errorf("%q: want the address that the client dials from", args[0])
	case len(args) == 1:
		n.proxy.set(args[0], r)
	case order == "heal":
		n.proxy.heal()
	default:
		n.proxy.set(everybody, r)
	}
	return nil
}

// start runs a node again on its directory, and returns once it takes part in
// the cluster.
func (s *control) start(n *node) error {
	if !n.exited() {
		return errors.New("it runs")
	}
	if err := n.start(s.c.jvm, s.g); err != nil {
		return err
	}
	if n.proxy != nil {
		if err := n.proxy.open(); err != nil {
			return err
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.direct()), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeoutCause(s.ctx, restartTimeout, fmt.Errorf("not usable within %s", restartTimeout))
	defer cancel()
	r := readiness{alive: func() error {
		if n.exited() {
			return fmt.Errorf("it has ended: %s\n%s", n.process().cmd.ProcessState, n.logTail(tailLines))
		}
		return nil
	}}
	return r.poll(ctx, func(ctx context.Context) error { return takesPart(ctx, cl, int32(n.id)) })
}

// takesPart asks a broker whether the cluster counts it among the living.
func takesPart(ctx context.Context, cl *kgo.Client, id int32) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would mean all
	resp, err := req.RequestWith(ctx, cl.SeedBrokers()[0])
	if err != nil {
		return err
	}
	for _, b := range resp.Brokers {
		if b.NodeID == id {
			return nil
		}
	}
	return fmt.Errorf("it is not among the %d brokers that it knows", len(resp.Brokers))
}
