package dead

import (
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
)

// deadPrefix is that of the headers that tell of a death.
const deadPrefix = ax.HeaderPrefix + "dead-"

// Entry is one death. It shares its bytes with the fetch that brought it: who
// keeps some of it beyond the callback keeps a copy.
type Entry struct {
	Death     string // the record's key, which names the death
	Topic     string
	Partition int32
	Offset    int64

	// What the record says of the death. Each is zero where it says nothing
	// that can be read.
	Reason   ax.Reason
	Error    string // the last error
	At       time.Time
	Attempts int    // starts that counted
	Source   string // topic/partition/offset/epoch of the record that died

	// What the record says of the task, as it stands there, also where it is
	// none. ID is Death where the record names none: both derive from the
	// place of the record that died.
	ID, Kind, Lane, Key string

	// Task is the task that died, with its own key and without the headers of
	// its death. Nil: the record is no task, and Fault says why.
	Task  *ax.Task
	Fault error

	// Record is what the topic holds.
	Record *kgo.Record
}

// NewEntry returns the death that a record of the dead topic tells of, whatever
// its bytes.
func NewEntry(r *kgo.Record) *Entry {
	e := &Entry{Death: string(r.Key), Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Record: r}
	// The record as it was before it died.
	was := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch, Value: r.Value}
	was.Headers = make([]kgo.RecordHeader, 0, len(r.Headers))
	for _, h := range r.Headers {
		switch h.Key {
		case ax.HeaderDeadReason:
			e.Reason = ax.Reason(h.Value)
		case ax.HeaderDeadError:
			e.Error = string(h.Value)
		case ax.HeaderDeadAt:
			e.At, _ = time.Parse(time.RFC3339Nano, string(h.Value))
		case ax.HeaderDeadAttempt:
			e.Attempts, _ = strconv.Atoi(string(h.Value))
		case ax.HeaderDeadSource:
			e.Source = string(h.Value)
		case ax.HeaderDeadKey:
			e.Key, was.Key = string(h.Value), h.Value
		case ax.HeaderID:
			e.ID = string(h.Value)
		case ax.HeaderKind:
			e.Kind = string(h.Value)
		case ax.HeaderLane:
			e.Lane = string(h.Value)
		}
		if !strings.HasPrefix(h.Key, deadPrefix) {
			was.Headers = append(was.Headers, h)
		}
	}
	named := e.ID != ""
	if !named {
		e.ID = e.Death
	}
	if e.Task, e.Fault = ax.Decode(was, [16]byte{}); e.Fault == nil && !named {
		e.Task.ID = e.Death
	}
	return e
}

// sourceTopic returns the topic of the record that died, or "". A topic's name
// holds no slash.
func (e *Entry) sourceTopic() string {
	topic, _, _ := strings.Cut(e.Source, "/")
	return topic
}
