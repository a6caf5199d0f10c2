package book

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lendingapi/lending-go/lendingtest/record"
)

// The methods of this file change the state and ignore all rules. Adding records posts no events.

// Seeded shows an added record to reads at once, and returns a copy.
func Seeded[T any](s *State, row *T) T {
	_, id, _ := about(row)
	s.lag.seeded(s.Tables, id)
	return Clone(*row)
}

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
	s.begin(&row.ID, Customer, &row.CreatedUTC)
	row.Email = cmp.Or(row.Email, fmt.Sprintf("customer%d@example.com", s.sequences[Customer]))
	return Put(s.Tables, &row)
}

// begin fills in the identifier and the time of a record.
func (s *State) begin(id *string, kind int, created *record.Timestamp) {
	s.identify(id, kind)
	if created.IsZero() {
		*created = s.Stamp()
	}
}

func (s *State) identify(id *string, kind int) {
	if *id == "" {
		*id = s.NewID(kind)
	}
}

// AddApplication adds an application, and a customer unless the application names one. partnerID
// is the default partner.
func (s *State) AddApplication(a record.Application, partnerID string) *record.Application {
	a = Clone(a)
	if a.CustomerID == "" {
		a.CustomerID = s.AddCustomer(record.Customer{}).ID
	}
	if Get[record.Customer](s.Tables, a.CustomerID) == nil {
		panic("lendingtest: no customer " + a.CustomerID)
	}
	s.begin(&a.ID, Application, &a.CreatedUTC)
	if a.ExtraInformation == nil {
		a.ExtraInformation = map[string]string{}
	}
	a.PartnerID, a.Status = cmp.Or(a.PartnerID, partnerID), cmp.Or(a.Status, record.StatusCreated)
	return Put(s.Tables, &a)
}

// AddLoan adds a loan, and an application unless the loan names one.
func (s *State) AddLoan(l record.Loan, partnerID string) *record.Loan {
	if l.Amount < 0 || l.Balance < 0 || l.AvailableBalance < 0 {
		panic("lendingtest: an amount of the loan is negative")
	}
	l = Clone(l)
	app := Get[record.Application](s.Tables, l.ApplicationID)
	if l.ApplicationID == "" {
		app = s.AddApplication(record.Application{CustomerID: l.CustomerID, Status: record.StatusLoanOpened}, partnerID)
	}
	if app == nil {
		panic("lendingtest: no application " + l.ApplicationID)
	}
	l.ApplicationID, l.CustomerID = app.ID, app.CustomerID
	s.begin(&l.ID, Loan, &l.CreatedUTC)
	s.identifyLoan(&l)
	l.Amount = cmp.Or(l.Amount, 10_000_00)
	if l.Balance == 0 && l.AvailableBalance == 0 && !l.IsClosed {
		l.AvailableBalance, l.IsEnabled = l.Amount, true
	}
	return Put(s.Tables, &l)
}

// AddSubscription adds an active subscription with an id and a secret.
func (s *State) AddSubscription(sub record.Subscription, partnerID string) *record.Subscription {
	sub.Webhooks = append([]string{}, sub.Webhooks...) // an array in JSON, never null
	if sub.PartnerID == "" && sub.CustomerID == "" {
		sub.PartnerID = partnerID
	}
	s.identify(&sub.ID, Subscription)
	if sub.Secret == "" {
		sub.Secret = s.NewSecret()
	}
	sub.IsActive = true
	return Put(s.Tables, &sub)
}

func (s *State) identifyLoan(l *record.Loan) {
	for i := range l.Transactions {
		s.identify(&l.Transactions[i].ID, Transaction)
	}
	for i := range l.Withdrawals {
		s.identify(&l.Withdrawals[i].ID, Withdrawal)
	}
}

// Update calls f with a copy of a record, keeps the copy unless f fails, and posts the events of the change.
func (s *State) Update(id string, f func(row any) error) error {
	row := s.rows[id]
	before, after := Clone(row), Clone(row)
	if err := f(after); err != nil {
		return err
	}
	set(row, after)
	s.changed(before, row)
	s.lag.seeded(s.Tables, id)
	return nil
}

// Set sets all fields of a JSON object in a record, or none, and never the identifier. The names are those of a
// snapshot.
func (s *State) Set(id string, fields json.RawMessage) error {
	if !s.Has(id) {
		return fmt.Errorf("no customer, application, loan or subscription %q", id)
	} else if len(fields) == 0 {
		return errors.New("update needs set, the fields to change")
	}
	return s.Update(id, func(row any) error {
		d := json.NewDecoder(bytes.NewReader(fields))
		d.DisallowUnknownFields()
		if err := d.Decode(row); err != nil {
			return fmt.Errorf("set takes fields of the record: %w", err)
		}
		if _, own, _ := about(row); own != id {
			return errors.New("update cannot change the id; leave out the id in set")
		}
		return nil
	})
}

// changed gives identifiers to new rows of a record, and posts the events of its change.
func (s *State) changed(before, after any) {
	switch row := after.(type) {
	case *record.Application:
		for i := range row.Messages {
			s.identify(&row.Messages[i].ID, Message)
		}
		now := row.Status
		row.Status = before.(*record.Application).Status
		s.SetStatus(row, now)
	case *record.Loan:
		s.loanChanged(before.(*record.Loan), row)
	}
}

// loanChanged posts events if the loan was enabled, disabled, closed or reopened.
func (s *State) loanChanged(before, l *record.Loan) {
	s.identifyLoan(l)
	if l.IsEnabled != before.IsEnabled {
		s.EmitLoan("WB_Loan_Enabled_Or_Disabled", l, map[string]any{"isEnabled": l.IsEnabled})
	}
	switch {
	case l.IsClosed && !before.IsClosed:
		s.EmitLoan("WB_Loan_Closed", l, nil)
	case before.IsClosed && !l.IsClosed:
		s.EmitLoan("WB_Loan_Opened", l, nil)
	}
}

// Snapshot returns a deep copy of the records.
func (s *State) Snapshot() record.Snapshot {
	snap := record.Snapshot{
		Time: s.Now(), Customers: copies[record.Customer](s), Applications: copies[record.Application](s),
		Loans: copies[record.Loan](s), Subscriptions: copies[record.Subscription](s), Sent: s.Sent.All(),
	}
	for _, name := range slices.Sorted(maps.Keys(s.Accounts)) {
		snap.Accounts = append(snap.Accounts, *s.Accounts[name])
	}
	return snap
}

func copies[T any](s *State) []T {
	all := []T{}
	for _, row := range All[T](s.Tables) {
		all = append(all, Clone(*row))
	}
	return all
}
