package rules

import (
	"fmt"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Both bulk routes are all or nothing in this model. The interface does not say.

// at is the prefix of the field names of a record in a list.
func at(i int) string { return fmt.Sprintf("[%d].", i) }

func (c *Call) createCustomers() any {
	var users []userRequest
	c.decodeRequired(&users)
	taken := map[string]bool{} // 10,000 lookups in 10,000 customers would hold up all other requests for seconds
	for _, row := range book.All[record.Customer](c.Tables) {
		taken[strings.ToLower(row.Email)] = true
	}
	for i, u := range users {
		c.checkUser(&u, at(i))
		email := strings.ToLower(u.Email)
		if taken[email] {
			c.failed.add(at(i)+"email", "DuplicateEmail", "Another customer has this e-mail address.")
		}
		taken[email] = true
	}
	c.valid()
	all := []fields{}
	for _, u := range users {
		row := c.newCustomer(u)
		c.EmitCustomer("WB_Customer_Created", row)
		all = append(all, userOf(row))
	}
	return all
}

func (c *Call) createApplications() any {
	var requests []applicationRequest
	c.decodeRequired(&requests)
	for i, a := range requests {
		c.checkApplication(&a, at(i))
		c.checkOwner(&a, at(i))
	}
	c.valid()
	all := []any{}
	for _, a := range requests {
		app := c.newApplication(a, a.CustomerID)
		c.EmitApplication("WB_Application_Created", app)
		all = append(all, plain.Wire(app))
	}
	return all
}
