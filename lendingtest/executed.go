package lendingtest

import "maps"

// Executed tells how often a route did its work: changed the state, or served
// it. Refused requests do not count, nor those a fault kept from the handler;
// an answer lost by [Fault].ResetAfter does, and so does a mutation that
// [Fault].Late had executed after its caller had gone, once that has happened.
func (s *Service) Executed(route string) int {
	s.mustRoute(route)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.executed[route]
}

// ExecutedFor tells the same by resource: how often a route did its work for the
// customer, application or loan, for whichever else of its records the path or the
// query names, or for whom a sign-in was. What an execution concerns by another resource it
// concerns as well: a withdrawal counts for its loan, for the loan's application,
// for the customer and for the customer's e-mail; a creation counts for what it
// has made, too. So "was any application made twice" is whether
//
//	service.ExecutedFor("POST /api/Application/create-application")[customer.ID]
//
// is more than one for any customer who wanted one, and where a path has no
// identifier, as that of create-customer, the e-mail tells. Identifiers are in
// lower case, e-mails as the customer has them. A bulk request counts once for each
// resource in it.
func (s *Service) ExecutedFor(route string) map[string]int {
	s.mustRoute(route)
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Collect(maps.All(s.executedFor[route])) // never nil
}

// concern notes what a request is about.
func (c *call) concern(resource string) { c.concerns = append(c.concerns, resource) }

// count notes an execution, by all that it concerns. It needs s.mu.
func (s *Service) count(c *call) {
	route := c.route.pattern
	c.entry.Executed = true
	s.executed[route]++
	s.executedOn(c)
	for _, id := range c.entry.about {
		if s.executedFor[route] == nil {
			s.executedFor[route] = map[string]int{}
		}
		s.executedFor[route][id]++
		if !c.reads() {
			s.written(id)
		}
	}
}

// beyond names what somebody concerned with id is concerned with, too: a loan's
// application, an application's customer, a customer's e-mail, or nothing.
func (s *Service) beyond(id string) string {
	if loan := s.loans.get(id); loan != nil {
		return loan.ApplicationID
	}
	if app := s.applications.get(id); app != nil {
		return app.CustomerID
	}
	if customer := s.customers.get(id); customer != nil {
		return customer.Email
	}
	return ""
}
