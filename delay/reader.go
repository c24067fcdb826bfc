package delay

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/internal/clock"
	"github.com/axtasks/ax/internal/group"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/publish"
	"github.com/axtasks/ax/router"
)

const (
	// A far partition is read so far ahead of what leaves, and no further: a
	// backlog that waits for hours costs what one fetch brings, and a burst
	// comes in as fast as it goes out. A partition that is read again takes a
	// fetch to deliver, for which the time must suffice.
	lookahead = time.Second
	// A hop that leaves a far tier so much later is as good, and the near tier
	// has a tenth of its lead for that.
	farGap = 5 * time.Millisecond
	// Of so many it is read on in any case.
	farFew = 256
	// They bound what is held of one partition all the same.
	farBytes  = 4 << 20
	nearBytes = 16 << 20
	// So many go to one topic in one pass. A burst that is due at one instant
	// goes out at 80,000 a second; faster, and it takes the processor from all
	// that is urgent, here, in the brokers and in the workers.
	maxTogether = 400
	// They bound what is published to one topic and not acknowledged.
	maxOpen      = 4096
	maxOpenBytes = 32 << 20
)

// reader moves the records of the far tiers, or of the near tier.
type reader struct {
	m      *Mover
	name   string
	group  string
	topics []string
	fetch  int32                  // bytes of one fetch
	each   int32                  // of them, of one partition
	tiers  map[string]router.Tier // of the far tiers; nil in the near tier
	ids    map[string][16]byte

	member  *group.Member
	pub     *publish.Publisher
	wake    chan struct{} // something new may leave
	gap     time.Duration // between two moves, at least
	scratch []byte        // of the goroutine that polls

	mu     sync.Mutex
	parts  map[*group.Partition]*source
	loads  map[string]*load  // by topic
	tracks map[string]*track // by topic
	passed time.Time         // when it was last looked what may leave
}

func (r *reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take queues what a poll returned.
func (r *reader) take(b group.Batch) {
	now := clock.Now()
	r.m.tel.Consumed(context.Background(), b.Partition.Topic, r.group, len(b.Records))
	leader, _, _ := r.member.Kafka().PartitionLeader(b.Partition.Topic, b.Partition.ID) // -1 where it isn't known
	skew := r.m.skews.of(leader)
	var run []ready
	r.mu.Lock()
	s := r.parts[b.Partition]
	if s == nil {
		s = &source{p: b.Partition}
		if tier, ok := r.tiers[b.Partition.Topic]; ok {
			s.tier, s.queue.far = &tier, true
		}
		r.parts[b.Partition] = s
	}
	s.skew = skew
	caughtUp, rests := b.Partition.Lag() == 0, b.Partition.Rests()
	if last := b.Records[len(b.Records)-1]; brokerTime(last) {
		skew.measure(now.Sub(last.Timestamp), s.live && caughtUp && rests == s.rests)
	}
	s.live, s.rests = caughtUp, rests
	for i, rec := range b.Records {
		e := &entry{ticket: b.Tickets[i], order: rec.Offset, epoch: rec.LeaderEpoch}
		t, err := ax.Decode(rec, r.ids[rec.Topic])
		if err == nil {
			err = r.m.domain.CheckDue(t, now)
		}
		if err != nil {
			e.dead = r.dead(rec, ax.ReasonMalformed, err, 0)
			detach(e.dead)
			e.size = sizeOf(&ax.Task{Payload: rec.Value, Key: string(rec.Key)})
			s.bytes += e.size
			if _, ok := r.place(ready{s, e}, now); ok {
				run = append(run, ready{s, e})
			}
			continue
		}
		e.task, e.size = t, sizeOf(t)
		r.schedule(s, rec, e, now)
		switch wait := e.leave.Sub(now); {
		case wait > lookahead:
			r.scratch = pack(r.scratch[:0], rec)
			e.task, e.packed = nil, bytes.Clone(r.scratch)
			e.size = packedSize + len(e.packed)
		default:
			kafka.Detach(t) // it may have to wait for room, and would keep its fetch
		}
		if s.queue.Len() == 0 || e.leave.After(s.until) {
			s.until = e.leave
		}
		s.queue.add(e)
		s.bytes += e.size
	}
	r.bound(s, now)
	r.mu.Unlock()
	for _, x := range run {
		r.send(x, r.m.router.Dead())
	}
	r.signal()
}

func brokerTime(rec *kgo.Record) bool { return rec.Attrs.TimestampType() == 1 }

// schedule sets when the entry may leave its tier.
func (r *reader) schedule(s *source, rec *kgo.Record, e *entry, now time.Time) {
	d, t := r.m.domain.Delay, e.task
	if s.tier == nil {
		if e.leave = t.Due.Add(-max(d.Lead, 0)); r.notNear(t, now) {
			e.leave = now // back to the far tiers
		}
		return
	}
	e.claim, e.read = t.Leave, now
	e.appended, e.skew = now, nil
	if brokerTime(rec) {
		e.appended, e.skew = rec.Timestamp, s.skew
	}
	r.bind(s, e)
}

// bind sets when an entry may leave its far tier, by what is known now of the
// clock of the broker that stamped it.
//
// What is known may be wrong. A clock that is taken to be behind by more than
// the wait bounds every claim into the past, and a task would go round in its
// tier as fast as the broker can. So what says that it may leave later, and was
// out of bounds already when it was read, stays for the shortest tier's wait:
// that is next to nothing for whoever is behind a false claim, and time enough to
// read what is written as it is written, which tells the clock.
func (r *reader) bind(s *source, e *entry) {
	appended := e.appended
	if e.skew != nil {
		appended = e.skew.ours(appended)
	}
	e.leave = r.m.router.LeaveAt(*s.tier, e.claim, appended)
	stay := e.read.Add(min(s.tier.Wait, r.m.router.Tiers()[0].Wait))
	if e.leave.Before(e.read) && e.claim.After(e.read) && e.leave.Before(stay) {
		e.leave = stay
		if e.claim.Before(stay) {
			e.leave = e.claim
		}
	}
}

// unpack makes the entry a task again, as it was when it was packed. It reports
// false where that fails, which nothing but a fault of ours can bring about: the
// record stays unfinished then, and the next owner reads it again.
func (r *reader) unpack(s *source, e *entry) bool {
	if e.packed == nil {
		return true
	}
	rec, err := unpack(e.packed)
	if err == nil {
		rec.Topic, rec.Partition, rec.Offset, rec.LeaderEpoch = s.p.Topic, s.p.ID, e.order, e.epoch
		e.task, err = ax.Decode(rec, r.ids[rec.Topic])
	}
	if err != nil {
		r.m.cfg.log.Error("a task that waited can't be read again", "role", r.name, "topic", s.p.Topic, "partition", s.p.ID, "offset", e.order, "error", err)
		return false
	}
	e.packed = nil
	return true
}

// bound pauses a partition that was read far enough, or of which enough is
// held, and resumes it in time. It returns how long that will not change by
// itself. Called with the lock held.
func (r *reader) bound(s *source, now time.Time) time.Duration {
	const ours = group.PauseWait | group.PauseFull | group.PauseTarget
	was := s.p.Paused()
	var why group.Pause
	next := clock.Longest
	bytes := nearBytes
	if s.tier != nil {
		bytes = farBytes
		// Twice, so that it isn't paused after each fetch of a busy tier.
		least := lookahead
		if was&group.PauseWait == 0 {
			least *= 2
		}
		if ahead := s.until.Sub(now); s.queue.Len() >= farFew && ahead > least {
			why, next = group.PauseWait, ahead-lookahead
		}
	}
	most := r.m.domain.Delay.Buffer
	if was&(group.PauseFull|group.PauseTarget) != 0 {
		most, bytes = most/2, bytes/2
	}
	if n := s.queue.Len() + s.held; n > most || s.bytes > bytes {
		if s.held > n/2 {
			why |= group.PauseTarget
		} else {
			why |= group.PauseFull
		}
	}
	if why != was&ours {
		s.p.PauseOnly(why, ours)
	}
	return next
}

// dropped forgets partitions that are given up. What was published of them is
// waited for by their revocation.
func (r *reader) dropped(ps []*group.Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := map[*source]bool{}
	for _, p := range ps {
		gone[r.parts[p]] = true
		delete(r.parts, p)
	}
	for _, l := range r.loads {
		l.held = slices.DeleteFunc(l.held, func(x ready) bool { return gone[x.s] })
	}
}
