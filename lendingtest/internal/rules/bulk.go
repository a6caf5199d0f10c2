package rules

import (
	"fmt"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
)

// Both bulk routes are all or nothing in this model. The interface does not say. Their bodies are
// parsed without the lock, so that 10,000 records hold up no other request for long.

// at is the prefix of the field names of a record in a list.
func at(i int) string { return fmt.Sprintf("[%d].", i) }

func (c *Call) parseCustomers() {
	c.decodeRequired(&c.customers)
	seen := map[string]bool{}
	for i, u := range c.customers {
		c.checkUser(&u, at(i))
		email := strings.ToLower(u.Email)
		if seen[email] {
			c.failed.add(at(i)+"email", "DuplicateEmail", "The e-mail address stands in the list twice.")
		}
		seen[email] = true
	}
}

func (c *Call) createCustomers() any {
	taken := map[string]bool{} // 10,000 lookups in 10,000 customers would hold up all other requests for seconds
	for _, row := range c.Customers.All() {
		taken[strings.ToLower(row.Email)] = true
	}
	for i, u := range c.customers {
		if taken[strings.ToLower(u.Email)] {
			c.failed.add(at(i)+"email", "DuplicateEmail", "There is a customer with this e-mail address.")
		}
	}
	c.valid()
	all := []userResponse{}
	for _, u := range c.customers {
		row := c.newCustomer(u)
		c.EmitCustomer("WB_Customer_Created", row)
		all = append(all, userOf(row))
	}
	return all
}

func (c *Call) parseApplications() {
	c.decodeRequired(&c.requests)
	for i, a := range c.requests {
		c.checkApplication(&a, at(i))
	}
}

func (c *Call) createApplications() any {
	for i, a := range c.requests {
		c.checkOwner(&a, at(i))
	}
	c.valid()
	all := []any{}
	for _, a := range c.requests {
		app := c.newApplication(a, a.CustomerID)
		c.EmitApplication("WB_Application_Created", app)
		all = append(all, plain.Wire(app))
	}
	return all
}
