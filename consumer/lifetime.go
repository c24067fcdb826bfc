package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/axtasks/ax"
)

// lifetime is how a worker is told to stop, and what came of it.
type lifetime struct {
	stopping chan struct{} // closed when it shall stop
	hurry    chan struct{} // closed when running tasks get no more grace
	done     chan struct{} // closed when Run has returned

	mu       sync.Mutex
	ran      bool
	working  bool
	handBack bool // the tasks are wanted back
	tasks    []ax.Task
	err      error
}

func (l *lifetime) init() {
	l.stopping, l.hurry, l.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
}

// closeOnce closes a channel of l, whatever happened to it before.
func (l *lifetime) closeOnce(c chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// abandonAfter is how long handlers may take to return once their contexts
// have ended.
const abandonAfter = 5 * time.Second

// Run works until ctx ends or [Worker.Shutdown] or [Worker.HandBack] is called,
// then drains: nothing more is started, running tasks go on for the grace, then
// their contexts end and their tasks come back without having spent an attempt;
// what was finished is committed, and the groups are left. It returns nil for
// such a stop, an error at once when no broker answers, the credentials are
// refused or a topic is missing, and the joined reasons when the stop did not
// succeed within its bounds, such as handlers that don't return. It may be
// called once; it returns an error matching ax.ErrClosed after that, also where
// the worker was told to stop before it ran.
func (w *Worker) Run(ctx context.Context) error {
	l := &w.life
	l.mu.Lock()
	again := l.ran
	l.ran = true
	l.mu.Unlock()
	if again {
		return fmt.Errorf("ax: worker of domain %s: run: %w", w.domain.Name, ax.ErrClosed)
	}
	defer close(l.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan struct{})
	defer func() { <-stopped }()
	defer cancel()
	go func() {
		defer close(stopped)
		select {
		case <-l.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := w.run(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	return err
}

func (w *Worker) run(ctx context.Context) error {
	tasks, interrupt := context.WithCancelCause(context.Background())
	defer interrupt(ax.ErrShutdown)
	if err := w.open(ctx, tasks); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it had begun
		}
		return fmt.Errorf("ax: worker of domain %s: %w", w.domain.Name, err)
	}
	unwatch, err := w.tel.WatchWorker(w.measure)
	if err != nil {
		w.pub.Close()
		return errors.Join(err, w.closeMembers())
	}
	serving, stopServing := context.WithCancel(context.Background())
	defer stopServing()
	var intake, slots, serve sync.WaitGroup
	for _, l := range w.lanes {
		intake.Go(func() { w.intake(ctx, l) })
		serve.Go(func() { l.member.CommitLoop(serving) })
		if l.leftover != nil {
			serve.Go(func() { w.watchLeftover(serving, l) })
		}
	}
	intake.Go(func() { w.sched.open(ctx) })
	serve.Go(func() { w.pub.Run(serving) })
	serve.Go(func() { w.watchDeaf(serving) })
	if w.leases != nil {
		serve.Go(func() { w.leases.run(serving) })
	}
	w.sched.begin(func(sl *slot) { slots.Go(func() { w.work(sl) }) })
	w.setWorking(true)
	w.log.Info("worker runs", "domain", w.domain.Name, "lanes", len(w.lanes), "slots", w.Settings().Slots)

	<-ctx.Done()
	w.setWorking(false)
	w.log.Info("worker stops", "domain", w.domain.Name, "grace", w.cfg.grace)
	w.sched.stop()
	intake.Wait()
	errs := []error{w.drain(&slots, interrupt)}
	ending, cancel := context.WithTimeout(context.Background(), abandonAfter)
	defer cancel()
	if err := w.pub.Flush(ending); err != nil {
		errs = append(errs, fmt.Errorf("ax: worker of domain %s: %d publishes without an answer: %w", w.domain.Name, w.pub.Open(), err))
	} else {
		w.completing.Wait() // nothing is answered any more, so none is added
	}
	w.collect()
	stopServing()
	serve.Wait()
	errs = append(errs, w.closeMembers())
	w.pub.Close()
	return errors.Join(append(errs, unwatch())...)
}

// drain waits for the handlers.
func (w *Worker) drain(slots *sync.WaitGroup, interrupt context.CancelCauseFunc) error {
	done := make(chan struct{})
	go func() { slots.Wait(); close(done) }()
	timer := time.NewTimer(w.cfg.grace)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
	case <-w.life.hurry:
	}
	interrupt(ax.ErrShutdown)
	timer.Reset(abandonAfter)
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("ax: worker of domain %s: %d handlers did not return %s after their contexts ended",
			w.domain.Name, w.sched.busy(), abandonAfter)
	}
}

func (w *Worker) setWorking(on bool) {
	w.life.mu.Lock()
	w.life.working = on
	w.life.mu.Unlock()
}

// collect keeps what is handed back, where that was asked for.
func (w *Worker) collect() {
	w.life.mu.Lock()
	defer w.life.mu.Unlock()
	if w.life.handBack {
		w.life.tasks = w.sched.unfinished()
	}
}

func (w *Worker) closeMembers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	errs := make([]error, len(w.lanes))
	var wg sync.WaitGroup
	for i, l := range w.lanes {
		wg.Go(func() { errs[i] = l.member.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Shutdown tells the worker to stop as the end of Run's context does, and waits
// for it: running tasks get the worker's grace, or less where ctx ends first.
// It returns what Run returned, or ctx's cause where the worker did not stop
// even some seconds after ctx had ended. Further calls wait for the same stop.
// A worker that is not running will not run.
func (w *Worker) Shutdown(ctx context.Context) error { return w.stop(ctx) }

// HandBack stops the worker at once: the contexts of running tasks end with
// ax.ErrShutdown, and it returns the tasks that were read and are not finished,
// those that never started and those that were interrupted, which other workers
// will read again. Payloads and headers are copies. It waits as Shutdown does,
// and may be called again, also after it, for the same answer. After a stop
// that drained it returns what was left then, if HandBack was called before the
// drain was over.
func (w *Worker) HandBack(ctx context.Context) ([]ax.Task, error) {
	l := &w.life
	l.mu.Lock()
	l.handBack = true
	l.mu.Unlock()
	l.closeOnce(l.hurry)
	err := w.stop(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tasks, err
}

func (w *Worker) stop(ctx context.Context) error {
	l := &w.life
	l.closeOnce(l.stopping)
	l.mu.Lock()
	ran := l.ran
	l.ran = true
	if !ran {
		close(l.done) // it never will
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-ctx.Done():
		l.closeOnce(l.hurry)
		late := time.NewTimer(4 * abandonAfter)
		defer late.Stop()
		select {
		case <-l.done:
		case <-late.C:
			return fmt.Errorf("ax: worker of domain %s: stop: %w", w.domain.Name, context.Cause(ctx))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
