package lendingtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// AddAccount adds an account, or replaces the account with the same user name. It fills in empty
// fields and returns the account: a user name, a password, and a new partner unless the account
// is an administrator. Tests that share a service use an account each: the codes, tokens and
// partner records of an account do not affect other accounts.
func (s *Service) AddAccount(a Account) Account {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.newID(kindAccount)
	if a.Username == "" {
		a.Username = fmt.Sprintf("account%d@example.com", s.sequences[kindAccount])
	}
	if a.Password == "" {
		a.Password = fmt.Sprintf("Account-Pass-%d", s.sequences[kindAccount])
	}
	if a.PartnerID == "" && !a.Administrator {
		a.PartnerID = id
	}
	s.accounts[a.Username] = &a
	return a
}

// AdvanceFor moves the clock of an account in addition to [Service.Advance]. Its tokens, codes
// and offers expire by this clock, and its responses have this time in the Date header.
// Decisions, repayments and scenarios follow the common clock.
func (s *Service) AdvanceFor(username string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustAccount(username)
	s.shifts[username] += d
}

// mustAccount needs s.mu.
func (s *Service) mustAccount(username string) *Account {
	a := s.accounts[username]
	if a == nil {
		panic("lendingtest: no account " + username)
	}
	return a
}

// onTimeOf switches the service's clock to an account's time until the caller calls back. It
// needs s.mu.
func (s *Service) onTimeOf(username string) (back func()) {
	before := s.shift
	s.shift = s.shifts[username]
	return func() { s.shift = before }
}

// username returns the user name of the caller: of the token, or of the sign-in request.
func (c *call) username() string {
	if c.route.access == anonymous {
		var body struct{ Username string }
		_ = json.Unmarshal(c.body, &body) // an unreadable body names no account
		return body.Username
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if session := c.tokens[tokenOf(c.r)]; session != nil {
		return session.Username
	}
	return ""
}

// ResetFor deletes an account's records and everything that belongs to them, its tokens, codes
// and planned faults, and resets its clock. Records of other accounts, counters and the request
// log stay.
func (s *Service) ResetFor(username string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.mustAccount(username)
	delete(s.shifts, username)
	delete(s.twoFactor, username)
	maps.DeleteFunc(s.tokens, func(_ string, t *session) bool { return t.Username == username })
	s.faults = slices.DeleteFunc(s.faults, func(p PlannedFault) bool { return p.Fault.For == username })
	if a.PartnerID == "" {
		return
	}
	for _, t := range []*tables{&s.tables, &s.lag.shown} {
		t.dropPartner(a.PartnerID)
	}
	s.lag.waiting = slices.DeleteFunc(s.lag.waiting, func(w write) bool { return !s.has(w.id) })
}

// has reports whether there is a record with this identifier.
func (t *tables) has(id string) bool {
	return t.customers.get(id) != nil || t.applications.get(id) != nil || t.loans.get(id) != nil || t.subscriptions.get(id) != nil
}

func (t *tables) dropPartner(id string) {
	gone := map[string]bool{}
	t.customers.dropWhere(func(c *Customer) bool {
		gone[c.ID] = c.PartnerID == id
		return gone[c.ID]
	})
	t.applications.dropWhere(func(a *Application) bool {
		gone[a.ID] = gone[a.CustomerID] || a.PartnerID == id
		return gone[a.ID]
	})
	t.loans.dropWhere(func(l *Loan) bool { return gone[l.ApplicationID] })
	t.subscriptions.dropWhere(func(sub *Subscription) bool { return sub.PartnerID == id || gone[sub.CustomerID] })
}

// isAbout reports whether a request comes from this account, or names a record of this customer,
// application or loan. It needs s.mu.
func (s *Service) isAbout(c *call, whom string) bool {
	if whom == "" {
		return true
	}
	var named []string
	if session := s.tokens[tokenOf(c.r)]; session != nil {
		named = append(named, session.Username)
	}
	for segment := range strings.SplitSeq(c.r.URL.Path, "/") {
		named = append(named, strings.ToLower(segment))
	}
	for _, values := range c.query {
		named = append(named, values...)
	}
	var body map[string]any
	_ = json.Unmarshal(c.body, &body) // an unreadable body names no record
	for _, name := range []string{"username", "email", "customerId"} {
		text, _ := body[name].(string)
		named = append(named, text)
	}
	return slices.Contains(s.related(named), whom)
}

// related returns the identifiers and their owners, without duplicates: for a loan its
// application, the application's customer and the customer's e-mail. It needs s.mu.
func (s *Service) related(ids []string) (all []string) {
	seen := map[string]bool{}
	for _, id := range ids {
		for id != "" && !seen[id] {
			seen[id], all = true, append(all, id)
			id = s.beyond(id)
		}
	}
	return all
}
