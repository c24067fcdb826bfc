package orders_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/examples/orders"
	"github.com/axtasks/ax/examples/orders/shop"
	"github.com/axtasks/ax/examples/orders/tasks"
	"github.com/axtasks/ax/idempotency"
	"github.com/axtasks/ax/internal/fakekafka"
	"github.com/axtasks/ax/producer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheFileIsTheDomain(t *testing.T) {
	t.Setenv("AX_KAFKA", "kafka-1:9092,kafka-2:9092")
	domain, err := orders.Domain()
	require.NoError(t, err)
	require.Equal(t, []string{"kafka-1:9092", "kafka-2:9092"}, domain.Kafka.Brokers)
	for _, kind := range []string{orders.KindClose, orders.KindReceipt, orders.KindReport} {
		require.Contains(t, domain.Kinds, kind)
	}
}

// An afternoon of the shop, with service, worker and mover, in virtual time.
func TestAnUnpaidOrderIsClosedExactlyHalfAnHourAfterItWasPlaced(t *testing.T) {
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		d := open(t, c)
		placed := time.Now()
		unpaid, err := d.shop.Place(t.Context(), "ada", 1250)
		require.NoError(t, err)

		time.Sleep(29*time.Minute + 59*time.Second)
		require.Equal(t, shop.Open, d.state(unpaid.ID))
		require.Empty(t, d.events())

		time.Sleep(time.Minute)
		require.Equal(t, shop.Closed, d.state(unpaid.ID))
		require.Equal(t, []event{{placed.Add(30 * time.Minute), "normal", "POST /orders/" + unpaid.ID + "/close"}}, d.events())

		_, err = d.shop.Pay(t.Context(), unpaid.ID)
		require.ErrorContains(t, err, "the order was closed")
	})
}

func TestAPaidOrderStaysPaidAndHasItsReceiptAndItsReport(t *testing.T) {
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		d := open(t, c)
		placed := time.Now()
		order, err := d.shop.Place(t.Context(), "bob", 99)
		require.NoError(t, err)

		time.Sleep(10 * time.Minute)
		paid := time.Now()
		for range 2 { // the customer clicks twice
			_, err = d.shop.Pay(t.Context(), order.ID)
			require.NoError(t, err)
		}
		time.Sleep(time.Hour)
		require.Equal(t, shop.Paid, d.state(order.ID))

		var mails, reports, closes []event
		for _, e := range d.events() {
			switch {
			case strings.HasPrefix(e.what, "mail"):
				require.WithinDuration(t, paid, e.at, time.Second)
				mails = append(mails, event{lane: e.lane, what: e.what})
			case strings.HasPrefix(e.what, "report"):
				reports = append(reports, event{lane: e.lane, what: e.what})
			default:
				closes = append(closes, e)
			}
		}
		require.Equal(t, []event{{lane: "high", what: "mail bob: We have received 0.99 for order " + order.ID + "."}}, mails,
			"two submits under one id are one task")
		report := event{lane: "low", what: "report " + paid.UTC().Format(time.DateOnly)}
		require.Equal(t, []event{report, report}, reports)
		require.Equal(t, []event{{placed.Add(30 * time.Minute), "normal", "POST /orders/" + order.ID + "/close"}}, closes,
			"the shop was asked once, and its refusal cancels the task")
		require.Empty(t, c.Records(t, "orders.dead"))
	})
}

// day is the domain with all roles running on a fake Kafka.
type day struct {
	shop *shop.Shop

	mu  sync.Mutex
	all []event
}

// event is something that a handler did.
type event struct {
	at   time.Time
	lane string
	what string
}

func open(t *testing.T, c *fakekafka.Cluster) *day {
	t.Helper()
	d := &day{}
	domain, err := orders.Domain()
	require.NoError(t, err)
	domain = c.Provision(t, domain).Domain()

	client, err := producer.New(domain, producer.WithKafka(c.Opts()...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	d.shop = shop.New(client)

	handlers := &tasks.Handlers{
		Shop: "http://shop",
		HTTP: &http.Client{Transport: d},
		Log:  slog.New(slog.NewTextHandler(t.Output(), nil)),
		SendMail: func(ctx context.Context, to, text string) error {
			d.note(ctx, "mail "+to+": "+text)
			return nil
		},
		Recalculate: func(ctx context.Context, day string) error {
			d.note(ctx, "report "+day)
			return nil
		},
	}
	// Idle clients that ask less often make hours of virtual time cheap.
	patient := append(c.Opts(), kgo.FetchMaxWait(time.Minute), kgo.SessionTimeout(5*time.Minute),
		kgo.HeartbeatInterval(time.Minute), kgo.MetadataMaxAge(time.Hour))
	worker, err := consumer.New(domain, handlers.Mux(),
		consumer.WithStore(idempotency.NewMemory()), consumer.WithKafka(patient...))
	require.NoError(t, err)
	mover, err := delay.New(domain, delay.WithKafka(patient...))
	require.NoError(t, err)
	for _, run := range []func(context.Context) error{worker.Run, mover.Run} {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		t.Cleanup(func() {
			stop()
			require.NoError(t, <-done)
		})
	}
	return d
}

// RoundTrip hands the worker's requests to the shop without a network, which
// virtual time could not see.
func (d *day) RoundTrip(r *http.Request) (*http.Response, error) {
	d.note(r.Context(), r.Method+" "+r.URL.Path)
	w := httptest.NewRecorder()
	d.shop.ServeHTTP(w, r)
	return w.Result(), nil
}

func (d *day) note(ctx context.Context, what string) {
	task, _ := ax.FromContext(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, event{time.Now(), task.Lane, what})
}

func (d *day) events() []event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

func (d *day) state(id string) shop.State {
	w := httptest.NewRecorder()
	d.shop.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/orders/"+id, nil))
	var order shop.Order
	if json.Unmarshal(w.Body.Bytes(), &order) != nil {
		return ""
	}
	return order.State
}
