package fakekafka

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/router"
)

// stamper makes up for what kfake lacks: it stores message.timestamp.type but
// heeds only the bit that a batch itself carries and that no client sets. The
// stamper sets that bit in what is produced to the topics that want
// LogAppendTime, so that the fake broker stamps them like a real one.
type stamper struct {
	mu     sync.Mutex
	topics map[string]bool
	ids    map[[16]byte]bool
}

// A batch of format 2 begins with its base offset (8 bytes), length (4),
// leader epoch (4) and magic (1); then come the checksum of all that follows
// it, and the attributes.
const (
	crcAt           = 17
	attributesAt    = 21
	logAppendTime   = 0x08
	smallestBatchAt = 61
)

func (s *stamper) install(c *kfake.Cluster) {
	s.topics, s.ids = map[string]bool{}, map[[16]byte]bool{}
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, topic := range req.(*kmsg.ProduceRequest).Topics {
			if !s.topics[topic.Topic] && !s.ids[topic.TopicID] {
				continue
			}
			for _, p := range topic.Partitions {
				if batch := p.Records; len(batch) >= smallestBatchAt {
					batch[attributesAt+1] |= logAppendTime
					sum := crc32.Checksum(batch[attributesAt:], crc32.MakeTable(crc32.Castagnoli))
					binary.BigEndian.PutUint32(batch[crcAt:], sum)
				}
			}
		}
		return nil, nil, false
	})
}

// add makes the cluster stamp r's tiers.
func (s *stamper) add(ctx context.Context, t testing.TB, adm *kadm.Client, r *router.Router) {
	t.Helper()
	names := []string{r.Near()}
	for _, tier := range r.Tiers() {
		names = append(names, tier.Topic)
	}
	details, err := adm.ListTopics(ctx, names...)
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range details {
		s.topics[d.Topic], s.ids[d.ID] = true, true
	}
}
