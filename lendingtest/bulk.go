package lendingtest

import (
	"fmt"
	"strings"
)

// Both bulk routes are all or nothing in this model. The interface does not say.

func (c *call) createCustomers() (any, error) {
	var req []userRequest
	if err := c.decodeRequired(&req); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i, u := range req {
		at := fmt.Sprintf("[%d].", i)
		u.check(at, &c.failed)
		c.refuseDuplicate(at, u.Email, &c.failed)
		if email := strings.ToLower(u.Email); seen[email] {
			c.failed.add(at+"email", "DuplicateEmail", "The e-mail address stands in the list twice.")
		} else {
			seen[email] = true
		}
	}
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	all := []userResponse{}
	for _, u := range req {
		row := c.newCustomer(u)
		c.emitCustomer("WB_Customer_Created", row)
		all = append(all, row.response())
	}
	return all, nil
}

func (c *call) createApplications() (any, error) {
	var req []applicationRequest
	if err := c.decodeRequired(&req); err != nil {
		return nil, err
	}
	for i, a := range req {
		at := fmt.Sprintf("[%d].", i)
		a.check(c, at, &c.failed)
		a.checkCustomer(c, at, &c.failed)
	}
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	all := []*Application{}
	for _, a := range req {
		app := c.newApplication(a, a.CustomerID)
		c.emitApplication("WB_Application_Created", app)
		all = append(all, app)
	}
	return all, nil
}
