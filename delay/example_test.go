package delay_test

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

// A mover brings a delayed task to its lane, the lead before it is due.
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
	mover, err := delay.New(domain)
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() { done <- mover.Run(ctx) }()

	client, err := producer.New(domain)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	receipt, err := client.Submit(ctx, ax.Task{Kind: "order.remind"}, producer.After(time.Second))
	fmt.Println(receipt.Topic, err)

	lane, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics("orders.lane.normal"),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lane.Close()
	for _, r := range lane.PollFetches(ctx).Records() {
		task, err := ax.Decode(r, [16]byte{})
		fmt.Println(r.Topic, task.Kind, err, time.Until(receipt.Due) < time.Second)
	}
	stop()
	fmt.Println("mover:", <-done)
	// Output:
	// orders.delay.near <nil>
	// orders.lane.normal order.remind <nil> true
	// mover: <nil>
}
