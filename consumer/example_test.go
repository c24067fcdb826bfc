package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

// Close is the payload of a task.
type Close struct {
	Order int `json:"order"`
}

// A worker binary in one piece, with the service that submits and the mover
// that serves delays beside it. Each is a process of its own in real life.
func Example() {
	broker := kfake.MustCluster(kfake.NumBrokers(1)) // a Kafka in this process
	defer broker.Close()
	domain := ax.Domain{Name: "orders", Kafka: ax.Kafka{Brokers: broker.ListenAddrs()}, Durability: ax.Fast}
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	if err := router.Provision(ctx, domain); err != nil {
		fmt.Println(err)
		return
	}

	mux := consumer.NewMux()
	mux.Handle("order.close", consumer.JSON(func(ctx context.Context, c Close) error {
		if t, _ := ax.FromContext(ctx); t.Attempt == 1 {
			return ax.RetryAfter(300*time.Millisecond, errors.New("the database is away"))
		}
		fmt.Println("closed order", c.Order)
		stop()
		return nil
	}))
	worker, err := consumer.New(domain, mux)
	if err != nil {
		fmt.Println(err)
		return
	}
	mover, err := delay.New(domain)
	if err != nil {
		fmt.Println(err)
		return
	}
	moved := make(chan error)
	go func() { moved <- mover.Run(ctx) }()

	client, err := producer.New(domain)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	if _, err := client.SubmitJSON(ctx, "order.close", Close{Order: 17}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("worker:", worker.Run(ctx), "mover:", <-moved)
	// Output:
	// closed order 17
	// worker: <nil> mover: <nil>
}

// A middleware wraps every handler.
func ExampleMux_Use() {
	mux := consumer.NewMux()
	mux.Use(func(next consumer.Handler) consumer.Handler {
		return consumer.HandlerFunc(func(ctx context.Context, t *ax.Task) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return next.HandleTask(ctx, t)
		})
	})
	mux.HandleFunc("order.close", func(context.Context, *ax.Task) error { return nil })
	fmt.Println(mux.Kinds())
	// Output: [order.close]
}

// Slots, weights and limits can be changed while a worker runs, all of them or,
// where one is out of range, none.
func ExampleWorker_Change() {
	mux := consumer.NewMux()
	mux.HandleFunc("report.build", func(context.Context, *ax.Task) error { return nil })
	worker, err := consumer.New(ax.Domain{Name: "orders"}, mux)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = worker.Change(func(s *consumer.Settings) {
		s.Slots = 64
		s.Lane("low").Weight = 4
		s.Kind("report.build").Concurrency = 8
	})
	fmt.Println(err, worker.Settings().Slots)
	err = worker.Change(func(s *consumer.Settings) { s.Slots, s.Lane("low").Weight = 128, 0 })
	fmt.Println(err)
	fmt.Println(worker.Settings().Slots)
	// Output:
	// <nil> 64
	// ax: worker of domain orders: change: lanes[3].weight: 0: want 1 to 1000
	// 64
}

// The errors of a library that you don't own become outcomes.
func ExampleClassify() {
	charge := consumer.HandlerFunc(func(context.Context, *ax.Task) error {
		return fmt.Errorf("charge: %w", errCardExpired)
	})
	handler := consumer.Classify(charge, func(err error) error {
		if errors.Is(err, errCardExpired) {
			return ax.Permanent(err)
		}
		return err
	})
	err := handler.HandleTask(context.Background(), &ax.Task{})
	var permanent *ax.PermanentError
	fmt.Println(errors.As(err, &permanent), err)
	// Output: true permanent: charge: the card has expired
}

var errCardExpired = errors.New("the card has expired")
