package checker

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Type says what a fact tells.
type Type string

// The types of facts; the package's comment says what each of them carries.
const (
	Offered   Type = "offered"
	Submitted Type = "submitted"
	Started   Type = "started"
	Settled   Type = "settled"
	Dead      Type = "dead"
	Waiting   Type = "waiting"
	Committed Type = "committed"
	Fault     Type = "fault"
)

// The outcomes of a run.
const (
	Done        = "done"
	Failed      = "failed"
	Snoozed     = "snoozed"
	Permanent   = "permanent"
	Cancelled   = "cancelled"
	Interrupted = "interrupted"
)

// The faults that excuse repeats.
const (
	Kill   = "kill"
	Freeze = "freeze"
	Cut    = "cut"
	Broker = "broker"
	Reset  = "reset"
)

// Fact is one line of a file of facts.
type Fact struct {
	Type Type   `json:"f"`
	At   int64  `json:"at"`
	Proc string `json:"proc,omitempty"` // one life of one process

	ID        string `json:"id,omitempty"`
	Run       string `json:"run,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Lane      string `json:"lane,omitempty"`
	Key       string `json:"key,omitempty"`
	Due       int64  `json:"due,omitempty"`
	Expires   int64  `json:"expires,omitempty"`
	Limit     int    `json:"limit,omitempty"` // of attempts
	Own       int64  `json:"own,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	Deferrals int    `json:"deferrals,omitempty"`
	Token     int64  `json:"token,omitempty"`
	Outcome   string `json:"outcome,omitempty"`
	Wait      int64  `json:"wait,omitempty"` // exact, until the next start; nanoseconds
	Reason    string `json:"reason,omitempty"`

	Topic      string `json:"topic,omitempty"`
	Partition  int32  `json:"partition,omitempty"`
	Offset     int64  `json:"offset,omitempty"`
	Group      string `json:"group,omitempty"`
	Generation int32  `json:"generation,omitempty"`

	What   string   `json:"what,omitempty"`
	Until  int64    `json:"until,omitempty"`
	Topics []string `json:"topics,omitempty"`
}

// Writer appends facts to a file. It is safe for concurrent use.
type Writer struct {
	proc string
	mu   sync.Mutex
	file *os.File
	err  error
}

// NewWriter returns a writer of the process's facts, which appends to the file
// at path.
func NewWriter(path, proc string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("facts of %s: %w", proc, err)
	}
	return &Writer{proc: proc, file: f}, nil
}

// Write appends f in one write. It fills in the process, and the instant where
// there is none. After an error nothing more is written, and Close tells.
func (w *Writer) Write(f Fact) {
	if f.At == 0 {
		f.At = time.Now().UnixNano()
	}
	if f.Proc == "" {
		f.Proc = w.proc
	}
	line, err := json.Marshal(f)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	if err == nil {
		_, err = w.file.Write(append(line, '\n'))
	}
	w.err = err
}

// Close closes the file and returns the first error of the writer.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.file.Close()
	if w.err == nil {
		w.err = err
	}
	if w.err != nil {
		return fmt.Errorf("facts of %s: %w", w.proc, w.err)
	}
	return nil
}
