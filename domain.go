package ax

import (
	"maps"
	"slices"
	"time"
)

// Domain describes one business area: its topics, lanes, tiers and kinds, and
// how to reach its Kafka. Provisioning, producer, mover and worker are made
// from the same Domain, so they can't disagree. Package spec reads one from a
// YAML file.
//
// Only Name is required. The zero value of every other field stands for a
// default, which [Domain.WithDefaults] fills in. A Domain is a plain value:
// constructors copy what they need.
type Domain struct {
	// Name is the domain's name, part of all topic and group names: lower
	// case letters, digits, "-" and ".", beginning and ending with a letter
	// or digit, at most 60 bytes.
	Name string `yaml:"domain"`
	// Prefix is put before all topic names, such as "staging.".
	Prefix string `yaml:"prefix"`
	// Kafka says how to reach the brokers.
	Kafka Kafka `yaml:"kafka"`

	// Durability is [Safe] unless it says [Fast].
	Durability Durability `yaml:"durability"`
	// Replication is the number of copies of each partition. Zero: 3 when
	// safe, 1 when fast. Fewer brokers than this is an error.
	Replication int `yaml:"replication"`

	// Lanes are the priority topics, the most urgent first. None: critical,
	// high, normal and low.
	Lanes []Lane `yaml:"lanes"`
	// DefaultLane is the lane of kinds that name none. Empty: "normal" where
	// there is one, else the first.
	DefaultLane string `yaml:"default_lane"`
	// Sharing says how lanes share a worker's slots, beside their weights.
	Sharing Sharing `yaml:"sharing"`
	// Kinds sets defaults for kinds by name. A kind that is not listed has
	// the defaults of [Kind].
	Kinds map[string]Kind `yaml:"kinds"`
	// Delay describes the tiers.
	Delay Delay `yaml:"delay"`

	// MaxPayload is the largest payload in bytes. Zero: 1 MiB minus 64 KiB,
	// which leaves room for headers within a broker's default limit.
	MaxPayload int `yaml:"max_payload"`
	// Retention says how long topics keep records.
	Retention Retention `yaml:"retention"`
	// Trim says how who trims deletes what all groups are done with.
	Trim Trim `yaml:"trim"`
}

// Durability is how safe an acknowledged task is.
type Durability string

const (
	// Safe: acknowledged by all in-sync replicas, at least two of them
	// (acks=all, min.insync.replicas 2, replication 3).
	Safe Durability = "safe"
	// Fast: acknowledged by the leader alone, for tasks that may be lost with
	// a broker.
	Fast Durability = "fast"
)

// Lane is a priority topic.
type Lane struct {
	// Name: as a domain's, at most 60 bytes.
	Name string `yaml:"name"`
	// Weight is the lane's share of worker time relative to the others when
	// all have work; 1 to 1,000. Equal weights are equal shares.
	Weight int `yaml:"weight"`
	// MaxWait is how long the lane's head, the task that is next, should wait
	// at most. A lane whose head waits for longer takes part in the time that
	// is set aside for such lanes, [Sharing].Aging. Zero: 60 s.
	MaxWait time.Duration `yaml:"max_wait"`
	// MaxGap is after how long without a start the lane goes next, whatever
	// its weight, if it has work and nothing running. It bounds the wait of the
	// head, and costs the others up to a slot where the lane's tasks run for long.
	// Zero: ten times MaxWait.
	MaxGap time.Duration `yaml:"max_gap"`
	// Reserve is the number of a worker's slots that lanes listed after this
	// one can't hold together, so that slow ordinary tasks leave room for an
	// urgent one. Zero: none.
	Reserve int `yaml:"reserve"`
	// Partitions of the topic. Zero: 6, or the limit where that is lower. It
	// bounds how many workers can share the lane.
	Partitions int `yaml:"partitions"`
	// Order is "" for none, or [OrderKey].
	Order Order `yaml:"order"`
	// Limit is how many of the lane's tasks may run at once in the whole
	// cluster; it is at least Partitions. Zero: no limit.
	Limit int `yaml:"limit"`
}

// Sharing says how lanes share a worker's slots, beside their weights.
type Sharing struct {
	// Aging is the part of a worker's time, to 0.5, that belongs to lanes whose
	// head has waited past its MaxWait, by weight among them, until it starts.
	// The others lose no more than that, however many such lanes there are. Zero:
	// 0.1. Negative: none.
	Aging float64 `yaml:"aging"`
	// Strict starts the first lane in the order of [Domain].Lanes that has
	// work, whatever the weights, but for what Aging and a lane's MaxGap give
	// to others, and what a Reserve keeps from them.
	Strict bool `yaml:"strict"`
}

// Order is what a lane promises of the order of its tasks.
type Order string

// OrderKey: tasks of one key run one at a time, in the order of the log.
const OrderKey Order = "key"

// Kind sets the defaults of the tasks of one kind.
type Kind struct {
	// Lane of the kind. Empty: the domain's default lane.
	Lane string `yaml:"lane"`
	// Timeout bounds one run. Zero: 1 min.
	Timeout time.Duration `yaml:"timeout"`
	// Attempts is the number of starts that may fail before the task is
	// dead. Zero: 10.
	Attempts int `yaml:"attempts"`
	// Backoff says how long a failed task waits for its next attempt.
	Backoff Backoff `yaml:"backoff"`
	// Concurrency is how many tasks of the kind may run at once in one
	// worker process. Zero: no limit but the slots.
	Concurrency int `yaml:"concurrency"`
	// Expires is how long after its due time a task is still worth a start.
	// Zero: for ever.
	Expires time.Duration `yaml:"expires"`
	// OnTimeout is what becomes of a task whose run took longer than its
	// timeout and then failed: [Retry], the default, or [Dead].
	OnTimeout Then `yaml:"on_timeout"`
	// OnInterrupt is what becomes of a task whose run a worker's stop has
	// ended because the grace was over: [Requeue], the default, [Dead], or
	// [Drop]. A killed process can't ask: its tasks run again.
	OnInterrupt Then `yaml:"on_interrupt"`
	// OnDeaf is what becomes of a task whose handler still runs long after its
	// context has ended (consumer.WithDeaf): [Dead], the default, or [Retry],
	// which may start it while the old run is at work.
	OnDeaf Then `yaml:"on_deaf"`
	// RetryBudget bounds how fast the kind's tasks come back after failures.
	RetryBudget RetryBudget `yaml:"retry_budget"`
}

// Then is what becomes of a task.
type Then string

const (
	Retry   Then = "retry"   // it comes back after the kind's back-off, or is dead where no attempt is left
	Requeue Then = "requeue" // it runs again under the same attempt
	Dead    Then = "dead"    // it enters the dead topic
	Drop    Then = "drop"    // it is over, and leaves no trace but a line in the log
)

// RetryBudget bounds the retries of one kind in one worker, so that many tasks
// that failed together don't come back as a storm: at most PerSecond of them a
// second, and Ratio for each run that succeeds. Those past it wait for longer
// than their back-off asks, by as much as they are past it. A RetryAfter and a
// list of Delays are exact, and not held up.
type RetryBudget struct {
	// PerSecond may be a fraction. Zero: 100. Negative: no bound.
	PerSecond float64 `yaml:"per_second"`
	// Ratio. Zero: 0.5. Negative: none.
	Ratio float64 `yaml:"ratio"`
}

// Backoff is the wait before the next attempt: attempt n that failed waits a
// random time between 0 and min(Max, Base × Factor^(n-1)), "full jitter", so
// that tasks that failed together don't come back together. A list of Delays
// replaces it and is taken without jitter.
type Backoff struct {
	Base   time.Duration   `yaml:"base"`   // zero: 1 s
	Factor float64         `yaml:"factor"` // zero: 2
	Max    time.Duration   `yaml:"max"`    // zero: 10 min, or Base where that is more
	Delays []time.Duration `yaml:"delays"` // the last one repeats
}

// Delay describes the delay topics.
type Delay struct {
	// Tiers are the delays that a far tier serves in one hop, rising. A task
	// due in 1 h takes the 1h tier and the near tier. A record waits in a tier
	// for the tier's delay less Window, so of a delay of 3 h that takes the 1h
	// tier three times, 3 windows are left over, which are one more hop where
	// the shortest tier is not longer. None: 5s 30s 1m 5m 15m 1h 6h 24h.
	Tiers []time.Duration `yaml:"tiers"`
	// Partitions of each far tier. Zero: 3.
	Partitions int `yaml:"partitions"`
	// Window is the time that a record has left when it comes from a far tier
	// to the near tier. Zero: 1 s. At most half of the shortest tier.
	Window time.Duration `yaml:"window"`
	// Lead is how long before it is due a task leaves the near tier for its
	// lane; the worker holds it until the instant. Zero: 50 ms, or half of
	// Window where that is less; negative: none. At most half of Window.
	Lead time.Duration `yaml:"lead"`
	// NearPartitions of the near tier. Zero: 6.
	NearPartitions int `yaml:"near_partitions"`
	// Rate is how many delayed tasks a second the domain expects; with the
	// shortest tier it gives what the near tier holds in memory. Zero: 5,000.
	Rate int `yaml:"rate"`
	// Buffer is how many records of one partition of the near tier a mover
	// holds in memory at most. Zero: 20,000. Rate × the shortest tier must
	// not be above Buffer × NearPartitions.
	Buffer int `yaml:"buffer"`
	// Horizon is the longest delay. Zero: 400 days.
	Horizon time.Duration `yaml:"horizon"`
	// Common are the delays that the domain's tasks usually have, in any
	// order, in whole milliseconds up to Horizon and at most 64 of them. They
	// change the way of no task: router.ProposeTiers and "ax topics plan" say
	// by them whether other tiers would serve the domain better. None: only
	// the Backoff.Delays of its kinds are known.
	Common []time.Duration `yaml:"common"`
}

// Retention says how long topics keep records.
type Retention struct {
	// Tasks is the age at which lanes and tiers forget records, worked or
	// not. Zero: never. It must be above the longest tier plus Outage.
	Tasks time.Duration `yaml:"tasks"`
	// Outage is for how long workers or movers may be down without a loss.
	// Zero: 7 days.
	Outage time.Duration `yaml:"outage"`
}

// Trim says how lanes and tiers are freed of what all groups that read them
// have committed. Nothing is deleted unless a process is told to, a mover or
// the command "ax trim".
type Trim struct {
	// Every is the time between two rounds; 1 s to 24 h. Zero: 1 min.
	Every time.Duration `yaml:"every"`
	// Groups are the consumer groups beside ax's own that read the lanes, an
	// audit's perhaps: each of them all lanes. What one of them has not
	// committed is kept, and where it has no commit, everything is. At most 64.
	Groups []string `yaml:"groups"`
}

// The domain's defaults, each in the place of a zero field.
const (
	DefaultTimeout  = time.Minute
	DefaultAttempts = 10
	defaultMaxWait  = time.Minute
	maxMaxWait      = 24 * time.Hour
)

// WithDefaults returns a copy of d in which no field is zero that has a
// default.
func (d Domain) WithDefaults() Domain {
	set(&d.Kafka.GroupProtocol, Classic)
	set(&d.Durability, Safe)
	if d.Durability == Fast {
		set(&d.Replication, 1)
	}
	set(&d.Replication, 3)

	d.Lanes = slices.Clone(d.Lanes)
	if len(d.Lanes) == 0 {
		d.Lanes = []Lane{
			{Name: "critical", Weight: 8, MaxWait: time.Second, Reserve: 1},
			{Name: "high", Weight: 4, MaxWait: 5 * time.Second},
			{Name: "normal", Weight: 2, MaxWait: 15 * time.Second},
			{Name: "low", Weight: 1},
		}
	}
	for i := range d.Lanes {
		l := &d.Lanes[i]
		set(&l.MaxWait, defaultMaxWait)
		set(&l.MaxGap, 10*min(max(l.MaxWait, time.Millisecond), maxMaxWait))
		if l.Limit > 0 && l.Limit < 6 {
			set(&l.Partitions, l.Limit)
		}
		set(&l.Partitions, 6)
	}
	set(&d.Sharing.Aging, 0.1)
	if d.DefaultLane == "" {
		d.DefaultLane = d.Lanes[0].Name
		if _, ok := d.Lane("normal"); ok {
			d.DefaultLane = "normal"
		}
	}
	d.Kinds = maps.Clone(d.Kinds)
	for name, k := range d.Kinds {
		d.Kinds[name] = k.withDefaults(d.DefaultLane)
	}

	d.Delay.Common = slices.Clone(d.Delay.Common)
	d.Delay.Tiers = slices.Clone(d.Delay.Tiers)
	if len(d.Delay.Tiers) == 0 {
		d.Delay.Tiers = []time.Duration{
			5 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
			15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
		}
	}
	set(&d.Delay.Partitions, 3)
	set(&d.Delay.Window, time.Second)
	set(&d.Delay.Lead, min(50*time.Millisecond, d.Delay.Window/2))
	set(&d.Delay.NearPartitions, 6)
	set(&d.Delay.Rate, 5000)
	set(&d.Delay.Buffer, 20_000)
	set(&d.Delay.Horizon, 400*24*time.Hour)

	set(&d.MaxPayload, 1<<20-64<<10)
	set(&d.Retention.Outage, 7*24*time.Hour)
	set(&d.Trim.Every, time.Minute)
	d.Trim.Groups = slices.Clone(d.Trim.Groups)
	return d
}

func (k Kind) withDefaults(lane string) Kind {
	set(&k.Lane, lane)
	set(&k.Timeout, DefaultTimeout)
	set(&k.Attempts, DefaultAttempts)
	set(&k.Backoff.Base, time.Second)
	set(&k.Backoff.Factor, 2)
	set(&k.Backoff.Max, max(10*time.Minute, k.Backoff.Base))
	k.Backoff.Delays = slices.Clone(k.Backoff.Delays)
	set(&k.OnTimeout, Retry)
	set(&k.OnInterrupt, Requeue)
	set(&k.OnDeaf, Dead)
	set(&k.RetryBudget.PerSecond, 100)
	set(&k.RetryBudget.Ratio, 0.5)
	return k
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Lane returns the lane of that name, and false if there is none.
func (d *Domain) Lane(name string) (Lane, bool) {
	for _, l := range d.Lanes {
		if l.Name == name {
			return l, true
		}
	}
	return Lane{}, false
}

// Kind returns the settings of the kind, with defaults where d names none.
// Call it on what [Domain.WithDefaults] returned.
func (d *Domain) Kind(name string) Kind {
	if k, ok := d.Kinds[name]; ok {
		return k
	}
	return Kind{}.withDefaults(d.DefaultLane)
}
