package producer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/producer"
	"github.com/axtasks/ax/router"
)

// exampleDomain is a domain whose topics exist, on a Kafka in this process.
func exampleDomain() (ax.Domain, func()) {
	cluster := kfake.MustCluster(kfake.NumBrokers(1))
	domain := ax.Domain{
		Name: "orders", Kafka: ax.Kafka{Brokers: cluster.ListenAddrs()}, Durability: ax.Fast,
		Lanes: []ax.Lane{{Name: "high", Weight: 4, Partitions: 1}, {Name: "normal", Weight: 1, Partitions: 1}},
		Delay: ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Hour}, Partitions: 1},
	}
	r, err := router.New(domain)
	if err != nil {
		panic(err)
	}
	kafka, err := kgo.NewClient(kgo.SeedBrokers(domain.Kafka.Brokers...), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer kafka.Close()
	admin := kadm.NewClient(kafka)
	plan, err := r.Plan(context.Background(), admin)
	if err != nil {
		panic(err)
	}
	if err := plan.Apply(context.Background(), admin); err != nil {
		panic(err)
	}
	return domain, cluster.Close
}

func Example() {
	domain, stop := exampleDomain()
	defer stop()
	ctx := context.Background()

	client, err := producer.New(domain)
	if err != nil {
		panic(err)
	}
	defer client.Close(ctx)

	receipt, err := client.Submit(ctx, ax.Task{Kind: "order.close", Payload: []byte(`{"order":17}`)},
		producer.Lane("high"), producer.Key("order-17"))
	fmt.Println(receipt.Topic, receipt.Partition, receipt.Offset, err)

	receipt, err = client.Submit(ctx, ax.Task{Kind: "order.remind"}, producer.After(3*time.Hour))
	fmt.Println(receipt.Topic, err)

	_, err = client.Submit(ctx, ax.Task{Kind: "order.close", ID: "x"}, producer.Lane("urgent"))
	fmt.Println(errors.Is(err, ax.ErrUnknownLane), err)
	// Output:
	// orders.lane.high 0 0 <nil>
	// orders.delay.1h <nil>
	// true ax: submit "order.close" (id "x"): lane "urgent", want one of high, normal: invalid task: unknown lane
}

func ExampleClient_SubmitMany() {
	domain, stop := exampleDomain()
	defer stop()
	ctx := context.Background()
	client, err := producer.New(domain)
	if err != nil {
		panic(err)
	}
	defer client.Close(ctx)

	for i, r := range client.SubmitMany(ctx, []ax.Task{
		{Kind: "order.close", ID: "close-1"},
		{Kind: ""},
		{Kind: "order.close", ID: "close-2"},
	}) {
		if r.Err != nil {
			fmt.Println(i, "refused:", errors.Is(r.Err, ax.ErrInvalid))
			continue
		}
		fmt.Println(i, r.Receipt.ID, r.Receipt.Topic)
	}
	// Output:
	// 0 close-1 orders.lane.normal
	// 1 refused: true
	// 2 close-2 orders.lane.normal
}

func ExampleClient_SubmitAsync() {
	domain, stop := exampleDomain()
	defer stop()
	ctx := context.Background()
	client, err := producer.New(domain)
	if err != nil {
		panic(err)
	}
	client.SubmitAsync(ctx, ax.Task{Kind: "order.close", ID: "close-1"}, func(r ax.Receipt, err error) {
		fmt.Println(r.ID, r.Topic, err)
	})
	fmt.Println(client.Close(ctx)) // waits for the answer
	// Output:
	// close-1 orders.lane.normal <nil>
	// <nil>
}
