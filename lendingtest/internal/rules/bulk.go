package rules

import (
	"fmt"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
)

// Both bulk routes are all or nothing in this model. The interface does not say. Their bodies are
// parsed without the lock, so that 10,000 records hold up no other request for long.

// at is the prefix of the field names of a record in a list.
func at(i int) string { return fmt.Sprintf("[%d].", i) }

func (c *Call) parseCustomers() error {
	if err := c.decodeRequired(&c.customers); err != nil {
		return err
	}
	seen := map[book.Key]bool{}
	for i, u := range c.customers {
		u.check(at(i), &c.failed)
		if seen[book.OfEmail(u.Email)] {
			c.failed.add(at(i)+"email", "DuplicateEmail", "The e-mail address stands in the list twice.")
		}
		seen[book.OfEmail(u.Email)] = true
	}
	return nil
}

func (c *Call) createCustomers() (any, error) {
	for i, u := range c.customers {
		c.refuseDuplicate(at(i), u.Email, &c.failed)
	}
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	all := []userResponse{}
	for _, u := range c.customers {
		row := c.newCustomer(u)
		c.EmitCustomer("WB_Customer_Created", row)
		all = append(all, userOf(row))
	}
	return all, nil
}

func (c *Call) parseApplications() error {
	if err := c.decodeRequired(&c.requests); err != nil {
		return err
	}
	for i, a := range c.requests {
		a.check(c, at(i), &c.failed)
	}
	return nil
}

func (c *Call) createApplications() (any, error) {
	for i, a := range c.requests {
		a.checkCustomer(c, at(i), &c.failed)
	}
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	all := []any{}
	for _, a := range c.requests {
		app := c.newApplication(a, a.CustomerID)
		c.EmitApplication("WB_Application_Created", app)
		all = append(all, plain.Wire(app))
	}
	return all, nil
}
