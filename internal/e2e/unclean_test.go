//go:build kafka

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
)

// One task works on while others behind it finish, and the commit says so. Then
// the leader dies, a follower that lacks the last of these records is elected,
// and other records come under their offsets: each of them runs, for one is not
// the other, whether the worker was killed before or lives through all of it.
// What the log has kept does not run again.
//
// It runs alone: it does harm to two of the three brokers.
func TestAfterAnUncleanElectionTheNewRecordsUnderOldOffsetsRun(t *testing.T) {
	const kept, cut, fresh = 100, 300, 350
	adm := kadm.NewClient(bare(t, kgo.MetadataMinAge(50*time.Millisecond), kgo.RequestTimeoutOverhead(2*time.Second)))
	killed, living := newCut(t, adm, "killed"), newCut(t, adm, "living")
	nodes := place(t, adm, killed, living)
	leader, follower := nodes[0], nodes[1]
	both := []*cutLog{killed, living}
	for _, l := range both {
		l.worker = start(t, "worker", l.domain, l.told.path)
		l.submit(ax.Task{ID: "first", Kind: "hold", Payload: []byte(l.release), Timeout: time.Hour})
		l.submit(jobs("kept", kept)...)
	}
	for _, l := range both {
		awaitCommit(t, adm, l.group, l.topic, 0, 1+kept)
		l.awaitISR(2)
	}

	t.Cleanup(func() { heal(t, adm, leader, follower) })
	order(t, "freeze %d", follower)
	for _, l := range both {
		l.awaitISR(1)
		l.submit(jobs("cut", cut)...)
	}
	for _, l := range both {
		awaitCommit(t, adm, l.group, l.topic, 0, 1+kept+cut)
		l.epoch = l.partition().LeaderEpoch
		require.Equal(t, int64(1+kept+cut), l.end())
	}
	killed.worker.kill()
	order(t, "kill %d", leader)
	order(t, "thaw %d", follower)
	for _, l := range both {
		eventually(t, time.Minute, func() (bool, string) {
			p := l.partition()
			return p.Leader == follower, fmt.Sprintf("the follower %d has to be elected: %+v", follower, p)
		})
		require.Greater(t, l.partition().LeaderEpoch, l.epoch)
		require.Equal(t, int64(1+kept), l.end(), "the election was not unclean: the log has all records")
		l.submit(jobs("fresh", fresh)...)
	}
	killed.worker = start(t, "worker", killed.domain, killed.told.path)
	for _, l := range both {
		eventually(t, 90*time.Second, func() (bool, string) {
			ran := 0
			for id := range l.told.starts() {
				if strings.HasPrefix(id, "fresh-") {
					ran++
				}
			}
			return ran == fresh, fmt.Sprintf("%s: %d of %d new records have run", l.name, ran, fresh)
		})
		require.NoError(t, os.WriteFile(l.release, nil, 0o600))
		awaitEnd(t, adm, l.group, l.topic, 1+kept+fresh)
		l.worker.stop()
	}
	for _, l := range both {
		repeats := map[string]int{}
		for id, n := range l.told.starts() {
			if n > 1 {
				repeats[strings.TrimRight(id, "-0123456789")] += n - 1
			}
		}
		t.Logf("%s: %d tasks, leader %d to %d, epoch %d to %d, end %d to %d, repeats %v", l.name, len(l.told.starts()), leader, follower,
			l.epoch, l.partition().LeaderEpoch, 1+kept+cut, 1+kept, repeats)
		require.Zero(t, repeats["kept"], l.name)
	}
}

// cutLog is a lane of one partition whose log will be cut.
type cutLog struct {
	t       *testing.T
	adm     *kadm.Client
	name    string
	domain  ax.Domain
	topic   string
	group   string
	told    *report
	release string
	worker  *process
	epoch   int32
}

func newCut(t *testing.T, adm *kadm.Client, name string) *cutLog {
	t.Helper()
	r := newDomain(t, func(d *ax.Domain) {
		d.Durability, d.Replication = ax.Fast, 2
		d.Lanes = []ax.Lane{{Name: "main", Weight: 1, Partitions: 1}}
	})
	dir := t.TempDir()
	l := &cutLog{
		t: t, adm: adm, name: name, domain: r.Domain(), topic: r.Lane("main"), group: r.LaneGroup("main"),
		told: &report{t: t, path: filepath.Join(dir, "facts.jsonl")}, release: filepath.Join(dir, "release"),
	}
	alterTopic(t, adm, l.topic, "unclean.leader.election.enable", "true")
	return l
}

// submit writes tasks with a client of its own, that knows no dead leader.
func (l *cutLog) submit(tasks ...ax.Task) {
	l.t.Helper()
	c := client(l.t, l.domain)
	submit(l.t, c, tasks...)
}

func (l *cutLog) partition() kadm.PartitionDetail {
	l.t.Helper()
	topics, err := l.adm.ListTopics(l.t.Context(), l.topic)
	require.NoError(l.t, err)
	return topics[l.topic].Partitions[0]
}

func (l *cutLog) end() int64 {
	l.t.Helper()
	ends, err := l.adm.ListEndOffsets(l.t.Context(), l.topic)
	require.NoError(l.t, err)
	require.NoError(l.t, ends.Error())
	o, _ := ends.Lookup(l.topic, 0)
	return o.Offset
}

func (l *cutLog) awaitISR(n int) {
	l.t.Helper()
	eventually(l.t, time.Minute, func() (bool, string) {
		p := l.partition()
		return len(p.ISR) == n, fmt.Sprintf("%d replicas have to be in sync: %+v", n, p)
	})
}

// place moves the logs to the two brokers that the returned slice names, the
// leader first: two that don't coordinate the first one's group.
func place(t *testing.T, adm *kadm.Client, logs ...*cutLog) []int32 {
	t.Helper()
	var nodes []int32
	eventually(t, 30*time.Second, func() (bool, string) {
		c := adm.FindGroupCoordinators(t.Context(), logs[0].group)[logs[0].group]
		nodes = nil
		for id := int32(1); id <= 3; id++ {
			if id != c.NodeID {
				nodes = append(nodes, id)
			}
		}
		return c.Err == nil, fmt.Sprintf("no coordinator: %v", c.Err)
	})
	var moves kadm.AlterPartitionAssignmentsReq
	for _, l := range logs {
		moves.Assign(l.topic, 0, nodes)
	}
	got, err := adm.AlterPartitionAssignments(t.Context(), moves)
	require.NoError(t, err)
	require.NoError(t, got.Error())
	for _, l := range logs {
		eventually(t, time.Minute, func() (bool, string) {
			p := l.partition()
			if len(p.ISR) == 2 && len(p.Replicas) == 2 && p.Leader != nodes[0] {
				_, _ = adm.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, kadm.TopicsSet{l.topic: {0: {}}})
			}
			return p.Leader == nodes[0] && len(p.ISR) == 2 && len(p.Replicas) == 2, fmt.Sprintf("to be moved to %v: %+v", nodes, p)
		})
	}
	return nodes
}

// heal brings two brokers back, whatever was done to them, and waits until they
// have caught up.
func heal(t *testing.T, adm *kadm.Client, leader, follower int32) {
	t.Helper()
	order(t, "thaw %d", follower)
	_ = tryOrder(fmt.Sprintf("start %d", leader)) // it may run
	awaitCaughtUp(t, adm)
}

// awaitCaughtUp waits until Kafka's own topics have all their replicas in sync.
func awaitCaughtUp(t *testing.T, adm *kadm.Client) {
	t.Helper()
	end := time.After(time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		topics, err := adm.ListTopicsWithInternal(context.Background(), offsetsTopic)
		behind := err != nil || len(topics[offsetsTopic].Partitions) == 0
		if err == nil {
			for _, p := range topics[offsetsTopic].Partitions {
				behind = behind || len(p.ISR) < 3
			}
		}
		if !behind {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Errorf("the brokers have not caught up: %v", err)
			return
		}
	}
}
