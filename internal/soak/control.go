package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// control gives orders to the rig that runs the brokers.
type control struct{ path string }

// orderWait bounds one order; a start waits until the broker is counted in.
const orderWait = 90 * time.Second

// order has one order carried out.
func (c control) order(ctx context.Context, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	ctx, cancel := context.WithTimeout(ctx, orderWait)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.path)
	if err != nil {
		return fmt.Errorf("order %q: %w", text, err)
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return fmt.Errorf("order %q: %w", text, err)
	}
	if _, err := fmt.Fprintln(conn, text); err != nil {
		return fmt.Errorf("order %q: %w", text, err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return fmt.Errorf("order %q: %w", text, err)
	}
	if answer = strings.TrimSpace(answer); answer != "ok" {
		return fmt.Errorf("order %q: %s", text, answer)
	}
	return nil
}
