// Package order is a partner's backend for orders, from a new customer to a confirmed withdrawal,
// with the ends of an order without success. Take the package over into your program: the [Table]
// becomes a table of your database, and unpublished fields get their real names.
//
// AGENTS.md has the rules. Hand the worker's OnEvent to a [webhook.Consumer], and its Hint to Resolved of
// package ops: then webhooks and the verdicts of operators end the waits of orders.
package order

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

// Order is a row of the partner's own table. A request holds only values of the row and of
// responses: each try sends the same request.
type Order struct {
	ID       string
	Email    string
	Amount   json.Number
	Accepted time.Time // when the row was inserted: an order from after a restore of the log was never sent

	State       State
	Reason      string                // why the order is over
	Application lending.ApplicationID // once it exists, to find the order of an event
	Version     int                   // of the row: see Table.Save

	// How the order goes on after a rejection: each new attempt has its own key.
	Exists    bool            // the service has the customer already
	Offers    int             // offers that have expired
	Expired   lending.OfferID // the last of them
	Passwords int             // one-time passwords that were wrong, replaced or expired
}

// State is the state of an order.
type State int

// The states of an order.
const (
	Open State = iota // in the list of the worker
	Done              // the withdrawal is confirmed
	Over              // without success: see Reason
)

// Orders returns n orders, and the e-mail addresses of their customers.
func Orders(n int) (orders []Order, emails []string) {
	for i := range n {
		emails = append(emails, fmt.Sprintf("customer-%d@example.com", i+1))
		orders = append(orders, Order{
			ID: fmt.Sprintf("order-%d", i+1), Email: emails[i], Amount: "2500.00",
			Accepted: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		})
	}
	return orders, emails
}

func (o Order) key(ctx context.Context, mutation string) context.Context {
	return lending.WithIdempotencyKey(ctx, o.ID+"/"+mutation)
}

const offerExpired = "OfferExpired"

// attempts is how many offers may expire, or passwords be wrong or expire, until the order is over.
const attempts = 3

// End ends the order after an error without a retry, unless the order can go on in another way. The
// service publishes no error codes. These are the codes of the embedded service: learn the codes
// of the real service from its first rejections.
func (o *Order) End(err error) {
	switch code := codeOf(err); {
	case code == "DuplicateEmail":
		o.Exists = true
	case code == offerExpired && o.Offers+1 < attempts:
		o.Offers++ // a new key: the application is processed again
	case code == "InvalidOtp" && o.Passwords+1 < attempts:
		o.Passwords++ // a new key: the service sends another password
	default:
		o.State, o.Reason = Over, err.Error() // no error of the library shows a value of a request
	}
}

// codeOf returns the code of a rejection, or of its first field.
func codeOf(err error) string {
	failed, ok := errors.AsType[*lending.Error](err)
	switch {
	case !ok || failed.Problem == nil:
		return ""
	case len(failed.Problem.Errors) > 0:
		return failed.Problem.Errors[0].Code
	}
	return failed.Problem.ErrorCode
}

// Table is the partner's table of orders. In your program the table is in a database, which
// remembers ended orders. This table forgets them when the process ends, and the log then replays
// their mutations.
type Table struct {
	mu   sync.Mutex
	rows map[string]Order
}

// NewTable returns a table with orders.
func NewTable(orders ...Order) *Table {
	t := &Table{rows: map[string]Order{}}
	for _, o := range orders {
		t.rows[o.ID] = o
	}
	return t
}

// Open lists the open orders.
func (t *Table) Open(context.Context) (ids []string, _ error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, o := range t.rows {
		if o.State == Open {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Get returns an order.
func (t *Table) Get(id string) Order {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[id]
}

// Save stores a changed order, and reports success. Without success another replica has changed the
// row since Get: nothing is stored, and the step starts again with the new row. A confirmed
// withdrawal is stored in any case, also over another end. In a database:
//
//	UPDATE orders SET …, version = version + 1 WHERE id = $1 AND (version = $2 OR $3 = 'done')
func (t *Table) Save(o Order) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.rows[o.ID]
	if o.Version != row.Version && o.State != Done {
		return false
	}
	if o != row {
		o.Version = row.Version + 1
		t.rows[o.ID] = o
	}
	return true
}

// Of returns the orders of an event, by an unpublished field.
func (t *Table) Of(event *webhook.Event) (ids []string) {
	var about struct {
		ApplicationID lending.ApplicationID `json:"applicationId"`
	}
	if event.Data.Decode(&about) != nil || about.ApplicationID.IsZero() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, o := range t.rows {
		if o.Application == about.ApplicationID {
			ids = append(ids, id)
		}
	}
	return ids
}
