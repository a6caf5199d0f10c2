package lendingtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/clock"
	"github.com/lendingapi/lending-go/lendingtest/internal/post"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// The records. Package record documents their fields.
//
//nolint:revive // the comments stand beside the names
type (
	Account         = record.Account         // an account for signing in
	Applicant       = record.Applicant       // a person who signs the contract
	Application     = record.Application     // a financing application with all its data
	BankAccount     = record.BankAccount     // an account of the banking data
	BankTransaction = record.BankTransaction // a transaction of a bank account
	Calculation     = record.Calculation     // the interface's CalculationRequest
	Cents           = record.Cents           // an amount of money
	Customer        = record.Customer        // a customer record
	Decision        = record.Decision        // how the service decides about applications
	Delivery        = record.Delivery        // a webhook that was posted
	DeliveryMode    = record.DeliveryMode    // how deliveries misbehave
	Document        = record.Document        // an accepted upload
	Loan            = record.Loan            // a loan with its transactions and withdrawals
	Message         = record.Message         // a message of an application's conversation
	Offer           = record.Offer           // the result of processing
	Requirement     = record.Requirement     // a document that the service asks for
	Sent            = record.Sent            // a text message or e-mail
	Snapshot        = record.Snapshot        // a copy of all records
	Subscription    = record.Subscription    // a webhook subscription
	Timestamp       = record.Timestamp       // a time in UTC, without a zone in JSON
	Transaction     = record.Transaction     // a transaction of a loan
	Withdrawal      = record.Withdrawal      // a completed withdrawal
)

// The statuses of an application in this model.
const (
	StatusCreated     = record.StatusCreated     // after the creation
	StatusBankingData = record.StatusBankingData // after the first banking data
	StatusUnderReview = record.StatusUnderReview // until the decision
	StatusDeclined    = record.StatusDeclined    // after a negative decision
	StatusOfferReady  = record.StatusOfferReady  // after processing
	StatusInApproval  = record.StatusInApproval  // after the company was added
	StatusLoanOpened  = record.StatusLoanOpened  // after the last signature
	StatusCancelled   = record.StatusCancelled   // final
)

// records are the methods that add, change and read records and ignore all rules. Adding records
// posts no events. The functions of the Update methods must not call the service.
type records struct {
	book  *book.Book
	clock *clock.Clock
	post  *post.Office
}

// ask returns the result of f, which has the state.
func ask[T any](r *records, f func(*book.State) T) (result T) {
	r.book.Do(func(s *book.State) { result = f(s) })
	return result
}

// Now returns the service's time: its clock plus the changes of [Service.Advance].
func (r *records) Now() time.Time { return r.clock.Now() }

// Advance moves the service's clock, also back for a negative d. Tokens, codes and offers expire
// by this clock. Decisions that become due happen before Advance returns. The delays of a [Fault] are
// in real time. Advance panics for a time before 1970 or after 9999.
func (r *records) Advance(d time.Duration) { r.clock.Advance(d) }

// AddAccount adds an account, or replaces the account with the same user name. It fills in empty
// fields and returns the account: a user name, a password, and a new partner unless the account
// is an administrator.
func (r *records) AddAccount(a Account) Account {
	return ask(r, func(s *book.State) Account { return *s.AddAccount(a) })
}

// AddCustomer adds a customer, fills in empty fields and returns the customer.
func (r *records) AddCustomer(row Customer) Customer {
	return ask(r, func(s *book.State) Customer { return book.Seeded(s, s.AddCustomer(row)) })
}

// AddApplication adds an application. If the application names no customer, AddApplication adds
// a customer.
func (r *records) AddApplication(a Application) Application {
	return ask(r, func(s *book.State) Application { return book.Seeded(s, s.AddApplication(a, PartnerID)) })
}

// AddLoan adds a loan. The default amount is 10,000.00. If the loan names no application,
// AddLoan adds an application. A loan without a balance is enabled and its whole amount is
// available; [Service.UpdateLoan] can disable the loan. AddLoan panics if the amount is
// negative.
func (r *records) AddLoan(l Loan) Loan {
	return ask(r, func(s *book.State) Loan { return book.Seeded(s, s.AddLoan(l, PartnerID)) })
}

// AddSubscription adds a subscription and returns it with its id and secret. The default target
// is the default partner.
func (r *records) AddSubscription(sub Subscription) Subscription {
	return ask(r, func(s *book.State) Subscription { return book.Seeded(s, s.AddSubscription(sub, PartnerID)) })
}

// AddTransactions adds transactions to a loan. The balances of the loan do not change.
func (r *records) AddTransactions(loanID string, rows ...Transaction) {
	r.UpdateLoan(loanID, func(l *Loan) { l.Transactions = append(l.Transactions, rows...) })
}

// UpdateCustomer calls f to change a customer.
func (r *records) UpdateCustomer(id string, f func(*Customer)) {
	update(r, id, f)
}

// UpdateApplication calls f to change an application, and posts an event if the status changes. New
// messages get an identifier.
func (r *records) UpdateApplication(id string, f func(*Application)) {
	update(r, id, f)
}

// UpdateLoan calls f to change a loan, and posts events if the loan is enabled, disabled, closed
// or reopened. New transactions and withdrawals get an identifier.
func (r *records) UpdateLoan(id string, f func(*Loan)) {
	update(r, id, f)
}

// UpdateSubscription calls f to change a subscription. A changed secret is a rotation.
func (r *records) UpdateSubscription(id string, f func(*Subscription)) {
	update(r, id, f)
}

func update[T any](r *records, id string, f func(*T)) {
	r.book.Do(func(s *book.State) {
		if row := book.Get[T](s.Tables, id); row == nil {
			panic(fmt.Sprintf("lendingtest: no %s %q", strings.ToLower(reflect.TypeFor[T]().Name()), id))
		}
		_ = s.Update(id, func(row any) error { f(row.(*T)); return nil })
	})
}

// Update sets fields of the customer, application, loan or subscription with this identifier, and posts the events of
// the change. fields is a JSON object with the names of a snapshot. An error changes nothing.
func (r *records) Update(id string, fields []byte) error {
	return ask(r, func(s *book.State) error { return s.Set(id, fields) })
}

// SetDecision sets how the service decides about applications that are processed from now on.
func (r *records) SetDecision(d Decision) { r.book.Do(func(s *book.State) { s.Decision = d }) }

// Repay makes a repayment of a loan, at most its balance. Repay panics if there is no such loan, or if
// the amount is not above zero.
func (r *records) Repay(loanID string, amount Cents) {
	if amount <= 0 {
		panic("lendingtest: the amount of a repayment must be above zero")
	}
	now := record.Timestamp{Time: r.Now()}
	r.UpdateLoan(loanID, func(l *Loan) {
		if paid := min(amount, l.Balance); paid > 0 {
			l.Balance, l.AvailableBalance = l.Balance-paid, min(l.AvailableBalance+paid, l.Amount)
			row := Transaction{Type: "Repayment", Amount: paid, Description: "Repayment", DateUTC: now}
			l.Transactions = append(l.Transactions, row)
		}
	})
}

// Snapshot returns the current state.
func (r *records) Snapshot() Snapshot { return ask(r, (*book.State).Snapshot) }

// Token returns a new token for an account without a sign-in. Token panics if the user name is
// unknown.
func (r *records) Token(username string) string {
	return ask(r, func(s *book.State) string {
		mustAccount(s, username)
		return s.Issue(username).Token
	})
}

func mustAccount(s *book.State, username string) {
	if s.Accounts[username] == nil {
		panic(fmt.Sprintf("lendingtest: no account %q", username))
	}
}

// RevokeTokens invalidates all tokens issued so far. For expired tokens, use [Service.Advance].
func (r *records) RevokeTokens() {
	r.book.Do(func(s *book.State) { clear(s.Tokens) })
}

// Sent returns the sent messages, oldest first. The service keeps the last 10,000.
func (r *records) Sent() []Sent {
	return ask(r, func(s *book.State) []Sent { return s.Sent.All() })
}

// TwoFactorCode returns the last code for a user, or "" before the first. TwoFactorCode panics if
// the user name is unknown.
func (r *records) TwoFactorCode(username string) string {
	return ask(r, func(s *book.State) string {
		mustAccount(s, username)
		return lastCode(s, func(m Sent) bool { return m.Kind == "two-factor" && m.To == username })
	})
}

// OTP returns the last one-time password for a loan, or "" before the first. OTP panics if there
// is no such loan.
func (r *records) OTP(loanID string) string {
	return ask(r, func(s *book.State) string {
		if book.Get[Loan](s.Tables, loanID) == nil {
			panic(fmt.Sprintf("lendingtest: no loan %q", loanID))
		}
		return lastCode(s, func(m Sent) bool { return m.Kind == "loan-otp" && m.LoanID == loanID })
	})
}

func lastCode(s *book.State, fits func(Sent) bool) string {
	for _, m := range slices.Backward(s.Sent.Rows()) {
		if fits(m) {
			return m.Code
		}
	}
	return ""
}

// Deliveries returns the posted deliveries in order: the last 10,000 or 32 MiB.
func (r *records) Deliveries() []Delivery { return r.post.Deliveries() }

// SetDeliveryMode sets the mode of deliveries from now on. Held deliveries are posted unless the
// new mode has Hold, too.
func (r *records) SetDeliveryMode(m DeliveryMode) { r.post.SetMode(m) }

// Emit posts an event to the subscribers of a partner, or of the customer of a record. It is for the
// events that this model never sends, such as WB_Partner_Request, WB_Send_Sms and WB_Send_Otp, with data
// of the test. Emit panics for an unknown event, and for an id without a record or a subscriber.
func (r *records) Emit(event, id string, data map[string]any) {
	if !slices.Contains(book.Catalogue(), event) {
		panic(fmt.Sprintf("lendingtest: no event %q; the events are %s", event, strings.Join(book.Catalogue(), ", ")))
	}
	r.book.Do(func(s *book.State) {
		target := s.TargetOf(id)
		if target == (book.Target{}) {
			target.PartnerID = id
		}
		if target.CustomerID == "" && len(s.SubscriptionsOf(target)) == 0 {
			panic(fmt.Sprintf("lendingtest: %q is no customer, application, loan, or partner with a subscription", id))
		}
		s.Emit(target, event, id, data)
	})
}

// Exists reports whether there is a record with this identifier, a customer with this e-mail, or an account with this
// user name.
func (r *records) Exists(name string) bool {
	return ask(r, func(s *book.State) bool {
		return s.Accounts[name] != nil || s.ByEmail(name) != nil || s.Has(name)
	})
}
