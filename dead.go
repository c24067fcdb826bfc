package ax

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/text"
)

// The headers that a record of the dead topic carries beside its own.
const (
	HeaderDeadReason  = "ax-dead-reason"  // a [Reason]
	HeaderDeadError   = "ax-dead-error"   // the last error's text, at most 1,024 bytes
	HeaderDeadAt      = "ax-dead-at"      // RFC 3339
	HeaderDeadAttempt = "ax-dead-attempt" // starts that counted
	HeaderDeadSource  = "ax-dead-source"  // topic/partition/offset/epoch of the record that died
	HeaderDeadKey     = "ax-dead-key"     // the record's own key

	deadPrefix   = "ax-dead-"
	maxDeadError = 1024
)

// Reason is the class of a death.
type Reason string

const (
	ReasonFailed      Reason = "failed"      // the attempts are spent
	ReasonPermanent   Reason = "permanent"   // the handler said that it can't succeed
	ReasonTimeout     Reason = "timeout"     // the last attempt took too long
	ReasonPanic       Reason = "panic"       // the last attempt panicked
	ReasonInterrupted Reason = "interrupted" // a stop ended its run, and its kind's on_interrupt is dead
	ReasonCrashed     Reason = "crashed"     // its process died with it, time and again
	ReasonDeaf        Reason = "deaf"        // its handler did not return long after its context had ended
	ReasonMalformed   Reason = "malformed"   // the record is not a task
	ReasonTooLarge    Reason = "too-large"   // the record can't be moved on: a topic refuses its size
)

// Death says why and where a task ended.
type Death struct {
	Reason  Reason
	Error   string
	At      time.Time
	Attempt int // starts that counted; zero if none
	TopicID [16]byte
}

// DeadRecord returns the record that enters the dead topic in place of r,
// without a topic. Value and headers are r's own, so that what died can be
// read and driven again even where it is no task. The key names the death, not
// the task: two deaths of one task must both stay in the compacted topic, where
// a record without a value would delete the death that it tells of. So an
// absent value becomes an empty one.
func DeadRecord(r *kgo.Record, d Death) *kgo.Record {
	src := Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Epoch: r.LeaderEpoch}
	hs := make([]kgo.RecordHeader, 0, len(r.Headers)+6)
	for _, h := range r.Headers {
		// What an earlier death wrote is replaced, so that headers don't
		// grow with each one, and can't be forged.
		if !strings.HasPrefix(h.Key, deadPrefix) {
			hs = append(hs, h)
		}
	}
	add := func(name, value string) {
		hs = append(hs, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	add(HeaderDeadReason, string(d.Reason))
	if d.Error != "" {
		add(HeaderDeadError, text.Clip(d.Error, maxDeadError))
	}
	add(HeaderDeadAt, formatTime(d.At))
	if d.Attempt > 0 {
		add(HeaderDeadAttempt, strconv.Itoa(d.Attempt))
	}
	add(HeaderDeadSource, fmt.Sprintf("%s/%d/%d/%d", src.Topic, src.Partition, src.Offset, src.Epoch))
	if len(r.Key) > 0 {
		hs = append(hs, kgo.RecordHeader{Key: HeaderDeadKey, Value: r.Key})
	}
	value := r.Value
	if value == nil {
		value = []byte{}
	}
	return &kgo.Record{Key: []byte(PositionID(src, d.TopicID)), Value: value, Headers: hs}
}
