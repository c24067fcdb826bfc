package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/checker"
	"github.com/axtasks/ax/internal/clock"
)

// roleVar holds the role of a process, as JSON.
const roleVar = "AX_SOAK_ROLE"

// role says what a process is to be.
type role struct {
	Role     string // worker, mover or producer
	Proc     string // the name of this life of it
	From     string // the address that it dials from; empty: any
	Facts    string
	Domain   ax.Domain
	Slots    int
	Rate     int
	MaxDelay time.Duration
	Seed     uint64
	Trim     bool
	Saturate bool // all tasks are slow and due at once
	Tune     bool // a worker's settings change all the time
	// Buffer, if not zero, is how many bytes the Kafka client may hold that are
	// not acknowledged: so few that publishes fail for want of room.
	Buffer int
}

// play is the life of a role's process. It returns nil once ctx has ended and
// all is put in order.
func play(ctx context.Context, stderr io.Writer) error {
	var r role
	if err := json.Unmarshal([]byte(os.Getenv(roleVar)), &r); err != nil {
		return fmt.Errorf("%s: %w", roleVar, err)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	facts, err := checker.NewWriter(r.Facts, r.Proc)
	if err != nil {
		return err
	}
	switch r.Role {
	case "worker":
		err = r.worker(ctx, facts, log)
	case "mover":
		err = r.mover(ctx, log)
	case "producer":
		err = r.producer(ctx, facts, log)
	default:
		err = fmt.Errorf("unknown role %q", r.Role)
	}
	return errors.Join(err, facts.Close())
}

func (r *role) kafka() []kgo.Opt {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	if r.From != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(r.From)}
	}
	opts := []kgo.Opt{kgo.Dialer(dialer.DialContext)}
	if r.Buffer > 0 {
		opts = append(opts, kgo.MaxBufferedBytes(r.Buffer))
	}
	return opts
}

func (r *role) worker(ctx context.Context, facts *checker.Writer, log *slog.Logger) error {
	mux := consumer.NewMux()
	mux.Use(func(h consumer.Handler) consumer.Handler { return witness{h, facts, r.Domain} })
	for kind, fn := range handlers {
		mux.HandleFunc(kind, fn)
	}
	w, err := consumer.New(r.Domain, mux, consumer.WithLogger(log), consumer.WithSlots(r.Slots), consumer.WithGrace(roleGrace),
		// A kind that always fails would keep its breaker open, and its tasks
		// waiting, for ever.
		consumer.WithBreaker(0, time.Second),
		consumer.WithCommitEvery(commitEvery), consumer.WithKafka(r.kafka()...))
	if err != nil {
		return err
	}
	if r.Tune {
		var tuning sync.WaitGroup
		defer tuning.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		tuning.Go(func() { r.tune(ctx, w, log) })
		return w.Run(ctx)
	}
	return w.Run(ctx)
}

// tune changes the worker's settings at random until ctx ends: that must cost
// nobody a start.
func (r *role) tune(ctx context.Context, w *consumer.Worker, log *slog.Logger) {
	dice := rand.New(rand.NewPCG(r.Seed, 0x7e4e))
	for wait(ctx, time.Duration(500+dice.IntN(2000))*time.Millisecond) == nil {
		err := w.Change(func(s *consumer.Settings) {
			s.Slots = max(r.Slots/2, 2) + dice.IntN(r.Slots)
			s.Strict = dice.IntN(4) == 0
			for i := range s.Lanes {
				s.Lanes[i].Weight = 1 + dice.IntN(20)
			}
			s.Lanes[0].Reserve = dice.IntN(3)
			s.Kind(kindSlow).Concurrency = dice.IntN(2) * (1 + dice.IntN(r.Slots))
		})
		if err != nil {
			log.Error("the settings could not be changed", "error", err)
		}
	}
}

func (r *role) mover(ctx context.Context, log *slog.Logger) error {
	opts := []delay.Option{
		delay.WithLogger(log), delay.WithGrace(roleGrace), delay.WithCommitEvery(commitEvery), delay.WithKafka(r.kafka()...),
	}
	if r.Trim {
		opts = append(opts, delay.WithTrim())
	}
	m, err := delay.New(r.Domain, opts...)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// witness writes down each run of a handler.
type witness struct {
	next   consumer.Handler
	facts  *checker.Writer
	domain ax.Domain
}

func (w witness) HandleTask(ctx context.Context, t *ax.Task) error {
	limit := t.MaxAttempts
	if limit == 0 {
		limit = w.domain.Kind(t.Kind).Attempts
	}
	f := checker.Fact{
		Type: checker.Started, ID: t.ID, Run: t.Run, Own: clock.Now().UnixNano(), Due: nanos(t.Due), Kind: t.Kind, Lane: t.Lane, Key: t.Key,
		Attempt: t.Attempt, Deferrals: t.Deferrals, Limit: limit, Token: t.Token,
		Topic: t.Source.Topic, Partition: t.Source.Partition, Offset: t.Source.Offset,
	}
	w.facts.Write(f)
	err := w.next.HandleTask(ctx, t)
	end := checker.Fact{Type: checker.Settled, ID: t.ID, Run: t.Run, Own: clock.Now().UnixNano(), Attempt: t.Attempt}
	end.Outcome, end.Wait = outcome(ctx, err)
	w.facts.Write(end)
	return err
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// outcome says what the worker will make of an error, and how long it asks to
// wait.
func outcome(ctx context.Context, err error) (string, int64) {
	if err == nil {
		return checker.Done, 0
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ax.ErrTimeout) {
		return checker.Interrupted, 0
	}
	var (
		snooze    *ax.SnoozeError
		cancel    *ax.CancelError
		permanent *ax.PermanentError
		after     *ax.RetryAfterError
	)
	switch {
	case errors.As(err, &snooze):
		return checker.Snoozed, int64(snooze.Delay)
	case errors.As(err, &cancel):
		return checker.Cancelled, 0
	case errors.As(err, &permanent):
		return checker.Permanent, 0
	case errors.As(err, &after):
		return checker.Failed, int64(after.Delay)
	}
	return checker.Failed, 0
}

var errWanted = errors.New("as the soak wants it")

var handlers = map[string]func(context.Context, *ax.Task) error{
	kindQuick: func(context.Context, *ax.Task) error { return nil },
	kindSlow:  func(ctx context.Context, _ *ax.Task) error { return wait(ctx, slowFor) },
	kindOnce: func(_ context.Context, t *ax.Task) error {
		if t.Attempt == 1 {
			return ax.RetryAfter(retryWait, errWanted)
		}
		return nil
	},
	kindFailing: func(context.Context, *ax.Task) error { return errWanted },
	kindSnooze: func(_ context.Context, t *ax.Task) error {
		if t.Deferrals == 0 {
			return ax.Snooze(snoozeFor)
		}
		return nil
	},
	kindPermanent: func(context.Context, *ax.Task) error { return ax.Permanent(errWanted) },
	kindCancel:    func(context.Context, *ax.Task) error { return ax.Cancel("as the soak wants it") },
	kindKeyed: func(ctx context.Context, t *ax.Task) error {
		if err := wait(ctx, keyedFor); err != nil {
			return err
		}
		if t.Attempt == 1 && len(t.Payload) > 0 && t.Payload[0] == 'f' {
			return ax.RetryAfter(retryWait/10, errWanted)
		}
		return nil
	},
}

// wait is work: it takes d, unless ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
