package ax_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
)

// A domain can be built in Go. Whatever is zero has a default.
func Example() {
	domain := ax.Domain{
		Name: "orders",
		Kinds: map[string]ax.Kind{
			"order.close": {Lane: "critical", Timeout: 30 * time.Second, Attempts: 5},
		},
	}.WithDefaults()
	if err := domain.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	for _, lane := range domain.Lanes {
		fmt.Println(lane.Name, lane.Weight, lane.MaxWait)
	}
	fmt.Println(domain.Kind("order.close").Attempts, domain.Kind("another").Attempts)
	// Output:
	// critical 8 1s
	// high 4 5s
	// normal 2 15s
	// low 1 1m0s
	// 5 10
}

func ExampleDomain_Validate() {
	err := ax.Domain{
		Name:  "Orders",
		Lanes: []ax.Lane{{Name: "urgent", Weight: 8}, {Name: "rest"}},
	}.Validate()
	fmt.Println(err)
	// Output:
	// domain: "Orders": want lower case letters, digits, - and ., beginning and ending with a letter or digit
	// lanes[1].weight: 0: want 1 to 1000
}

func ExampleDomain_Complete() {
	domain := ax.Domain{Name: "orders"}.WithDefaults()
	task := ax.Task{Kind: "order.close", Lane: "urgent"}
	err := domain.Complete(&task, time.Now())
	fmt.Println(errors.Is(err, ax.ErrInvalid), errors.Is(err, ax.ErrUnknownLane))
	fmt.Println(err)
	// Output:
	// true true
	// ax: submit "order.close": lane "urgent", want one of critical, high, normal, low: invalid task: unknown lane
}

// Any client of any language can submit a task: one header is enough.
func ExampleDecode() {
	task, err := ax.Decode(&kgo.Record{
		Topic: "orders.lane.normal", Partition: 3, Offset: 42, LeaderEpoch: 1,
		Value:   []byte(`{"order":7}`),
		Headers: []kgo.RecordHeader{{Key: ax.HeaderKind, Value: []byte("order.close")}},
	}, [16]byte{})
	fmt.Println(task.Kind, task.ID, task.Attempt, err)

	_, err = ax.Decode(&kgo.Record{
		Topic:   "orders.lane.normal",
		Headers: []kgo.RecordHeader{{Key: ax.HeaderKind, Value: []byte("order.close")}, {Key: ax.HeaderDue, Value: []byte("soon")}},
	}, [16]byte{})
	fmt.Println(err)
	// Output:
	// order.close orders.lane.normal-3-42-1 1 <nil>
	// ax: record orders.lane.normal/0@0: header ax-due "soon": is not a time as of RFC 3339, such as 2026-01-02T15:04:05.999Z
}

func ExampleEncode() {
	r := ax.Encode(&ax.Task{
		ID: "7", Kind: "order.close", Key: "customer-1",
		Due: time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC),
	})
	for _, h := range r.Headers {
		fmt.Printf("%s: %s\n", h.Key, h.Value)
	}
	// Output:
	// ax-kind: order.close
	// ax-id: 7
	// ax-due: 2026-12-01T09:30:00Z
}

func ExampleDeadRecord() {
	dead := ax.DeadRecord(&kgo.Record{
		Topic: "orders.lane.normal", Partition: 3, Offset: 42, LeaderEpoch: 1,
		Key:     []byte("customer-1"),
		Headers: []kgo.RecordHeader{{Key: ax.HeaderKind, Value: []byte("order.close")}},
	}, ax.Death{Reason: ax.ReasonPermanent, Error: "no such order", At: time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC), Attempt: 1})
	fmt.Printf("key: %s\n", dead.Key)
	for _, h := range dead.Headers {
		fmt.Printf("%s: %s\n", h.Key, h.Value)
	}
	// Output:
	// key: orders.lane.normal-3-42-1
	// ax-kind: order.close
	// ax-dead-reason: permanent
	// ax-dead-error: no such order
	// ax-dead-at: 2026-12-01T09:30:00Z
	// ax-dead-attempt: 1
	// ax-dead-source: orders.lane.normal/3/42/1
	// ax-dead-key: customer-1
}

func ExampleRetryAfter() {
	handler := func(context.Context, *ax.Task) error {
		return fmt.Errorf("charge: %w", ax.RetryAfter(30*time.Second, errors.New("429 too many requests")))
	}
	err := handler(context.Background(), &ax.Task{})
	if retry, ok := errors.AsType[*ax.RetryAfterError](err); ok {
		fmt.Println(retry.Delay)
	}
	fmt.Println(err)
	// Output:
	// 30s
	// charge: retry after 30s: 429 too many requests
}

func ExamplePermanent() {
	fmt.Println(ax.Permanent(errors.New("no such order")))
	fmt.Println(ax.Permanent(nil))
	// Output:
	// permanent: no such order
	// <nil>
}

func ExampleSnooze() {
	fmt.Println(ax.Snooze(time.Hour))
	// Output: snoozed for 1h0m0s
}

func ExampleCancel() {
	fmt.Println(ax.Cancel("the order was paid"))
	// Output: cancelled: the order was paid
}

func ExampleFromContext() {
	ctx := ax.NewContext(context.Background(), &ax.Task{ID: "7", Attempt: 2})
	task, ok := ax.FromContext(ctx)
	fmt.Println(task.ID, task.Attempt, ok)
	_, ok = ax.FromContext(context.Background())
	fmt.Println(ok)
	// Output:
	// 7 2 true
	// false
}

func ExampleBackoff() {
	b := ax.Backoff{Base: time.Second, Factor: 2, Max: 5 * time.Second}
	for attempt := 1; attempt <= 4; attempt++ {
		fmt.Println(b.Ceiling(attempt), b.Wait(attempt) <= b.Ceiling(attempt))
	}
	list := ax.Backoff{Delays: []time.Duration{time.Second, time.Minute}}
	fmt.Println(list.Wait(1), list.Wait(2), list.Wait(3))
	// Output:
	// 1s true
	// 2s true
	// 4s true
	// 5s true
	// 1s 1m0s 1m0s
}

func ExampleSecret() {
	password := ax.Secret("hunter2")
	fmt.Printf("%v %s %q %x\n", password, password, password, password)
	fmt.Println(len(string(password)))
	// Output:
	// ***** ***** ***** *****
	// 7
}
