package lendingtest

import "maps"

// Executed returns how often a route ran: how often it changed the state or served a read.
// Executed counts a request whose response was lost by [Fault].ResetAfter, and a mutation that
// [Fault].Late executed after its caller had gone. It does not count rejected requests, and no
// request that a fault stopped before the handler.
func (s *Service) Executed(route string) int {
	s.mustRoute(route)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.executed[route]
}

// ExecutedFor returns the same count by customer, application and loan, by any other record in
// the path or the query, and by user name for a sign-in. A run also counts for the owners of its
// record: a withdrawal counts for the loan, the application, the customer and the customer's
// e-mail. A creation also counts for the new record. For example, an application was created
// twice if
//
//	service.ExecutedFor("POST /api/Application/create-application")[customer.ID]
//
// is greater than one. If the path has no identifier, as in create-customer, use the e-mail.
// Identifiers are in lower case; e-mails are spelled as in the customer's record. A bulk request
// counts once for each of its records.
func (s *Service) ExecutedFor(route string) map[string]int {
	s.mustRoute(route)
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Collect(maps.All(s.executedFor[route])) // never nil
}

// concern records a resource of the request.
func (c *call) concern(resource string) { c.concerns = append(c.concerns, resource) }

// count counts a run for all its resources. It needs s.mu.
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

// beyond returns the owner of a record: a loan's application, an application's customer, a
// customer's e-mail, or "".
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
