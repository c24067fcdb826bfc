package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/producer"
)

const (
	senders = 8   // goroutines that queue tasks
	batch   = 500 // tasks that each hands over together
)

// inBatches calls send for the numbers 0 to n-1 in batches, from several
// goroutines, and stops at the first error. It returns how long it took.
func inBatches(ctx context.Context, n int, send func(ctx context.Context, from, to int) error) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range senders {
		wg.Go(func() {
			for ctx.Err() == nil {
				to := int(next.Add(batch))
				from := to - batch
				if from >= n {
					return
				}
				if err := send(ctx, from, min(to, n)); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(began), context.Cause(ctx)
}

// submit submits n tasks in batches, as task makes them.
func submit(ctx context.Context, c *producer.Client, n int, task func(i int) ax.Task) (time.Duration, error) {
	return inBatches(ctx, n, func(ctx context.Context, from, to int) error {
		tasks := make([]ax.Task, to-from)
		for i := range tasks {
			tasks[i] = task(from + i)
		}
		for _, r := range c.SubmitMany(ctx, tasks) {
			if r.Err != nil {
				return r.Err
			}
		}
		return nil
	})
}

// arrive calls send for 0, 1, … at the rate, for so long, in one goroutine.
// What is late is made up for at once: tasks of users don't wait for each
// other either. It returns how many were sent, or why ctx ended.
func arrive(ctx context.Context, rate int, long time.Duration, send func(i int)) (int, error) {
	total := int(float64(rate) * long.Seconds())
	gap := time.Second / time.Duration(rate)
	timer := time.NewTimer(0)
	defer timer.Stop()
	began := time.Now()
	for sent := 0; ; {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return sent, context.Cause(ctx)
		}
		for ; sent < total && time.Since(began) >= time.Duration(sent)*gap; sent++ {
			send(sent)
		}
		if sent == total {
			return sent, nil
		}
		timer.Reset(time.Until(began.Add(time.Duration(sent) * gap)))
	}
}

// waitUntil waits until an instant.
func waitUntil(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run stands for a handler that is busy for so long.
func run(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answers collects what becomes of tasks that are submitted one by one.
type answers struct {
	first atomic.Pointer[error]
	open  sync.WaitGroup
}

// submit submits a task without waiting for it.
func (a *answers) submit(ctx context.Context, c *producer.Client, t ax.Task) {
	a.open.Add(1)
	c.SubmitAsync(ctx, t, func(_ ax.Receipt, err error) {
		if err != nil {
			a.first.CompareAndSwap(nil, &err)
		}
		a.open.Done()
	})
}

// wait waits for all answers and returns the first error.
func (a *answers) wait() error {
	a.open.Wait()
	if err := a.first.Load(); err != nil {
		return fmt.Errorf("not all tasks were submitted: %w", *err)
	}
	return nil
}

// usage is what a part of a run has cost a process.
type usage struct {
	now   func() (time.Duration, bool)
	began time.Time
	cpu   time.Duration
	known bool
}

// startUsage is about this process.
func startUsage() usage { return usageBy(cpuTime) }

func startUsageOf(pid string) usage {
	return usageBy(func() (time.Duration, bool) { return cpuTimeOf(pid) })
}

func usageBy(now func() (time.Duration, bool)) usage {
	u := usage{now: now, began: time.Now()}
	u.cpu, u.known = now()
	return u
}

// perTask adds the microseconds of processor time for each of n tasks.
func (u usage) perTask(fs *Fields, key string, n int) {
	if now, ok := u.now(); ok && u.known && n > 0 {
		fs.add(key, round(float64((now-u.cpu).Microseconds())/float64(n)))
	}
}

// percent adds the share of one processor.
func (u usage) percent(fs *Fields, key string) {
	if now, ok := u.now(); ok && u.known {
		fs.add(key, round(100*float64(now-u.cpu)/float64(time.Since(u.began))))
	}
}

// both runs two measurements, in the order of the pair: neither is always the
// first, which finds the machine in another state than the second.
func (g *ground) both(ours, control func() error) error {
	if g.pair%2 == 1 {
		ours, control = control, ours
	}
	if err := ours(); err != nil {
		return err
	}
	return control()
}

// closeClient closes the client within a bound, whatever became of the run.
func closeClient(ctx context.Context, c *producer.Client, err *error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	*err = errors.Join(*err, c.Close(ctx))
}
