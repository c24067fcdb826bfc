package kafka

import (
	"bytes"

	"github.com/axtasks/ax"
)

// Detach copies what a task shares with the fetch that brought it, which a task
// that waits would otherwise keep in memory whole.
func Detach(t *ax.Task) {
	t.Payload = bytes.Clone(t.Payload)
	for i := range t.Headers {
		t.Headers[i].Value = bytes.Clone(t.Headers[i].Value)
	}
}
