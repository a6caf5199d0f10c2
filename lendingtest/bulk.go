package lendingtest

import "fmt"

// Both bulk routes are all or nothing in this model. The interface does not say. Their bodies are
// parsed without the lock, so that 10,000 records hold up no other request for long.

// bulk has the records of a parsed list.
type bulk struct {
	customers    []userRequest
	applications []applicationRequest
}

// at is the prefix of the field names of a record in a list.
func at(i int) string { return fmt.Sprintf("[%d].", i) }

func (c *call) parseCustomers() error {
	if err := c.decodeRequired(&c.bulk.customers); err != nil {
		return err
	}
	seen := map[listKey]bool{}
	for i, u := range c.bulk.customers {
		u.check(at(i), &c.failed)
		if seen[ofEmail(u.Email)] {
			c.failed.add(at(i)+"email", "DuplicateEmail", "The e-mail address stands in the list twice.")
		}
		seen[ofEmail(u.Email)] = true
	}
	return nil
}

func (c *call) createCustomers() (any, error) {
	for i, u := range c.bulk.customers {
		c.refuseDuplicate(at(i), u.Email, &c.failed)
	}
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	all := []userResponse{}
	for _, u := range c.bulk.customers {
		row := c.newCustomer(u)
		c.emitCustomer("WB_Customer_Created", row)
		all = append(all, row.response())
	}
	return all, nil
}

func (c *call) parseApplications() error {
	if err := c.decodeRequired(&c.bulk.applications); err != nil {
		return err
	}
	for i, a := range c.bulk.applications {
		a.check(c, at(i), &c.failed)
	}
	return nil
}

func (c *call) createApplications() (any, error) {
	for i, a := range c.bulk.applications {
		a.checkCustomer(c, at(i), &c.failed)
	}
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	all := []*Application{}
	for _, a := range c.bulk.applications {
		app := c.newApplication(a, a.CustomerID)
		c.emitApplication("WB_Application_Created", app)
		all = append(all, app)
	}
	return all, nil
}
