package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken below 32768, where Linux starts to choose the local ports of
// outgoing connections: there any client's socket, even one that is closed and
// in TIME_WAIT, can make a broker's bind fail.
const (
	firstPort = 20000
	lastPort  = 32767
)

// portSet holds free ports of 127.0.0.1 by listening on them.
type portSet struct {
	ports     []int
	listeners []net.Listener
}

// reservePorts takes n ports at random. They stay taken until release, which
// belongs just before the processes that are to bind them.
func reservePorts(n int) (*portSet, error) {
	s := &portSet{}
	var last error
	for range 100 * n {
		if len(s.ports) == n {
			return s, nil
		}
		p := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			last = err
			continue
		}
		s.ports = append(s.ports, p)
		s.listeners = append(s.listeners, l)
	}
	s.release()
	return nil, fmt.Errorf("reserve %d ports in %d-%d: %w", n, firstPort, lastPort,
		errors.Join(errors.New("too few are free"), last))
}

func (s *portSet) release() {
	for _, l := range s.listeners {
		l.Close() // nothing was accepted, nothing can be lost
	}
	s.listeners = nil
}
