package order

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/orders"
)

// SafeToRepeat are the mutations without harm in a repetition: the same details change nothing, and
// another one-time password is only another message.
var SafeToRepeat = []idempotency.Route{
	idempotency.AddCompanyDetails, idempotency.WithdrawInvoice, idempotency.ResendWithdrawalOTP,
}

// Partner carries orders out.
type Partner struct {
	Client *lending.Client
	Log    *idempotency.Log // of the client

	// Ask returns the one-time password for a withdrawal from the loan, once the customer has
	// entered it, and the zero Secret before. Sending is the number of the message with the password: 0
	// for the first, then the number of the resend. A password that the customer entered for an
	// earlier sending is wrong: the page stores the number with the password, and keeps each password until the
	// order ends, because after a restore of the log a step asks for an earlier password again.
	Ask func(ctx context.Context, o Order, loan lending.LoanID, sending int) (lending.Secret, error)

	// Persons reports whether an order has no checks of the partner's own: a person then decides
	// about lost responses that no published field shows. Nil means checks for all orders.
	Persons func(o Order) bool
}

// Worker returns a worker that carries out the orders of the table.
func (p *Partner) Worker(table *Table, opts *orders.Options) (worker *orders.Worker, err error) {
	step := func(ctx context.Context, id string) error {
		o := table.Get(id)
		if o.State != Open { // a hint or an older list can name an order that has ended
			return nil
		}
		ctx = idempotency.WithAccepted(ctx, o.Accepted)
		o, err := p.Onboard(ctx, o)
		stopped := err != nil && !lending.NextOf(err).Retry
		if stopped {
			if err := p.end(ctx, &o, err); err != nil {
				return err
			}
		}
		if saved := table.Save(o); stopped || !saved {
			worker.Hint(id) // the order goes on in another way, or with the row of another replica
		}
		return err
	}
	worker, err = orders.New(table.Open, step, opts)
	return worker, err
}

// end ends the order after an error without a retry. Another replica, or a process that died, may have
// confirmed the withdrawal: such an order is done, or waits until the log knows.
func (p *Partner) end(ctx context.Context, o *Order, err error) error {
	switch confirmed, failed := p.outcome(ctx, *o, "confirm"); {
	case failed != nil:
		return failed
	case confirmed == lending.OutcomeDone:
		o.State = Done
	case confirmed == lending.OutcomeUnknown && p.mayHaveLoan(ctx, *o):
		return fmt.Errorf("%w: not over with: %v", errConfirming, err) //nolint:errorlint // err says stop
	default:
		o.End(err)
	}
	return nil
}

var errConfirming = errors.New("the confirmation of the withdrawal may have happened; the log will know")

// mayHaveLoan reports whether the application can have led to a loan. Without a loan nothing is confirmed, also if a
// restored log does not know the key.
func (p *Partner) mayHaveLoan(ctx context.Context, o Order) bool {
	if o.Application.IsZero() {
		return false
	}
	status, err := p.Client.Applications.Status(ctx, o.Application)
	return err != nil || status == loanOpened
}

// outcome tells whether a mutation of the order has happened, as far as the log knows. While a person decides about the
// mutation, nothing is sent.
func (p *Partner) outcome(ctx context.Context, o Order, mutation string) (lending.Outcome, error) {
	recorded, err := p.Log.Lookup(ctx, o.ID+"/"+mutation)
	switch {
	case err != nil:
		return lending.OutcomeUnknown, err
	case recorded.State == store.NeedsReview:
		return lending.OutcomeUnknown, fmt.Errorf("key %q: %w: %s", recorded.Key, idempotency.ErrNeedsReview, recorded.Why)
	}
	return recorded.Outcome, nil
}

// Onboard advances an order as far as possible, and returns the changed order. Each try starts at
// the top: the log replays finished mutations.
func (p *Partner) Onboard(ctx context.Context, o Order) (Order, error) {
	customer, err := p.customer(ctx, o)
	if err != nil {
		return o, fmt.Errorf("customer: %w", err)
	}
	application, err := p.apply(ctx, o, customer)
	if o.Application = application; err != nil {
		return o, fmt.Errorf("application: %w", err)
	}
	switch status, err := p.Client.Applications.Status(ctx, o.Application); {
	case err != nil:
		return o, fmt.Errorf("status: %w", err)
	case isFinal[status]:
		o.State, o.Reason = Over, status
		return o, nil
	}
	offer, err := p.offer(ctx, o)
	if err != nil {
		return o, fmt.Errorf("offer: %w", err) // under review, perhaps for days; an event ends the wait
	}
	if err := p.approve(ctx, o); err != nil {
		if codeOf(err) == offerExpired {
			o.Expired = offer
		}
		return o, fmt.Errorf("approval: %w", err)
	}
	loan, err := p.findLoan(ctx, customer, o.Application)
	if err != nil {
		return o, fmt.Errorf("loan: %w", err)
	}
	confirmed, err := p.withdraw(ctx, o, loan)
	if err != nil {
		return o, fmt.Errorf("withdrawal: %w", err)
	}
	if confirmed {
		o.State = Done
	}
	return o, nil
}

// isFinal has the statuses of the embedded service after which no offer comes. The interface
// publishes no list: your contract names the statuses.
var isFinal = map[string]bool{"Declined": true, "Cancelled": true}

// isProcessed has the statuses that an application can have after each processing, in the same way, and hasOffer those with
// an offer, which can be the offer of an earlier processing. The check must be right at any later time.
var (
	isProcessed = map[string]bool{"Under Review": true, "Declined": true, loanOpened: true}
	hasOffer    = map[string]bool{"Offer Ready": true, "In Approval": true}
)

// loanOpened is the status of an application with a loan, in the same way.
const loanOpened = "Loan Opened"

// customer creates the customer of an order, or finds an existing customer.
func (p *Partner) customer(ctx context.Context, o Order) (lending.CustomerID, error) {
	if o.Exists { // only if your program knows the address as the same person's
		type record struct {
			ID lending.CustomerID `json:"id"` // not published
		}
		found, err := lending.As[record](p.Client.Customers.GetByEmail(ctx, o.Email))
		return found.ID, err
	}
	created, err := p.Client.Applications.CreateCustomer(o.key(ctx, "create-customer"), lending.UserRequest{
		FirstName:    "Ada",
		LastName:     "Lovelace",
		Email:        o.Email,
		Password:     lending.NewSecret("Analytical-Engine-1"),
		MobileNumber: "(415) 555-0100",
	})
	if err != nil {
		return lending.CustomerID{}, err
	}
	return created.ID, nil
}

// apply creates the application of an order, and has it processed.
func (p *Partner) apply(ctx context.Context, o Order, customer lending.CustomerID) (lending.ApplicationID, error) {
	application, err := p.Client.Applications.Create(o.key(ctx, "create-application"), lending.ApplicationRequest{
		CustomerID:   customer,
		BusinessName: "Lovelace Analytics",
		BusinessZip:  "94105",
	}, nil)
	if err != nil {
		return application, err
	}
	if _, err := p.Client.Applications.AddOrUpdateBankingData(o.key(ctx, "banking-data"), application, bankData(), nil); err != nil {
		return application, err
	}
	// An expired offer needs another processing, with its own key.
	process := p.checked(ctx, o, fmt.Sprint("process/", o.Offers), func(ctx context.Context) (bool, error) {
		status, err := p.Client.Applications.Status(ctx, application)
		if err != nil || !hasOffer[status] || o.Offers == 0 {
			return isProcessed[status] || hasOffer[status], err
		}
		offer, err := p.findOffer(ctx, o, application)
		return offer != o.Expired, err
	})
	_, err = p.Client.Applications.Process(process, application)
	return application, err
}

// offer waits for the offer. After another processing, the expired offer stays until the decision.
func (p *Partner) offer(ctx context.Context, o Order) (lending.OfferID, error) {
	offer, err := p.findOffer(ctx, o, o.Application)
	if err == nil && o.Offers > 0 && offer == o.Expired {
		err = errors.New("the expired offer is still there")
	}
	return offer, err
}

func (p *Partner) findOffer(ctx context.Context, o Order, application lending.ApplicationID) (lending.OfferID, error) {
	type record struct {
		ID lending.OfferID `json:"id"` // not published
	}
	offer, err := lending.As[record](p.Client.Applications.Offer(ctx, application, nil))
	if err == nil && o.Offers > 0 && offer.ID.IsZero() {
		err = errors.New("the service's offer has no member id, which tells it from the expired offer: correct the record of findOffer")
	}
	return offer.ID, err
}

// findLoan finds the loan of the application. A read needs no key.
func (p *Partner) findLoan(ctx context.Context, customer lending.CustomerID, application lending.ApplicationID) (lending.LoanID, error) {
	loans, err := p.Client.Loans.ListByCustomer(ctx, customer)
	if err != nil {
		return lending.LoanID{}, err
	}
	for _, loan := range loans {
		if loan.ApplicationID == application {
			return loan.ID, nil
		}
	}
	return lending.LoanID{}, errors.New("the application has not led to a loan yet")
}

// withdraw withdraws the money, and reports whether the withdrawal is confirmed: not as long as the
// customer has to enter a password.
func (p *Partner) withdraw(ctx context.Context, o Order, loan lending.LoanID) (confirmed bool, err error) {
	known, err := p.outcome(ctx, o, "confirm")
	if err != nil || known == lending.OutcomeDone { // what is confirmed is not asked for again
		return err == nil, err
	}
	calculation := lending.CalculationRequest{Amount: o.Amount, Terms: 6}
	if _, err := p.Client.Calculation.Invoice(o.key(ctx, "calculate"), o.Application, &calculation); err != nil {
		return false, err
	}
	withdrawal, err := p.Client.Loans.WithdrawInvoice(o.key(ctx, "withdraw"), loan, // no money moves yet
		lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if known == lending.OutcomeUnknown && lending.OutcomeOf(err) == lending.OutcomeRejected && !lending.NextOf(err).Retry {
		return p.lostConfirmation(ctx, o, loan, err)
	}
	if err != nil {
		return false, err
	}
	confirm := func(sending int) (confirmed bool, err error) {
		password, err := p.Ask(ctx, o, loan, sending)
		if err != nil || password.IsZero() {
			return false, err // the page on which the customer enters the password calls Worker.Hint
		}
		// The date is that of the order: with time.Now() each try would be another request. The password
		// may differ from try to try, since the log does not compare secrets.
		// The recorded request differs after lostConfirmation.
		_, err = p.Client.Loans.ConfirmInvoiceWithdrawal(idempotency.AcceptRecorded(o.key(ctx, "confirm")), *withdrawal,
			lending.WithdrawInvoiceRequestData{DateUTC: o.Accepted, OTP: password})
		return err == nil, err
	}
	if o.Passwords > 0 { // the last password was wrong, replaced or expired
		resend := fmt.Sprint("password/", o.Passwords)
		sent, err := p.outcome(ctx, o, resend)
		if err != nil {
			return false, err
		}
		if sent != lending.OutcomeDone && known == lending.OutcomeUnknown { // the call looks: the money may have moved
			confirmed, err := confirm(o.Passwords - 1)
			if confirmed || lending.OutcomeOf(err) != lending.OutcomeRejected {
				return confirmed, err
			}
		}
		if _, err := p.Client.Loans.ResendWithdrawalOTP(o.key(ctx, resend), loan); err != nil {
			return false, err
		}
	}
	return confirm(o.Passwords)
}

// lostConfirmation leaves a key that a restored log does not know to a person: the service can refuse the withdrawal
// because it is confirmed already. Nothing is sent, unless a replica without a lock ends the doubt at this moment: then
// the service refuses the password, and no money moves.
func (p *Partner) lostConfirmation(ctx context.Context, o Order, loan lending.LoanID, refused error) (confirmed bool, err error) {
	known, err := p.outcome(ctx, o, "confirm")
	if err != nil || known != lending.OutcomeUnknown { // the withdrawal needed the lock, and a read has told the log: see end
		return false, cmp.Or(err, refused)
	}
	ctx = idempotency.WithCheck(o.key(ctx, "confirm"), func(context.Context) (idempotency.Verdict, error) {
		return idempotency.NeedsReview("the service refuses to begin the withdrawal, perhaps because it is confirmed"), nil
	})
	_, err = p.Client.Loans.ConfirmInvoiceWithdrawal(ctx, lending.InvoiceWithdrawal{LoanID: loan, Amount: o.Amount, AdvanceRate: "0"},
		lending.WithdrawInvoiceRequestData{DateUTC: o.Accepted, OTP: lending.NewSecret("none")})
	return err == nil, err
}
