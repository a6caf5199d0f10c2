package book

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lendingapi/lending-go/lendingtest/record"
)

// The methods of this file change the state and ignore all rules. Adding records posts no events.

// Seeded shows the row of an id to reads at once.
func (s *State) Seeded(id string) { s.lag.seeded(s.Tables, id) }

// AddAccount fills in the empty fields of an account and adds it.
func (s *State) AddAccount(a record.Account) *record.Account {
	id := s.NewID(Account)
	a.Username = cmp.Or(a.Username, fmt.Sprintf("account%d@example.com", s.sequences[Account]))
	a.Password = cmp.Or(a.Password, fmt.Sprintf("Account-Pass-%d", s.sequences[Account]))
	if a.PartnerID == "" && !a.Administrator {
		a.PartnerID = id
	}
	s.Accounts[a.Username] = &a
	return &a
}

// AddCustomer fills in the empty fields of a customer and adds it.
func (s *State) AddCustomer(row record.Customer) *record.Customer {
	if row.ID == "" {
		row.ID = s.NewID(Customer)
	}
	if row.Email == "" {
		row.Email = fmt.Sprintf("customer%d@example.com", s.sequences[Customer])
	}
	s.stamp(&row.CreatedUTC)
	s.Customers.Put(row.ID, &row)
	s.Seeded(row.ID)
	return &row
}

func (s *State) stamp(t *record.Timestamp) {
	if t.IsZero() {
		*t = s.Stamp()
	}
}

// AddApplication adds an application, and a customer unless the application names one. partnerID
// is the default partner.
func (s *State) AddApplication(a record.Application, partnerID string) *record.Application {
	a = a.Clone()
	if a.CustomerID == "" {
		a.CustomerID = s.AddCustomer(record.Customer{}).ID
	}
	if s.Customers.Get(a.CustomerID) == nil {
		panic("lendingtest: no customer " + a.CustomerID)
	}
	if a.ID == "" {
		a.ID = s.NewID(Application)
	}
	if a.ExtraInformation == nil {
		a.ExtraInformation = map[string]string{}
	}
	a.PartnerID, a.Status = cmp.Or(a.PartnerID, partnerID), cmp.Or(a.Status, record.StatusCreated)
	s.stamp(&a.CreatedUTC)
	s.Applications.Put(a.ID, &a)
	s.Seeded(a.ID)
	return &a
}

// AddLoan adds a loan, and an application unless the loan names one.
func (s *State) AddLoan(l record.Loan, partnerID string) *record.Loan {
	if l.Amount < 0 || l.Balance < 0 || l.AvailableBalance < 0 {
		panic("lendingtest: an amount of the loan is negative")
	}
	l = l.Clone()
	app := s.Applications.Get(l.ApplicationID)
	if l.ApplicationID == "" {
		app = s.AddApplication(record.Application{CustomerID: l.CustomerID, Status: record.StatusLoanOpened}, partnerID)
	}
	if app == nil {
		panic("lendingtest: no application " + l.ApplicationID)
	}
	l.ApplicationID, l.CustomerID = app.ID, app.CustomerID
	if l.ID == "" {
		l.ID = s.NewID(Loan)
	}
	l.Transactions, l.Withdrawals = s.Transactions(l.Transactions), s.Withdrawals(l.Withdrawals)
	l.Amount = cmp.Or(l.Amount, 10_000_00)
	if l.Balance == 0 && l.AvailableBalance == 0 && !l.IsClosed {
		l.AvailableBalance, l.IsEnabled = l.Amount, true
	}
	s.stamp(&l.CreatedUTC)
	s.Loans.Put(l.ID, &l)
	s.Seeded(l.ID)
	return &l
}

// AddSubscription adds an active subscription with an id and a secret.
func (s *State) AddSubscription(sub record.Subscription, partnerID string) *record.Subscription {
	sub = sub.Clone()
	if sub.PartnerID == "" && sub.CustomerID == "" {
		sub.PartnerID = partnerID
	}
	if sub.ID == "" {
		sub.ID = s.NewID(Subscription)
	}
	if sub.Secret == "" {
		sub.Secret = s.NewSecret()
	}
	sub.IsActive = true
	s.Subscriptions.Put(sub.ID, &sub)
	s.Seeded(sub.ID)
	return &sub
}

// Transactions returns a copy in which each row has an identifier.
func (s *State) Transactions(rows []record.Transaction) []record.Transaction {
	return identified(s, Transaction, rows, func(t *record.Transaction) *string { return &t.ID })
}

// Withdrawals returns a copy in which each row has an identifier.
func (s *State) Withdrawals(rows []record.Withdrawal) []record.Withdrawal {
	return identified(s, Withdrawal, rows, func(w *record.Withdrawal) *string { return &w.ID })
}

// Messages returns a copy in which each row has an identifier.
func (s *State) Messages(rows []record.Message) []record.Message {
	return identified(s, Message, rows, func(m *record.Message) *string { return &m.ID })
}

func identified[T any](s *State, kind int, rows []T, id func(*T) *string) []T {
	rows = slices.Clone(rows)
	for i := range rows {
		if at := id(&rows[i]); *at == "" {
			*at = s.NewID(kind)
		}
	}
	return rows
}

// UpdateCustomer calls f to change a customer.
func (s *State) UpdateCustomer(id string, f func(*record.Customer)) {
	update(s, &s.Customers, "customer", id, f)
}

// UpdateApplication calls f to change an application, and posts an event if the status changes.
func (s *State) UpdateApplication(id string, f func(*record.Application)) {
	update(s, &s.Applications, "application", id, func(a *record.Application) {
		before := a.Status
		f(a)
		if a.Status != before {
			s.EmitApplication("WB_Application_Status_Changed", a)
		}
		if a.Status != before && a.Status == record.StatusCancelled {
			s.EmitApplication("WB_Application_Cancelled", a)
		}
	})
}

// UpdateLoan calls f to change a loan, and posts events if the loan is enabled, disabled, closed
// or reopened.
func (s *State) UpdateLoan(id string, f func(*record.Loan)) {
	update(s, &s.Loans, "loan", id, func(l *record.Loan) {
		enabled, closed := l.IsEnabled, l.IsClosed
		f(l)
		if l.IsEnabled != enabled {
			s.EmitLoan("WB_Loan_Enabled_Or_Disabled", l, map[string]any{"isEnabled": l.IsEnabled})
		}
		switch {
		case l.IsClosed && !closed:
			s.EmitLoan("WB_Loan_Closed", l, nil)
		case closed && !l.IsClosed:
			s.EmitLoan("WB_Loan_Opened", l, nil)
		}
	})
}

// UpdateSubscription calls f to change a subscription. A changed secret is a rotation.
func (s *State) UpdateSubscription(id string, f func(*record.Subscription)) {
	update(s, &s.Subscriptions, "subscription", id, func(sub *record.Subscription) {
		before := sub.Secret
		f(sub)
		if sub.Secret != before {
			s.oldSecrets[id] = before
		}
	})
}

func update[T any](s *State, t *Table[T], what, id string, f func(*T)) {
	row := t.Get(id)
	if row == nil {
		panic(fmt.Sprintf("lendingtest: no %s %q", what, id))
	}
	f(row)
	t.Put(id, row) // f may have changed its owner
	s.Seeded(id)
}
