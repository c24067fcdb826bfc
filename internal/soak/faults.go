package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/axtasks/ax/internal/checker"
)

// perform carries the script out, each fault at its time, and returns when the
// last one has ended.
func (s *soak) perform(ctx context.Context, steps []step) {
	var wg sync.WaitGroup
	defer wg.Wait()
	began := time.Now()
	for _, st := range steps {
		if wait(ctx, time.Until(began.Add(st.at))) != nil {
			return
		}
		s.say("%s", strings.TrimSpace(st.String()))
		wg.Go(func() {
			if err := s.harm(ctx, st); err != nil {
				s.say("fault %q was not as planned: %v", strings.TrimSpace(st.String()), err)
			}
		})
	}
}

// harm carries one fault out, and ends it.
func (s *soak) harm(ctx context.Context, st step) error {
	if st.slot != "" {
		sl := s.slots[st.slot]
		sl.fault.Lock()
		defer sl.fault.Unlock()
		switch st.what {
		case faultStart:
			return sl.startIfAway()
		case faultKill:
			if st.length == 0 {
				return sl.kill() // and it stays away until it is started
			}
			return s.restart(ctx, sl, st.length, sl.kill)
		case faultStop:
			if st.length == 0 {
				return sl.stop("stop")
			}
			return s.restart(ctx, sl, st.length, func() error { return sl.stop("stop") })
		case faultSkew:
			return s.restart(ctx, sl, st.length, func() error { sl.setSkew(st.amount); return sl.stop("skew") })
		case faultFreeze:
			return sl.freeze(ctx, st.length)
		case faultCut, faultDelay:
			return s.network(ctx, sl, st)
		}
	}
	switch st.what {
	case faultDeploy:
		return s.deploy(ctx)
	case faultBrokerKill, faultBrokerFreeze:
		return s.broker(ctx, st)
	case faultLeader:
		return s.during("leader", func() error { return s.moveLeaders(ctx, st.about) })
	case faultPartitions:
		return s.during("partitions", func() error { return s.addPartition(ctx, st.about) })
	case faultReset:
		return s.reset(ctx, st.about)
	}
	return errors.New("unknown fault")
}

// during writes a fact about a fault of everybody that lasts as long as fn.
func (s *soak) during(what string, fn func() error) error {
	at := time.Now()
	err := fn()
	s.facts.Write(checker.Fact{Type: checker.Fault, What: what, Proc: "-", At: at.UnixNano(), Until: time.Now().UnixNano()})
	return err
}

func (s *soak) restart(ctx context.Context, sl *slot, after time.Duration, end func() error) error {
	if err := end(); err != nil {
		return err
	}
	if wait(ctx, after) != nil && scenarios[s.cfg.scenario].away {
		return nil
	}
	return sl.start() // early, where the soak ends
}

// deploy stops and starts all workers that run, one after the other.
func (s *soak) deploy(ctx context.Context) error {
	defer s.say("the deploy is over")
	for _, sl := range s.slotsOf("worker") {
		if sl.running() == nil {
			continue
		}
		if err := s.redeploy(sl); err != nil {
			return err
		}
		// When the soak ends meanwhile, there is no time for the others.
		_ = wait(ctx, deployPause)
		if ctx.Err() != nil {
			break
		}
	}
	return nil
}

func (s *soak) redeploy(sl *slot) error {
	sl.fault.Lock()
	defer sl.fault.Unlock()
	if err := sl.stop("stop"); err != nil {
		return err
	}
	return sl.start()
}

// network harms the connections of one process to one broker. The process may
// be started again meanwhile: all of its lives dial from one address.
func (s *soak) network(ctx context.Context, sl *slot, st step) error {
	order := fmt.Sprintf("cut %d %s", st.broker, sl.role.From)
	if st.what == faultDelay {
		order = fmt.Sprintf("delay %d %s %s", st.broker, st.amount, sl.role.From)
	}
	p := sl.running()
	at := time.Now()
	if err := s.control.order(ctx, "%s", order); err != nil {
		return err
	}
	_ = wait(ctx, st.length)
	err := s.control.order(context.WithoutCancel(ctx), "heal %d %s", st.broker, sl.role.From)
	if p != nil {
		s.facts.Write(checker.Fact{Type: checker.Fault, What: st.what, Proc: p.name, At: at.UnixNano(), Until: time.Now().UnixNano()})
	}
	return err
}

func (s *soak) broker(ctx context.Context, st step) error {
	begin, end := "kill", "start"
	if st.what == faultBrokerFreeze {
		begin, end = "freeze", "thaw"
	}
	return s.during(checker.Broker, func() error {
		if err := s.control.order(ctx, "%s %d", begin, st.broker); err != nil {
			return err
		}
		_ = wait(ctx, st.length)
		return s.control.order(context.WithoutCancel(ctx), "%s %d", end, st.broker)
	})
}

// topics returns the topics of a short name.
func (s *soak) topics(about string) []string {
	switch about {
	case "near":
		return []string{s.router.Near()}
	case "far":
		var all []string
		for _, t := range s.router.Tiers() {
			all = append(all, t.Topic)
		}
		return all
	}
	return []string{s.router.Lane(about)}
}

// moveLeaders makes another replica of each partition the preferred leader, and
// has it elected.
func (s *soak) moveLeaders(ctx context.Context, about string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	topics := s.topics(about)
	details, err := s.adm.ListTopics(ctx, topics...)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var moves kadm.AlterPartitionAssignmentsReq
	set := kadm.TopicsSet{}
	for _, d := range details {
		for _, p := range d.Partitions {
			if len(p.Replicas) > 1 {
				moves.Assign(d.Topic, p.Partition, append(append([]int32{}, p.Replicas[1:]...), p.Replicas[0]))
				set.Add(d.Topic, p.Partition)
			}
		}
	}
	if _, err := s.adm.AlterPartitionAssignments(ctx, moves); err != nil {
		return fmt.Errorf("assign partitions: %w", err)
	}
	results, err := s.adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
	if err != nil {
		return fmt.Errorf("elect leaders: %w", err)
	}
	for _, partitions := range results {
		for _, r := range partitions {
			if r.Err != nil && !errors.Is(r.Err, kerr.ElectionNotNeeded) {
				return fmt.Errorf("elect the leader of %s/%d: %w", r.Topic, r.Partition, r.Err)
			}
		}
	}
	return nil
}

func (s *soak) addPartition(ctx context.Context, about string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	got, err := s.adm.CreatePartitions(ctx, 1, s.topics(about)[0])
	if err == nil {
		err = got.Error()
	}
	if err != nil {
		return fmt.Errorf("add a partition to %s: %w", about, err)
	}
	return nil
}

// reset deletes the commits of a group. A broker allows that only while nobody
// is subscribed, so all of its processes stop and start again.
func (s *soak) reset(ctx context.Context, about string) (err error) {
	role, group := "worker", s.router.LaneGroup(about)
	switch about {
	case "near":
		role, group = "mover", s.router.NearGroup()
	case "far":
		role, group = "mover", s.router.FarGroup()
	}
	var wg sync.WaitGroup
	slots := s.slotsOf(role)
	for _, sl := range slots {
		sl.fault.Lock()
		wg.Go(func() {
			if err := sl.stop("stop"); err != nil {
				s.say("%v", err)
			}
		})
	}
	wg.Wait()
	defer func() {
		for _, sl := range slots {
			err = errors.Join(err, sl.start())
			sl.fault.Unlock()
		}
	}()
	at := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	set := kadm.TopicsSet{}
	topics := s.topics(about)
	details, err := s.adm.ListTopics(ctx, topics...)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	for _, d := range details {
		for _, p := range d.Partitions {
			set.Add(d.Topic, p.Partition)
		}
	}
	got, err := s.adm.DeleteOffsets(ctx, group, set)
	if err == nil {
		err = got.Error()
	}
	if err != nil {
		return fmt.Errorf("delete the commits of %s: %w", group, err)
	}
	s.facts.Write(checker.Fact{Type: checker.Fault, What: checker.Reset, Proc: "-", At: at.UnixNano(), Until: time.Now().UnixNano(), Topics: topics})
	return nil
}
