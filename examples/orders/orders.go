// Package orders is what the order service and the order worker share: the
// domain, the kinds of its tasks, and their payloads.
package orders

import (
	"embed"
	"encoding/json"
	"time"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/spec"
)

//go:embed orders.yaml
var files embed.FS

// Domain returns the order domain, with the brokers that AX_KAFKA names.
func Domain() (ax.Domain, error) { return spec.LoadFS(files, "orders.yaml") }

// The kinds of the domain's tasks.
const (
	KindClose   = "order.close"
	KindReceipt = "receipt.send"
	KindReport  = "report.recalculate"
)

// PayWithin is how long a customer has to pay.
const PayWithin = 30 * time.Minute

// Close closes an order unless it has been paid.
type Close struct {
	Order string `json:"order"`
}

// Receipt tells a customer that the payment has arrived.
type Receipt struct {
	Order    string `json:"order"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

// Report recalculates the sales figures of a day, such as "2026-12-01".
type Report struct {
	Day string `json:"day"`
}

// Task returns the task that does it. Its id follows from the order: a submit
// that is repeated makes a copy of the same task, not a second one.
func (c Close) Task() ax.Task { return task(KindClose, "close-"+c.Order, c) }

// Task returns the task that does it.
func (r Receipt) Task() ax.Task { return task(KindReceipt, "receipt-"+r.Order, r) }

// Task returns the task that does it, under an id of its own each time.
func (r Report) Task() ax.Task { return task(KindReport, "", r) }

func task(kind, id string, payload any) ax.Task {
	body, err := json.Marshal(payload)
	if err != nil {
		panic(err) // none of the types above can fail
	}
	return ax.Task{Kind: kind, ID: id, Payload: body}
}
