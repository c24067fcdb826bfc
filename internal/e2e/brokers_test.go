//go:build kafka

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What tests need that do harm to brokers. None of these tests may run beside
// others: none of them is parallel.

const (
	brokers = 3
	// leaderChange is how long a partition has no leader after its broker was
	// killed: until the broker's session has ended (the rig sets 3 s), and, where
	// it was the active controller as well, until another one has taken over and
	// let that session begin anew.
	leaderChange = 7 * time.Second
	// follow is what a client takes to follow a leader that has moved: it asks
	// for metadata again after at most 5 s, and tries a request again after at
	// most 2.5 s.
	follow = 7500 * time.Millisecond
	// session is for how long a group waits for a member that it has lost.
	session = 6 * time.Second
	// busy is for what else a machine does that runs such tests.
	busy = 4 * time.Second
	// afterFault is how late a task may be that a fault of the brokers has held
	// up: there is a leader, its clients have found it, and where the group's
	// coordinator was among the dead, the group has its members again.
	afterFault = leaderChange + follow + session + busy

	// commitEvery is the movers' interval, commitTrip what a commit takes on a
	// machine that does much else.
	commitEvery = 200 * time.Millisecond
	commitTrip  = 1300 * time.Millisecond
	// scheduling is how late a process may learn that its session is over.
	scheduling = time.Second
)

// healLater brings the brokers back at the end of the test, whatever was done to
// them.
func healLater(t *testing.T, adm *kadm.Client) {
	t.Cleanup(func() {
		var group sync.WaitGroup
		for id := 1; id <= brokers; id++ {
			group.Go(func() {
				for _, o := range []string{"thaw", "unfill", "start"} {
					_ = tryOrder(fmt.Sprintf("%s %d", o, id)) // it may run, and its disk be none of its own
				}
			})
		}
		group.Wait()
		awaitCaughtUp(t, adm)
	})
}

// startAll starts brokers side by side: alone, none of them may have a quorum.
func startAll(t *testing.T, ids ...int) {
	t.Helper()
	errs := make(chan error, len(ids))
	for _, id := range ids {
		go func() { errs <- tryOrder(fmt.Sprintf("start %d", id)) }()
	}
	for range ids {
		require.NoError(t, <-errs)
	}
}

// lead moves partition 0 of each topic to all brokers, with the given one as its
// leader.
func lead(t *testing.T, adm *kadm.Client, leaders map[string]int32) {
	t.Helper()
	var moves kadm.AlterPartitionAssignmentsReq
	for topic, leader := range leaders {
		replicas := []int32{leader}
		for id := int32(1); id <= brokers; id++ {
			if id != leader {
				replicas = append(replicas, id)
			}
		}
		moves.Assign(topic, 0, replicas)
	}
	got, err := adm.AlterPartitionAssignments(t.Context(), moves)
	require.NoError(t, err)
	require.NoError(t, got.Error())
	for topic, leader := range leaders {
		eventually(t, time.Minute, func() (bool, string) {
			p := detail(t, adm, topic)
			led := p.Leader == leader && p.Replicas[0] == leader && len(p.ISR) == brokers
			if !led {
				_, _ = adm.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, kadm.TopicsSet{topic: {0: {}}})
			}
			return led, fmt.Sprintf("%s has to be led by %d: %+v", topic, leader, p)
		})
	}
}

func detail(t *testing.T, adm *kadm.Client, topic string) kadm.PartitionDetail {
	t.Helper()
	topics, err := adm.ListTopics(t.Context(), topic)
	require.NoError(t, err)
	return topics[topic].Partitions[0]
}

// awaitLeader waits until partition 0 of each topic has a leader other than the
// one that was lost.
func awaitLeader(t *testing.T, adm *kadm.Client, lost int32, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		eventually(t, time.Minute, func() (bool, string) {
			p := detail(t, adm, topic)
			return p.Leader != lost && p.Leader >= 0, fmt.Sprintf("%s has to get another leader: %+v", topic, p)
		})
	}
}

// awaitSync waits until all replicas of partition 0 of the topics are in sync.
func awaitSync(t *testing.T, adm *kadm.Client, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		eventually(t, time.Minute, func() (bool, string) {
			p := detail(t, adm, topic)
			return len(p.ISR) == brokers, fmt.Sprintf("%s has to be in sync again: %+v", topic, p)
		})
	}
}

// living returns the ids of the brokers that the first one to answer counts in.
// kadm would repeat the client's first answer.
func living(t *testing.T, cl *kgo.Client) map[int32]bool {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would mean all
	ids := map[int32]bool{}
	for _, b := range cl.SeedBrokers() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		resp, err := req.RequestWith(ctx, b)
		cancel()
		if err != nil {
			continue
		}
		for _, b := range resp.Brokers {
			ids[b.NodeID] = true
		}
		return ids
	}
	return ids
}
