// Package tasks is the worker's side of the example: the handlers of the order
// domain.
package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/consumer"
	"github.com/axtasks/ax/examples/orders"
)

// Handlers runs the domain's tasks.
type Handlers struct {
	Shop string       // base URL of the order service
	HTTP *http.Client // to reach it
	Log  *slog.Logger

	// SendMail and Recalculate stand for the systems that a real worker uses.
	SendMail    func(ctx context.Context, to, text string) error
	Recalculate func(ctx context.Context, day string) error
}

// Mux returns the handlers by kind.
func (h *Handlers) Mux() *consumer.Mux {
	mux := consumer.NewMux()
	mux.Use(h.logged)
	mux.Handle(orders.KindClose, consumer.JSON(h.closeUnpaid))
	mux.Handle(orders.KindReceipt, consumer.JSON(h.sendReceipt))
	mux.Handle(orders.KindReport, consumer.JSON(h.recalculate))
	return mux
}

// closeUnpaid asks the shop to close the order, and says by its error what
// becomes of the task.
func (h *Handlers) closeUnpaid(ctx context.Context, c orders.Close) error {
	url := h.Shop + "/orders/" + c.Order + "/close"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return ax.Permanent(err) // no retry makes this URL a good one
	}
	resp, err := h.HTTP.Do(req)
	if err != nil {
		return err // an attempt that failed; the kind's back-off decides
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusConflict:
		return ax.Cancel("the order was paid")
	case http.StatusNotFound:
		return ax.Permanent(fmt.Errorf("order %s: the shop does not know it", c.Order))
	}
	err = fmt.Errorf("close order %s: the shop answers %s", c.Order, resp.Status)
	if s, e := strconv.Atoi(resp.Header.Get("Retry-After")); e == nil {
		return ax.RetryAfter(time.Duration(s)*time.Second, err)
	}
	return err
}

func (h *Handlers) sendReceipt(ctx context.Context, r orders.Receipt) error {
	text := fmt.Sprintf("We have received %d.%02d for order %s.", r.Cents/100, r.Cents%100, r.Order)
	return h.SendMail(ctx, r.Customer, text)
}

func (h *Handlers) recalculate(ctx context.Context, r orders.Report) error {
	return h.Recalculate(ctx, r.Day)
}

// logged is a middleware: it wraps every handler of the mux.
func (h *Handlers) logged(next consumer.Handler) consumer.Handler {
	return consumer.HandlerFunc(func(ctx context.Context, t *ax.Task) error {
		began := time.Now()
		err := next.HandleTask(ctx, t)
		h.Log.InfoContext(ctx, "task", "kind", t.Kind, "id", t.ID, "lane", t.Lane,
			"attempt", t.Attempt, "took", time.Since(began), "error", err)
		return err
	})
}
