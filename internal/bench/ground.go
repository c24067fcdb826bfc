package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

// kind is that of all tasks whose lane is the domain's default.
const kind = "bench"

// plain is a domain of one lane, with ax's defaults otherwise.
func plain(*Config) ax.Domain {
	return ax.Domain{Lanes: []ax.Lane{{Name: "normal", Weight: 1}}}
}

// place is where a pair was measured.
type place struct {
	brokers     int
	kafka       string // version
	durability  ax.Durability
	replication int
	lead        time.Duration // zero: none
	embedded    bool
}

// ground is what one pair stands on: topics of its own, and clients.
type ground struct {
	*Config
	place
	pair   int
	fail   context.CancelCauseFunc // ends the pair's context
	router *router.Router
	opts   []kgo.Opt
	client *kgo.Client
	adm    *kadm.Client
	topics []string // beside the domain's
	groups []string
}

// open connects and makes the topics of a domain that nobody else has. fail
// ends ctx. On an error nothing is left.
func open(ctx context.Context, fail context.CancelCauseFunc, cfg *Config, d ax.Domain, pair int) (_ *ground, err error) {
	var id [5]byte
	_, _ = rand.Read(id[:]) // never fails, by its contract
	d.Name, d.Kafka = "bench-"+hex.EncodeToString(id[:]), cfg.Kafka
	g := &ground{Config: cfg, pair: pair, fail: fail}
	opts, watch, err := kafka.Options(d, "bench", nil)
	if err != nil {
		return nil, err
	}
	g.opts = opts
	if g.client, err = kgo.NewClient(opts...); err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	g.adm = kadm.NewClient(g.client)
	defer func() {
		if err != nil {
			err = errors.Join(watch.Explain(err), g.close(ctx))
		}
	}()
	if err := kafka.Ping(ctx, g.client, watch, 10*time.Second); err != nil {
		return nil, err
	}
	if err := g.look(ctx, &d); err != nil {
		return nil, err
	}
	if g.router, err = router.New(d); err != nil {
		return nil, err
	}
	plan, err := g.router.Plan(ctx, g.adm)
	if err != nil {
		return nil, err
	}
	return g, plan.Apply(ctx, g.adm)
}

// look asks what the cluster is, and lets the domain be as safe as it can be.
func (g *ground) look(ctx context.Context, d *ax.Domain) error {
	versions, err := g.adm.ApiVersions(ctx)
	if err != nil {
		return fmt.Errorf("ask for the brokers' versions: %w", err)
	}
	g.brokers = len(versions)
	for _, v := range versions.Sorted() {
		if v.Err == nil {
			g.kafka = v.VersionGuess()
			break
		}
	}
	switch g.brokers {
	case 1:
		d.Durability = ax.Fast
	case 2:
		d.Replication = 2
	}
	full := d.WithDefaults()
	g.durability, g.replication, g.lead = full.Durability, full.Replication, max(full.Delay.Lead, 0)
	return nil
}

// endTime bounds what is done after a measurement.
const endTime = 30 * time.Second

// close deletes topics and groups, and closes the clients.
func (g *ground) close(ctx context.Context) error {
	defer g.client.Close()
	if g.router == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	topics, err := g.adm.DeleteTopics(ctx, append(g.router.Topics(), g.topics...)...)
	errs := []error{err}
	for _, t := range topics {
		if t.Err != nil && !errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			errs = append(errs, fmt.Errorf("delete topic %s: %w", t.Topic, t.Err))
		}
	}
	groups := append([]string{g.router.NearGroup(), g.router.FarGroup()}, g.groups...)
	for _, l := range g.router.Domain().Lanes {
		groups = append(groups, g.router.LaneGroup(l.Name))
	}
	deleted, _ := g.adm.DeleteGroups(ctx, groups...) // its error says which, as do these
	for _, d := range deleted {
		if d.Err != nil && !errors.Is(d.Err, kerr.GroupIDNotFound) && !errors.Is(d.Err, kerr.CoordinatorNotAvailable) {
			errs = append(errs, fmt.Errorf("delete group %s: %w", d.Group, d.Err))
		}
	}
	return errors.Join(errs...)
}

// topic makes a topic for the control, of the shape of a lane.
func (g *ground) topic(ctx context.Context, like string) (string, error) {
	lane, _ := g.router.LaneOf(like)
	d := g.router.Domain()
	conf, _ := d.Lane(lane)
	name := d.Name + ".raw." + lane // a lane of another name would be drained
	made, err := g.adm.CreateTopic(ctx, int32(conf.Partitions), int16(g.replication), map[string]*string{
		"retention.ms": kadm.StringPtr("-1"), "min.insync.replicas": kadm.StringPtr(fmt.Sprint(min(g.replication, 2))),
	}, name)
	if err == nil {
		err = made.Err
	}
	if err != nil {
		return "", fmt.Errorf("create topic %s: %w", name, err)
	}
	g.topics = append(g.topics, name)
	// Until all brokers have heard of it.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ends, err := g.adm.ListEndOffsets(ctx, name)
		if err == nil && ends.Error() == nil && len(ends[name]) == conf.Partitions {
			return name, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", errors.Join(context.Cause(ctx), err)
		}
	}
}

// bare returns a client without anything of ax but the connection.
func (g *ground) bare(opts ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append(slices.Clone(g.opts), opts...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client of the control: %w", err)
	}
	return cl, nil
}

// role is a worker or mover at work.
type role struct {
	status  func() consumer.Status // of a worker
	cancel  context.CancelFunc
	stopped atomic.Bool
	over    chan struct{}
	err     error
}

// start runs fn until stop. Where it ends before, the pair fails.
func (g *ground) start(ctx context.Context, name string, fn func(context.Context) error) *role {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &role{cancel: cancel, over: make(chan struct{})}
	go func() {
		defer close(r.over)
		if r.err = fn(ctx); !r.stopped.Load() {
			g.fail(fmt.Errorf("the %s stopped by itself: %w", name, orNone(r.err)))
		}
	}()
	return r
}

func orNone(err error) error {
	if err == nil {
		return errors.New("without an error")
	}
	return err
}

// stop ends the role, waits for it and returns its error. A second call
// returns the same.
func (r *role) stop() error {
	r.stopped.Store(true)
	r.cancel()
	<-r.over
	return r.err
}

// worker starts a worker of so many slots, whose handlers are those of mux.
func (g *ground) worker(ctx context.Context, d ax.Domain, mux *consumer.Mux, slots int) (*role, error) {
	w, err := consumer.New(d, mux, consumer.WithSlots(slots), consumer.WithLogger(g.Log), consumer.WithGrace(5*time.Second))
	if err != nil {
		return nil, err
	}
	r := g.start(ctx, "worker", w.Run)
	r.status = w.Status
	return r, nil
}

// mover starts a mover.
func (g *ground) mover(ctx context.Context) (*role, error) {
	m, err := delay.New(g.router.Domain(), delay.WithLogger(g.Log))
	if err != nil {
		return nil, err
	}
	return g.start(ctx, "mover", m.Run), nil
}

// producer returns a client that has reached a broker.
func (g *ground) producer(ctx context.Context) (*producer.Client, error) {
	c, err := producer.New(g.router.Domain(), producer.WithLogger(g.Log))
	if err != nil {
		return nil, err
	}
	if err := c.Ping(ctx); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return c, nil
}

// profile takes a CPU profile until the function that it returns is called,
// where the run asks for profiles.
func (g *ground) profile(of string) (stop func() error, err error) {
	if g.Profiles == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(g.Profiles, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory for profiles: %w", err)
	}
	f, err := os.Create(filepath.Join(g.Profiles, fmt.Sprintf("%s-%d.pprof", of, g.pair+1)))
	if err != nil {
		return nil, fmt.Errorf("profile of %s: %w", of, err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("profile of %s: %w", of, err), f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

// clean starts a measurement with what the one before has left behind out of
// its way.
func clean() { runtime.GC() }
