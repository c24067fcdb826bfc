//go:build kafka

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// order has the rig do something to a broker: "kill 1", "start 1", "freeze 1",
// "thaw 1".
func order(t *testing.T, format string, args ...any) {
	t.Helper()
	require.NoError(t, tryOrder(fmt.Sprintf(format, args...)))
}

func tryOrder(text string) error {
	path := os.Getenv("AX_KAFKA_CONTROL")
	if path == "" {
		return fmt.Errorf("order %q: AX_KAFKA_CONTROL names no socket: let internal/rig start the brokers", text)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(90 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(conn, text); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if answer = strings.TrimSpace(answer); answer != "ok" {
		return fmt.Errorf("order %q: %s", text, answer)
	}
	return nil
}
