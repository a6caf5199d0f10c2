package lendingtest

import (
	"cmp"
	"fmt"
	"slices"
)

// The methods of this file change the state and ignore all rules. Adding records posts no events.

// AddCustomer adds a customer, fills in empty fields and returns the customer.
func (s *Service) AddCustomer(row Customer) Customer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.addCustomer(row)
}

func (s *Service) addCustomer(row Customer) *Customer {
	if row.ID == "" {
		row.ID = s.newID(kindCustomer)
	}
	if row.Email == "" {
		row.Email = fmt.Sprintf("customer%d@example.com", s.sequences[kindCustomer])
	}
	if row.CreatedUTC.IsZero() {
		row.CreatedUTC = Timestamp{s.now()}
	}
	s.customers.put(row.ID, &row)
	s.seeded(row.ID)
	return &row
}

// AddApplication adds an application. If the application names no customer, AddApplication adds
// a customer.
func (s *Service) AddApplication(a Application) Application {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addApplication(a).clone()
}

func (s *Service) addApplication(a Application) *Application {
	a = a.clone()
	if a.CustomerID == "" {
		a.CustomerID = s.addCustomer(Customer{}).ID
	}
	if s.customers.get(a.CustomerID) == nil {
		panic("lendingtest: no customer " + a.CustomerID)
	}
	if a.ID == "" {
		a.ID = s.newID(kindApplication)
	}
	if a.PartnerID == "" {
		a.PartnerID = PartnerID
	}
	if a.Status == "" {
		a.Status = StatusCreated
	}
	if a.ExtraInformation == nil {
		a.ExtraInformation = map[string]string{}
	}
	if a.CreatedUTC.IsZero() {
		a.CreatedUTC = Timestamp{s.now()}
	}
	s.applications.put(a.ID, &a)
	s.seeded(a.ID)
	return &a
}

// AddLoan adds a loan. The default amount is 10,000.00. If the loan names no application,
// AddLoan adds an application. A loan without a balance is enabled and its whole amount is
// available; [Service.UpdateLoan] can disable the loan. AddLoan panics if the amount is
// negative.
func (s *Service) AddLoan(l Loan) Loan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Amount < 0 || l.Balance < 0 || l.AvailableBalance < 0 {
		panic("lendingtest: an amount of the loan is negative")
	}
	l = l.clone()
	app := s.applications.get(l.ApplicationID)
	if l.ApplicationID == "" {
		app = s.addApplication(Application{CustomerID: l.CustomerID, Status: StatusLoanOpened})
	}
	if app == nil {
		panic("lendingtest: no application " + l.ApplicationID)
	}
	l.ApplicationID, l.CustomerID = app.ID, app.CustomerID
	if l.ID == "" {
		l.ID = s.newID(kindLoan)
	}
	l.Transactions, l.Withdrawals = s.transactions(l.Transactions), s.withdrawals(l.Withdrawals)
	l.Amount = cmp.Or(l.Amount, 10_000_00)
	if l.Balance == 0 && l.AvailableBalance == 0 && !l.IsClosed {
		l.AvailableBalance, l.IsEnabled = l.Amount, true
	}
	if l.CreatedUTC.IsZero() {
		l.CreatedUTC = Timestamp{s.now()}
	}
	s.loans.put(l.ID, &l)
	s.seeded(l.ID)
	return l.clone()
}

// AddTransactions adds transactions to a loan. The balances of the loan do not change.
func (s *Service) AddTransactions(loanID string, rows ...Transaction) {
	s.UpdateLoan(loanID, func(l *Loan) { l.Transactions = append(l.Transactions, s.transactions(rows)...) })
}

func (s *Service) transactions(rows []Transaction) []Transaction {
	return identified(s, kindTransaction, rows, func(t *Transaction) *string { return &t.ID })
}

// AddWithdrawals adds completed withdrawals to a loan. The balances of the loan do not change.
func (s *Service) AddWithdrawals(loanID string, rows ...Withdrawal) {
	s.UpdateLoan(loanID, func(l *Loan) { l.Withdrawals = append(l.Withdrawals, s.withdrawals(rows)...) })
}

func (s *Service) withdrawals(rows []Withdrawal) []Withdrawal {
	return identified(s, kindWithdrawal, rows, func(w *Withdrawal) *string { return &w.ID })
}

// AddMessages adds messages to an application.
func (s *Service) AddMessages(applicationID string, rows ...Message) {
	s.UpdateApplication(applicationID, func(a *Application) {
		a.Messages = append(a.Messages, identified(s, kindMessage, rows, func(m *Message) *string { return &m.ID })...)
	})
}

// identified returns a copy of the rows in which each row has an identifier. It needs s.mu.
func identified[T any](s *Service, kind idKind, rows []T, id func(*T) *string) []T {
	rows = slices.Clone(rows)
	for i := range rows {
		if at := id(&rows[i]); *at == "" {
			*at = s.newID(kind)
		}
	}
	return rows
}

// UpdateCustomer calls f to change a customer. f must not call the service.
func (s *Service) UpdateCustomer(id string, f func(*Customer)) { update(s, &s.customers, id, f) }

// UpdateApplication calls f to change an application, and posts an event if the status changes.
// f must not call the service.
func (s *Service) UpdateApplication(id string, f func(*Application)) {
	update(s, &s.applications, id, func(a *Application) {
		before := a.Status
		f(a)
		if a.Status != before {
			s.emitApplication("WB_Application_Status_Changed", a)
		}
		if a.Status != before && a.Status == StatusCancelled {
			s.emitApplication("WB_Application_Cancelled", a)
		}
	})
}

// UpdateLoan calls f to change a loan, and posts events if the loan is enabled, disabled, closed
// or reopened. f must not call the service.
func (s *Service) UpdateLoan(id string, f func(*Loan)) {
	update(s, &s.loans, id, func(l *Loan) {
		enabled, closed := l.IsEnabled, l.IsClosed
		f(l)
		if l.IsEnabled != enabled {
			s.emitLoan("WB_Loan_Enabled_Or_Disabled", l, map[string]any{"isEnabled": l.IsEnabled})
		}
		switch {
		case l.IsClosed && !closed:
			s.emitLoan("WB_Loan_Closed", l, nil)
		case closed && !l.IsClosed:
			s.emitLoan("WB_Loan_Opened", l, nil)
		}
	})
}

func update[T any, R keyed[T]](s *Service, t *table[T, R], id string, f func(*T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := t.get(id)
	if row == nil {
		panic(fmt.Sprintf("lendingtest: no %T %q", row, id))
	}
	f(row)
	t.put(id, row) // f may have changed its owner
	s.seeded(id)
}

// ExpireOffer makes an application's offer expire now. ExpireOffer panics if there is no offer.
func (s *Service) ExpireOffer(applicationID string) {
	s.UpdateApplication(applicationID, func(a *Application) {
		if a.Offer == nil {
			panic("lendingtest: no offer for application " + applicationID)
		}
		a.Offer.ExpiresUTC = Timestamp{s.now()}
	})
}
