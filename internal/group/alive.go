package group

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/axtasks/ax/internal/clock"
)

// alive tells whether the group still knows the member, as far as the member
// can know. A process that was frozen, or cut off, for longer than its session
// must not start what it had read: another member is at it.
//
// It is a hook of the client: what counts is when the last answered heartbeat
// was sent, since the answer itself may have waited in a socket while the
// process was frozen. While a join is on its way there are no heartbeats and
// the group waits for its members; then it is enough that the process itself
// was not frozen.
//
// A hook doesn't see what an answer says. The first one after a time too long
// may say that the member was forgotten, so it takes a second one: by then the
// client has acted on the first.
type alive struct {
	heard func() // called when the member is known again; may be nil
	began time.Time
	// known is until when the member is known by its last heartbeat, in
	// nanoseconds since began: the whole answer as long as nothing is wrong.
	known atomic.Int64

	mu       sync.Mutex
	session  time.Duration // 0: the broker decides
	sent     time.Time     // the last answered heartbeat
	interval time.Duration // the longest between two of the last ones
	doubt    bool          // the last answer came after a time too long
	forgot   time.Time     // since when a broker has said that it does not know the member
	joining  bool
	joins    time.Time // since when it does
	ticked   time.Time // when this process last ran
	stale    bool      // somebody was told that the member is not known
}

const (
	tickEvery = 500 * time.Millisecond
	// A process that did not run for so long was frozen.
	frozen = 2 * time.Second
	// A group waits for its members for no longer than their rebalance timeout.
	joinsFor = 40 * time.Second
	// A broker's default session under KIP-848.
	longSession = 45 * time.Second
)

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (a *alive) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err == nil && (key == kmsg.JoinGroup.Int16() || key == kmsg.SyncGroup.Int16()) {
		a.mu.Lock()
		now := time.Now()
		a.runs(now)
		// One that may be forgotten joins as a stranger.
		if !a.joining && int64(now.Sub(a.began)) <= a.known.Load() {
			a.joining, a.joins = true, now
		}
		a.mu.Unlock()
	}
}

// runs notes that the process runs. If it did not for too long, whatever it was
// joining may have gone on without it. Called with the lock held.
func (a *alive) runs(now time.Time) {
	a.joining = a.joining && now.Sub(a.ticked) <= frozen && now.Sub(a.joins) <= joinsFor
	a.ticked = now
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (a *alive) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	beat := key == kmsg.Heartbeat.Int16() || key == kmsg.ConsumerGroupHeartbeat.Int16()
	if !beat && key != kmsg.JoinGroup.Int16() && key != kmsg.SyncGroup.Int16() {
		return
	}
	a.mu.Lock()
	if key == kmsg.SyncGroup.Int16() || beat || e2e.Err() != nil {
		a.joining = false
	}
	was := a.stale
	if beat && e2e.Err() == nil && !a.sent.IsZero() && (time.Since(a.sent) > a.patience() || !a.forgot.IsZero()) && !a.doubt {
		// One that was sent before that time says nothing at all.
		a.doubt = e2e.DurationE2E() <= a.patience()
		a.mu.Unlock()
		return
	}
	if e2e.Err() == nil && key != kmsg.JoinGroup.Int16() {
		a.doubt, a.forgot = false, time.Time{}
		sent := time.Now().Add(-e2e.DurationE2E())
		// Beats that the client hurries, in a rebalance, say nothing of the
		// interval.
		if gap := sent.Sub(a.sent); beat && !a.sent.IsZero() && gap >= 400*time.Millisecond {
			a.interval = max(gap, a.interval-a.interval/8)
		}
		a.sent = sent
		a.known.Store(int64(sent.Add(a.patience()).Sub(a.began)))
		a.stale = was && time.Since(sent) > a.patience()
	}
	heard := was && !a.stale
	a.mu.Unlock()
	if heard && a.heard != nil {
		a.heard()
	}
}

// lasts returns for how long a member is known without a heartbeat.
func (a *alive) lasts() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.patience()
}

// patience is how old the last heartbeat may be. Called with the lock held.
func (a *alive) patience() time.Duration {
	if a.session > 0 {
		return a.session
	}
	if a.interval == 0 {
		return longSession // not told yet
	}
	return min(max(3*a.interval, 5*time.Second), longSession)
}

// setSession sets the session, which the client only tells once it is made.
func (a *alive) setSession(d time.Duration) {
	a.mu.Lock()
	a.session = d
	a.mu.Unlock()
}

// tick says that the process runs.
func (a *alive) tick(now time.Time) {
	a.mu.Lock()
	a.runs(now)
	a.mu.Unlock()
}

// forgotten says that a broker does not know the member any more.
func (a *alive) forgotten() {
	a.mu.Lock()
	a.joining, a.doubt = false, false
	if a.forgot.IsZero() {
		a.forgot = time.Now()
	}
	a.known.Store(-1)
	a.mu.Unlock()
}

// fresh reports whether the group must still know the member. Where it reports
// false, heard is called once that has changed.
func (a *alive) fresh(now time.Time) bool {
	if int64(now.Sub(a.began)-clock.Skew()) <= a.known.Load() {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.joining && time.Since(a.ticked) <= frozen {
		return true
	}
	a.stale = true
	return false
}

// unknownSince returns since when no heartbeat was answered, where that is too
// long.
func (a *alive) unknownSince() (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.forgot.IsZero() {
		return a.forgot, true
	}
	return a.sent, time.Since(a.sent) > a.patience() && !a.joining
}
