package publish_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/internal/publish"
)

// The hard limit: a new client publishes each open record again, once and in
// order, and the promise is answered once. What waits for room is no copy.
func TestALongSilenceIsEndedByANewClient(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		err    *kerr.Error
		copies int
	}{
		"nothing was written":  {kerr.NotEnoughReplicas, 1},
		"everything was, once": {kerr.RequestTimedOut, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				o := own(t, c, publish.Config{MaxRecords: 40})
				dead := fault(c, topic, f.err)
				o.publish(topic, "a", 50)
				time.Sleep(4 * time.Minute)
				o.publish(topic, "b", 5)
				time.Sleep(50 * time.Second)
				require.Len(t, o.made(), 1)
				require.Empty(t, o.answered())
				require.Zero(t, o.Copies())
				for o.Copies() == 0 {
					time.Sleep(time.Second)
				}
				dead.Remove()
				require.NoError(t, o.Flush(t.Context()))
				o.requireAnswered(55)
				require.EqualValues(t, 40, o.Copies(), "what the client had")
				require.Len(t, o.log.with("the producer was replaced"), 1)
				count := map[string]int{}
				last := map[string][]string{}
				for _, v := range o.values(topic) {
					count[v]++
					last[v[:1]] = append(slices.DeleteFunc(last[v[:1]], func(s string) bool { return s == v }), v)
				}
				for i, v := range numbered("a", 50) {
					if i < 40 {
						require.Equal(t, f.copies, count[v], v)
					} else {
						require.Equal(t, 1, count[v], "%s waited for room", v)
					}
				}
				require.Equal(t, map[string][]string{"a": numbered("a", 50), "b": numbered("b", 5)}, last, "in the order of each source")
				time.Sleep(time.Hour)
				require.Len(t, o.made(), 2)
				require.Zero(t, o.made()[0].BufferedProduceRecords(), "the old client")
			})
		})
	}
}

// Before the limit, an acknowledgement that is late is waited for.
func TestALateAcknowledgementMakesNoCopyAndIsNotTakenForDone(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{})
		late := fault(c, topic, kerr.RequestTimedOut)
		o.publish(topic, "a", 20)
		time.Sleep(4 * time.Minute)
		require.Len(t, o.values(topic), 20, "the broker has them")
		require.Empty(t, o.answered(), "and has not said so")
		late.Remove()
		require.NoError(t, o.Flush(t.Context()))
		o.requireAnswered(20)
		require.Len(t, o.values(topic), 20)
		require.Zero(t, o.Copies())
		require.Len(t, o.made(), 1)
	})
}

// A broker that is back before the new client asks it, and one that answers
// the old client while that is being replaced.
func TestAnAnswerOnItsWayDuringARebuildIsNoCopy(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{})
		dead := fault(c, topic, kerr.NotEnoughReplicas)
		o.publish(topic, "a", 10)
		// Each answer of the other topic takes 100 ms.
		slow := make(chan struct{})
		c.Kfake().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.Kfake().KeepControl()
			c.Kfake().SleepControl(func() {
				select {
				case <-time.After(100 * time.Millisecond):
				case <-slow:
				}
			})
			return nil, nil, false
		})
		n := 0
		for len(o.made()) == 1 {
			o.publish(other, time.Now().String(), 1)
			n++
			time.Sleep(130 * time.Millisecond)
		}
		close(slow)
		dead.Remove()
		require.NoError(t, o.Flush(t.Context()))
		o.requireAnswered(10 + n)
		require.LessOrEqual(t, o.Copies(), int64(10), "what the dead topic has")
		require.Len(t, o.values(topic), 10)
		require.Len(t, o.values(other), n)
	})
}

func TestThereIsOneRebuildInALimit(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{RebuildAfter: time.Minute})
		dead := fault(c, topic, kerr.RequestTimedOut)
		o.publish(topic, "a", 3)
		time.Sleep(10*time.Minute + 30*time.Second)
		n := len(o.made()) - 1
		require.GreaterOrEqual(t, n, 8)
		require.LessOrEqual(t, n, 10)
		require.EqualValues(t, 3*n, o.Copies())
		dead.Remove()
		require.NoError(t, o.Flush(t.Context()))
		o.requireAnswered(3)
		require.Len(t, o.values(topic), 3*(n+1))
	})
}

// producer returns the producer id of a produce request.
func producer(req kmsg.Request) int64 {
	const idAt = 43
	for _, t := range req.(*kmsg.ProduceRequest).Topics {
		for _, p := range t.Partitions {
			return int64(binary.BigEndian.Uint64(p.Records[idAt:]))
		}
	}
	return -1
}

// After days idle the broker has forgotten the producer's id, and refuses it
// for ever.
func TestAProducerThatTheBrokerForgotIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	for _, why := range []*kerr.Error{kerr.InvalidProducerIDMapping, kerr.UnknownProducerID, kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch} {
		t.Run(why.Message, func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				o := own(t, c, publish.Config{})
				o.publish(topic, "a", 5)
				require.NoError(t, o.Flush(t.Context()))
				time.Sleep(2 * time.Hour) // days, to a test
				var mu sync.Mutex
				forgotten := int64(-1)
				f := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: why, Count: -1, When: func(req kmsg.Request) bool {
					mu.Lock()
					defer mu.Unlock()
					id := producer(req)
					if forgotten < 0 {
						forgotten = id
					}
					return id == forgotten
				}})
				o.publish(topic, "b", 20)
				time.Sleep(20 * time.Second)
				o.requireAnswered(25)
				require.Equal(t, append(numbered("a", 5), numbered("b", 20)...), o.values(topic))
				require.Len(t, o.made(), 2)
				require.GreaterOrEqual(t, f.Hits(), 3, "the client helps itself first")
				o.publish(topic, "c", 20)
				time.Sleep(time.Second)
				o.requireAnswered(45)
				require.Empty(t, o.Stalled())
			})
		})
	}
}

// One report is no reason: the client has helped itself.
func TestAProducerThatTheBrokerForgotOnceHelpsItself(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{})
		for range 10 {
			f := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.UnknownProducerID, Count: 1})
			o.publish(topic, time.Now().String(), 5)
			time.Sleep(10 * time.Second)
			require.Equal(t, 1, f.Hits())
		}
		o.requireAnswered(50)
		require.Len(t, o.values(topic), 50)
		require.Len(t, o.made(), 1)
	})
}

// A client that was refused a producer id refuses everything from then on.
func TestAClientThatGotNoProducerIDIsReplaced(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{RebuildAfter: time.Minute})
		c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.ClusterAuthorizationFailed, Count: 2})
		o.publish(topic, "a", 5)
		time.Sleep(30 * time.Second)
		require.Empty(t, o.answered())
		require.Len(t, o.made(), 2, "at once, and not again before the limit")
		time.Sleep(time.Minute)
		o.requireAnswered(5)
		require.Len(t, o.made(), 3)
		require.Len(t, o.values(topic), 5)
	})
}

// The client would hold on to the topic's old id for ever.
func TestATopicThatWasMadeAnewIsWrittenAgain(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{})
		o.publish(topic, "a", 5)
		require.NoError(t, o.Flush(t.Context()))
		require.NoError(t, c.Kfake().DeleteTopic(topic))
		require.NoError(t, c.Kfake().CreateTopic(topic, 1, nil))
		o.publish(topic, "b", 5)
		time.Sleep(20 * time.Second)
		o.requireAnswered(10)
		require.ElementsMatch(t, numbered("b", 5), o.values(topic))
		require.Len(t, o.made(), 1)
		require.Zero(t, o.Copies())
	})
}

// Nothing is lost where no new client can be made.
func TestARebuildThatFailsKeepsTheOldClient(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{RebuildAfter: time.Minute})
		dead := fault(c, topic, kerr.NotEnoughReplicas)
		o.mu.Lock()
		o.refuse = errors.New("no certificate")
		o.mu.Unlock()
		o.publish(topic, "a", 5)
		time.Sleep(3*time.Minute + 30*time.Second)
		require.Len(t, o.made(), 1)
		n := len(o.log.with("no certificate"))
		require.GreaterOrEqual(t, n, 2)
		require.LessOrEqual(t, n, 3)
		dead.Remove()
		require.NoError(t, o.Flush(t.Context()))
		o.requireAnswered(5)
		require.Zero(t, o.Copies())
	})
}

// A copy on the way out would be one that nobody waits for.
func TestAtAStopNothingIsPublishedAgain(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{RebuildAfter: 5 * time.Second})
		dead := fault(c, topic, kerr.RequestTimedOut)
		o.publish(topic, "a", 5)
		o.publish(topic, "late", 5)
		time.Sleep(4 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.Error(t, o.Flush(ctx))
		require.Len(t, o.made(), 1)
		o.stop()
		dead.Remove()
		time.Sleep(time.Hour)
		require.Empty(t, o.answered())
		require.Len(t, o.values(topic), 10)
		require.Zero(t, o.Copies())
	})
}

// Who closes the client leaves the outcome unknown, in both forms.
func TestAStoppedPublisherAnswersNothing(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		o := own(t, c, publish.Config{MaxRecords: 3})
		fault(c, topic, kerr.NotEnoughReplicas)
		o.publish(topic, "a", 10)
		time.Sleep(time.Second)
		o.stop()
		o.publish(topic, "b", 10)
		time.Sleep(time.Hour)
		require.Empty(t, o.answered())
	})
}

func TestOpenReturnsTheErrorOfItsFunction(t *testing.T) {
	t.Parallel()
	gone := errors.New("no certificate")
	_, err := publish.Open(publish.Config{Open: func(...kgo.Opt) (*kgo.Client, error) { return nil, gone }})
	require.ErrorIs(t, err, gone)
}
