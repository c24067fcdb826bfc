package consumer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

// fleet is workers that are processes of their own: they can be killed, and
// come back by themselves, as under a supervisor.
type fleet struct {
	b        *bench
	n        int
	restart  time.Duration
	runs     map[string]int // starts by task id
	done     map[string]int
	mux      func(p *fakekafka.Process, mux *consumer.Mux)
	opts     []consumer.Option
	stopping bool

	mu    sync.Mutex
	procs []*fakekafka.Process
	group sync.WaitGroup
}

func newFleet(b *bench, n int, mux func(*fleet, *fakekafka.Process, *consumer.Mux), opts ...consumer.Option) *fleet {
	f := &fleet{b: b, n: n, restart: 2 * time.Second, runs: map[string]int{}, done: map[string]int{}, opts: opts}
	f.mux = func(p *fakekafka.Process, m *consumer.Mux) { mux(f, p, m) }
	for range n {
		f.start()
	}
	b.t.Cleanup(f.stop)
	return f
}

// start starts a worker, which is started again some time after it was killed.
func (f *fleet) start() {
	p := f.b.c.Process()
	mux := consumer.NewMux()
	f.mux(p, mux)
	// The fake begins its wait for a dead member anew with each join. Clients that
	// give a join up meanwhile and join again, as they do after their own patience,
	// would keep it waiting for ever; a broker doesn't.
	patience := kgo.RequestTimeoutOverhead(2 * time.Minute)
	opts := append([]consumer.Option{consumer.WithLogger(testLog(f.b.t)), consumer.WithKafka(append(p.Opts(), patience)...), consumer.WithGrace(time.Second)}, f.opts...)
	w, err := consumer.New(f.b.domain, mux, opts...)
	require.NoError(f.b.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopping {
		return
	}
	f.procs = append(f.procs, p)
	ctx, cancel := context.WithCancel(context.Background())
	f.group.Go(func() {
		// The error of one that was killed tells that it can't say good-bye.
		if err := w.Run(ctx); err != nil {
			select {
			case <-p.Dead():
			default:
				f.b.t.Errorf("worker: %v", err)
			}
		}
	})
	f.group.Go(func() {
		<-p.Dead()
		cancel()
		f.mu.Lock()
		stopping := f.stopping
		f.mu.Unlock()
		if stopping {
			return
		}
		time.Sleep(f.restart)
		f.start()
	})
}

func (f *fleet) stop() {
	f.mu.Lock()
	f.stopping = true
	for _, p := range f.procs {
		p.Kill()
	}
	f.mu.Unlock()
	f.group.Wait()
}

// kill kills all workers.
func (f *fleet) killAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.procs {
		p.Kill()
	}
	f.procs = nil
}

func (f *fleet) started(id string) {
	f.mu.Lock()
	f.runs[id]++
	f.mu.Unlock()
}

func (f *fleet) finished(id string) {
	f.mu.Lock()
	f.done[id]++
	f.mu.Unlock()
}

func (f *fleet) count(in map[string]int, id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return in[id]
}

// sleep is work that ends with its process.
func sleep(ctx context.Context, p *fakekafka.Process, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.Dead():
		<-ctx.Done() // nothing of it counts any more
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Killers in two partitions of three workers, with innocent tasks of 30 s
// beside them in the same partitions: the killers alone end dead, as crashed.
func TestATaskThatKillsItsProcessEndsAsCrashedAndItsNeighboursAreNotBlamed(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 1, Partitions: 6}, {Name: "other", Weight: 1, Partitions: 6}}})
		keys := twoPartitions(b, "main")
		for i := range 20 {
			b.submit(ax.Task{ID: fmt.Sprintf("innocent-%02d", i), Kind: "long", Lane: "main", Key: keys[i%2]}, producer.Timeout(time.Minute))
			if i == 7 || i == 12 {
				b.submit(ax.Task{ID: fmt.Sprintf("killer-%02d", i), Kind: "kill", Lane: "main", Key: keys[i%2]}, producer.Timeout(time.Minute))
			}
		}
		crashes := 0
		f := newFleet(b, 3, func(f *fleet, p *fakekafka.Process, m *consumer.Mux) {
			m.HandleFunc("kill", func(ctx context.Context, task *ax.Task) error {
				f.started(task.ID)
				f.mu.Lock()
				crashes++
				f.mu.Unlock()
				p.Kill()
				<-ctx.Done()
				return ctx.Err()
			})
			m.HandleFunc("long", func(ctx context.Context, task *ax.Task) error {
				f.started(task.ID)
				if err := sleep(ctx, p, 30*time.Second); err != nil {
					return err
				}
				f.finished(task.ID)
				return nil
			})
			m.HandleFunc("quick", func(ctx context.Context, task *ax.Task) error {
				if err := sleep(ctx, p, 10*time.Millisecond); err != nil {
					return err
				}
				f.finished(task.ID)
				return nil
			})
		}, consumer.WithSlots(16))
		// The other lane is loaded all the time.
		others := 0
		for range 30 * 60 {
			time.Sleep(500 * time.Millisecond)
			b.submit(ax.Task{ID: fmt.Sprintf("other-%d", others), Kind: "quick", Lane: "other"})
			others++
		}
		dead := c.Records(t, b.r.Dead())
		var who []string
		for _, r := range dead {
			d, err := ax.Decode(r, [16]byte{})
			require.NoError(t, err)
			who = append(who, d.ID)
			require.Equal(t, string(ax.ReasonCrashed), header(r, ax.HeaderDeadReason))
		}
		require.ElementsMatch(t, []string{"killer-07", "killer-12"}, who)
		for i := range 20 {
			id := fmt.Sprintf("innocent-%02d", i)
			require.GreaterOrEqual(t, f.count(f.done, id), 1, "task %s", id)
		}
		for i := range others - 20 {
			require.GreaterOrEqual(t, f.count(f.done, fmt.Sprintf("other-%d", i)), 1, "task %d of the other lane", i)
		}
		t.Logf("%d crashes", crashes)
		require.Less(t, crashes, 30)
	})
}

// twoPartitions returns two keys that are in different partitions of a lane.
func twoPartitions(b *bench, lane string) [2]string {
	first := b.submit(ax.Task{Kind: "quick", Lane: lane, Key: "k0"})
	for i := 1; ; i++ {
		key := fmt.Sprintf("k%d", i)
		if r := b.submit(ax.Task{Kind: "quick", Lane: lane, Key: key}); r.Partition != first.Partition {
			return [2]string{"k0", key}
		}
	}
}

// A fleet that is killed over and over, by whatever, and long tasks that never
// get to their end meanwhile: none of them is to blame.
func TestAFleetThatIsKilledOverAndOverBlamesNoTask(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 1, Partitions: 3}}})
		for i := range 10 {
			b.submit(ax.Task{ID: fmt.Sprintf("task-%d", i), Kind: "long"}, producer.Timeout(time.Minute))
		}
		f := newFleet(b, 3, func(f *fleet, p *fakekafka.Process, m *consumer.Mux) {
			m.HandleFunc("long", func(ctx context.Context, task *ax.Task) error {
				f.started(task.ID)
				if err := sleep(ctx, p, 30*time.Second); err != nil {
					return err
				}
				f.finished(task.ID)
				return nil
			})
		})
		for i := range 60 {
			time.Sleep(time.Duration(12+i*7%23) * time.Second)
			f.killAll()
		}
		time.Sleep(20 * time.Minute)
		require.Empty(t, c.Records(t, b.r.Dead()))
		for i := range 10 {
			require.GreaterOrEqual(t, f.count(f.done, fmt.Sprintf("task-%d", i)), 1)
		}
	})
}

// Nothing else happens that could wake a slot: when the killer is dead, those
// behind it must run all the same.
func TestThoseBehindAKillerRunOnceItIsDead(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Domain{Lanes: []ax.Lane{{Name: "main", Weight: 1, Partitions: 1}}})
		b.submit(ax.Task{ID: "killer", Kind: "kill"})
		for i := range 5 {
			b.submit(ax.Task{ID: fmt.Sprintf("innocent-%d", i), Kind: "quick"})
		}
		f := newFleet(b, 1, func(f *fleet, p *fakekafka.Process, m *consumer.Mux) {
			m.HandleFunc("kill", func(ctx context.Context, _ *ax.Task) error {
				p.Kill()
				<-ctx.Done()
				return ctx.Err()
			})
			m.HandleFunc("quick", func(ctx context.Context, task *ax.Task) error {
				if err := sleep(ctx, p, time.Second); err != nil {
					return err
				}
				f.finished(task.ID)
				return nil
			})
		}, consumer.WithSlots(2))
		time.Sleep(20 * time.Minute)
		require.Len(t, c.Records(t, b.r.Dead()), 1)
		for i := range 5 {
			require.Equal(t, 1, f.count(f.done, fmt.Sprintf("innocent-%d", i)))
		}
	})
}
