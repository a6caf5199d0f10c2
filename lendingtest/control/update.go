package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lendingapi/lending-go/lendingtest"
)

// updateOrder sets fields of a record. The names are the names in a snapshot.
type updateOrder struct {
	ID  string          `json:"id"`
	Set json.RawMessage `json:"set"`
}

// check rejects names that no record has.
func (o updateOrder) check() error {
	if o.ID == "" || len(o.Set) == 0 {
		return errors.New("update needs id and set")
	}
	var failed error
	for _, row := range []any{&lendingtest.Customer{}, &lendingtest.Application{}, &lendingtest.Loan{}, &lendingtest.Subscription{}} {
		if failed = decodeSet(o.Set, row); failed == nil {
			return nil
		}
	}
	return failed
}

func decodeSet(set json.RawMessage, row any) error {
	d := json.NewDecoder(bytes.NewReader(set))
	d.DisallowUnknownFields()
	if err := d.Decode(row); err != nil {
		return fmt.Errorf("set: %w", err)
	}
	return nil
}

// update changes all fields or none, and never the identifier.
func (c *Control) update(o updateOrder) (err error) {
	s := c.service
	switch s.Kind(o.ID) {
	case "customer":
		s.UpdateCustomer(o.ID, func(row *lendingtest.Customer) { err = setFields(o, *row, row, &row.ID) })
	case "application":
		s.UpdateApplication(o.ID, func(row *lendingtest.Application) { err = setFields(o, row.Clone(), row, &row.ID) })
	case "loan":
		s.UpdateLoan(o.ID, func(row *lendingtest.Loan) { err = setFields(o, *row, row, &row.ID) })
	case "subscription":
		s.UpdateSubscription(o.ID, func(row *lendingtest.Subscription) { err = setFields(o, *row, row, &row.ID) })
	default:
		return fmt.Errorf("no customer, application, loan or subscription %q", o.ID)
	}
	return err
}

func setFields[T any](o updateOrder, before T, row *T, rowID *string) error {
	err := decodeSet(o.Set, row)
	if err == nil && *rowID != o.ID {
		err = errors.New("update cannot change the id; leave out the id in set")
	}
	if err != nil {
		*row = before
	}
	return err
}
