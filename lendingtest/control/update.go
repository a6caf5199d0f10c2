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

// Check rejects names that no record has.
func (o updateOrder) Check() error {
	if o.ID == "" || len(o.Set) == 0 {
		return errors.New("update needs id and set")
	}
	var failed error
	for _, row := range []any{&lendingtest.Customer{}, &lendingtest.Application{}, &lendingtest.Loan{}, &lendingtest.Subscription{}} {
		d := json.NewDecoder(bytes.NewReader(o.Set))
		d.DisallowUnknownFields()
		if failed = d.Decode(row); failed == nil {
			return nil
		}
	}
	return fmt.Errorf("set: %w", failed)
}
