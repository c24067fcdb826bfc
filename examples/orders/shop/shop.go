// Package shop is the upstream side of the example: it takes orders over HTTP
// and submits the tasks that follow from them.
//
//	POST /orders               {"customer": "ada@example.com", "cents": 1250}
//	GET  /orders/{id}
//	POST /orders/{id}/payment
//	POST /orders/{id}/close    409 if it was paid
package shop

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/axtasks/ax/examples/orders"
	"github.com/axtasks/ax/producer"
)

// Order is one order, in memory, where a real shop has a database.
type Order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
	State    State  `json:"state"`
}

// State is what has become of an order.
type State string

// The states of an order.
const (
	Open   State = "open"
	Paid   State = "paid"
	Closed State = "closed"
)

var (
	errUnknown = errors.New("no such order")
	errPaid    = errors.New("the order was paid")
	errClosed  = errors.New("the order was closed")
)

// Shop holds orders and serves them. Make it with [New].
type Shop struct {
	http.ServeMux
	tasks *producer.Client

	mu     sync.Mutex
	orders map[string]*Order
}

// New returns a shop that submits its tasks with client.
func New(client *producer.Client) *Shop {
	s := &Shop{tasks: client, orders: map[string]*Order{}}
	s.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var o Order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		o, err := s.Place(r.Context(), o.Customer, o.Cents)
		reply(w, o, err)
	})
	s.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		o, err := s.update(r.PathValue("id"), func(*Order) error { return nil })
		reply(w, o, err)
	})
	s.HandleFunc("POST /orders/{id}/payment", func(w http.ResponseWriter, r *http.Request) {
		o, err := s.Pay(r.Context(), r.PathValue("id"))
		reply(w, o, err)
	})
	s.HandleFunc("POST /orders/{id}/close", func(w http.ResponseWriter, r *http.Request) {
		o, err := s.Close(r.PathValue("id"))
		reply(w, o, err)
	})
	return s
}

// Place takes an order, and has it closed unless it is paid in time. No order
// is taken whose end Kafka does not know of.
func (s *Shop) Place(ctx context.Context, customer string, cents int64) (Order, error) {
	o := Order{ID: rand.Text(), Customer: customer, Cents: cents, State: Open}
	_, err := s.tasks.Submit(ctx, orders.Close{Order: o.ID}.Task(), producer.After(orders.PayWithin))
	if err != nil {
		return Order{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders[o.ID] = &o
	return o, nil
}

// Pay marks the order as paid, has the receipt sent and the day's report made
// again. Paying twice does no harm: the receipt is the same task.
func (s *Shop) Pay(ctx context.Context, id string) (Order, error) {
	o, err := s.update(id, func(o *Order) error {
		if o.State == Closed {
			return errClosed
		}
		o.State = Paid
		return nil
	})
	if err != nil {
		return Order{}, err
	}
	receipt := orders.Receipt{Order: o.ID, Customer: o.Customer, Cents: o.Cents}.Task()
	if _, err := s.tasks.Submit(ctx, receipt, producer.Key(o.Customer)); err != nil {
		return Order{}, err
	}
	report := orders.Report{Day: time.Now().UTC().Format(time.DateOnly)}.Task()
	_, err = s.tasks.Submit(ctx, report)
	return o, err
}

// Close closes an unpaid order. Closing it twice does no harm.
func (s *Shop) Close(id string) (Order, error) {
	return s.update(id, func(o *Order) error {
		if o.State == Paid {
			return errPaid
		}
		o.State = Closed
		return nil
	})
}

func (s *Shop) update(id string, change func(*Order) error) (Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.orders[id]
	if !ok {
		return Order{}, errUnknown
	}
	if err := change(o); err != nil {
		return Order{}, err
	}
	return *o, nil
}

func reply(w http.ResponseWriter, o Order, err error) {
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(o) // the caller is gone
	case errors.Is(err, errUnknown):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, errPaid), errors.Is(err, errClosed):
		http.Error(w, err.Error(), http.StatusConflict)
	default: // Kafka did not take a task; the customer may try again
		w.Header().Set("Retry-After", "5")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}
