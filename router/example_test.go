package router_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/router"
)

// Provisioning: check, look at the plan, apply it.
func ExampleRouter_Plan() {
	cluster := kfake.MustCluster(kfake.NumBrokers(1)) // a Kafka in this process
	defer cluster.Close()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.MetadataMinAge(100*time.Millisecond), // or it answers for 5 s from memory
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ctx := context.Background()

	r, err := router.New(ax.Domain{
		Name: "orders", Durability: ax.Fast,
		Lanes: []ax.Lane{{Name: "high", Weight: 4}, {Name: "normal", Weight: 1}},
		Delay: ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Hour}},
	})
	if err != nil {
		panic(err)
	}
	_, drift := errors.AsType[*router.DriftError](r.Check(ctx, admin))
	fmt.Println("drift:", drift)

	plan, err := r.Plan(ctx, admin)
	if err != nil {
		panic(err)
	}
	for _, change := range plan.Changes {
		fmt.Println(change)
	}
	fmt.Println(plan.Apply(ctx, admin), r.Check(ctx, admin))
	// Output:
	// drift: true
	// create orders.lane.high (6 partitions, replication 1)
	// create orders.lane.normal (6 partitions, replication 1)
	// create orders.delay.5s (3 partitions, replication 1)
	// create orders.delay.1h (3 partitions, replication 1)
	// create orders.delay.near (6 partitions, replication 1)
	// create orders.dead (3 partitions, replication 1)
	// <nil> <nil>
}
