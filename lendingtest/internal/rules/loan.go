package rules

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

func (c *Call) getLoan(row *record.Loan) (any, error) { return plain.Wire(row), nil }

func (c *Call) customerLoans(row *record.Customer) (any, error) {
	return wire(book.Rows(c.Loans.By(book.OfCustomer(row.ID)))), nil
}

// paged is the envelope of the two paged lists.
type paged[T any] struct {
	Data       []T `json:"data"`
	TotalCount int `json:"totalCount"`
}

// pageOf returns a page. The request's descending sets the order.
func pageOf[T any](c *Call, rows []T) paged[T] {
	first, last := c.window(len(rows), takeCap)
	data := append([]T{}, rows[first:last]...)
	if c.flag("descending") {
		data = append(data[:0], rows[len(rows)-last:len(rows)-first]...)
		slices.Reverse(data)
	}
	return paged[T]{Data: data, TotalCount: len(rows)}
}

// transactions ignores descending, which only the paged lists have.
func (c *Call) transactions(loan *record.Loan) (any, error) {
	return page(c, loan.Transactions, takeCap), nil
}

func (c *Call) transactionsPaged(loan *record.Loan) (any, error) {
	return pageOf(c, loan.Transactions), nil
}

func (c *Call) withdrawals(loan *record.Loan) (any, error) {
	return pageOf(c, loan.Withdrawals), nil
}

func (c *Call) loanContracts(loan *record.Loan) (any, error) {
	return contracts(c.Applications.Get(loan.ApplicationID)), nil
}

func (c *Call) totalBalance(loan *record.Loan) (any, error) {
	return struct {
		LoanID           string       `json:"loanId"`
		TotalBalance     record.Cents `json:"totalBalance"`
		AvailableBalance record.Cents `json:"availableBalance"`
		Limit            record.Cents `json:"limit"`
	}{loan.ID, loan.Balance, loan.AvailableBalance, loan.Amount}, nil
}

func (c *Call) repaymentBalances(loan *record.Loan) (any, error) {
	return struct {
		LoanID             string           `json:"loanId"`
		OutstandingBalance record.Cents     `json:"outstandingBalance"`
		NextPaymentAmount  record.Cents     `json:"nextPaymentAmount"`
		NextPaymentUTC     record.Timestamp `json:"nextPaymentUTC"`
	}{loan.ID, loan.Balance, (loan.Balance + 11) / 12, record.Timestamp{Time: loan.CreatedUTC.AddDate(0, 1, 0)}}, nil
}

// earlyRepayment is anonymous: the loan's id is enough.
func (c *Call) earlyRepayment(loan *record.Loan) (any, error) {
	return struct {
		LoanID        string           `json:"loanId"`
		Amount        record.Cents     `json:"amount"`
		ValidUntilUTC record.Timestamp `json:"validUntilUTC"`
	}{loan.ID, loan.Balance, record.Timestamp{Time: c.Now().AddDate(0, 0, 1)}}, nil
}

func (c *Call) isEnabled(loan *record.Loan) (any, error) {
	return loan.IsEnabled, nil
}

func (c *Call) isClosed(loan *record.Loan) (any, error) {
	return loan.IsClosed, nil
}

// calculated is this model's CalculationResponse: two percent for each term.
type calculated struct {
	record.Calculation
	ApplicationID   string       `json:"applicationId"`
	AdvanceRate     float64      `json:"advanceRate"`
	Fee             record.Cents `json:"fee"`
	TotalRepayment  record.Cents `json:"totalRepayment"`
	RepaymentAmount record.Cents `json:"repaymentAmount"`
}

func calculate(app *record.Application, k record.Calculation) calculated {
	fee := k.Amount * record.Cents(k.Terms) / 50
	total := k.Amount + fee
	return calculated{
		Calculation: k, ApplicationID: app.ID, AdvanceRate: advanceRate,
		Fee: fee, TotalRepayment: total, RepaymentAmount: total / record.Cents(max(k.Terms, 1)),
	}
}

// readCalculation reads the body. Without a body it uses the offer.
func (c *Call) readCalculation() (*record.Application, record.Calculation, error) {
	var k record.Calculation
	app, err := c.openApplication()
	if err != nil {
		return nil, k, err
	}
	present, err := c.decode(&k)
	if err != nil {
		return nil, k, err
	}
	if !present {
		if app.Offer == nil {
			return nil, k, refuse("OfferNotFound", "The application has no offer to calculate with.")
		}
		k = record.Calculation{Amount: app.Offer.Amount, Terms: app.Offer.Terms}
	}
	if k.Amount <= 0 {
		c.failed.add("amount", "InvalidAmount", "The amount is not above zero.")
	}
	if k.PercentOfIncome < 0 || k.PercentOfIncome > 100 {
		c.failed.add("percentOfIncome", "InvalidPercentage", "The percentage is not from 0 to 100.")
	}
	if k.Terms < 0 || k.Terms > 120 {
		c.failed.add("terms", "InvalidTerms", "The number of terms is not from 0 to 120.")
	}
	return app, k, c.failed.err()
}

func (c *Call) lineOfCreditCalculation() (any, error) {
	app, k, err := c.readCalculation()
	if err != nil {
		return nil, err
	}
	return calculate(app, k), nil
}

// invoiceCalculation stores the inputs, which an invoice withdrawal must repeat.
func (c *Call) invoiceCalculation() (any, error) {
	app, k, err := c.readCalculation()
	if err != nil {
		return nil, err
	}
	app.Calculation = &k
	return calculate(app, k), nil
}

// calculationSlider calculates for three, six and twelve terms.
func (c *Call) calculationSlider() (any, error) {
	app, k, err := c.readCalculation()
	if err != nil {
		return nil, err
	}
	all := []calculated{}
	for _, terms := range []int{3, 6, 12} {
		k.Terms = terms
		all = append(all, calculate(app, k))
	}
	return all, nil
}

// advanceRate is the rate of all loans in this model.
const advanceRate = 0.8

// drawable returns a loan from which money can be withdrawn.
func (c *Call) drawable() (*record.Loan, error) {
	loan, err := c.loan()
	switch {
	case err != nil:
		return nil, err
	case loan.IsClosed:
		return nil, refuse("LoanClosed", "The loan is closed.")
	case !loan.IsEnabled:
		return nil, refuse("LoanDisabled", "The loan is disabled.")
	}
	return loan, nil
}

func covers(l *record.Loan, amount record.Cents) error {
	if amount > l.AvailableBalance {
		return refuse("InsufficientBalance", "The amount is above the available balance.")
	}
	return nil
}

// start sends a one-time password for p.
func (c *Call) start(loan *record.Loan, p *record.Pending) record.Sent {
	p.Code = c.NewCode("otp")
	c.Pending[loan.ID] = p
	m := c.Send(record.Sent{
		Kind: "loan-otp", To: c.Customers.Get(loan.CustomerID).Email, Code: p.Code.Value,
		LoanID: loan.ID, ApplicationID: loan.ApplicationID,
	})
	c.EmitLoan("WB_Send_Loan_Otp", loan, nil)
	return m
}

// withdrawInvoice compares the amount with the stored calculation of the loan's application, and
// with the balance.
func (c *Call) withdrawInvoice(loan *record.Loan) (any, error) {
	var req struct {
		Calculation *record.Calculation `json:"calculation"`
	}
	var members map[string]json.RawMessage
	if err := cmp.Or(c.decodeRequired(&members), c.decodeRequired(&req)); err != nil {
		return nil, err
	}
	stored := c.Applications.Get(loan.ApplicationID).Calculation
	switch {
	case req.Calculation == nil:
		return nil, requireTexts("calculation", "")
	case len(members) > 1:
		c.failed.add("$", "OneProperty", "The object has another property beside calculation.")
		return nil, c.failed.err()
	case stored == nil:
		return nil, refuse("CalculationNotFound", "The application has no stored invoice calculation.")
	case *req.Calculation != *stored:
		return nil, refuse("CalculationMismatch", "The calculation differs from the stored one.")
	}
	if err := covers(loan, stored.Amount); err != nil {
		return nil, err
	}
	c.start(loan, &record.Pending{Invoice: true, Amount: stored.Amount})
	return struct {
		LoanID        string       `json:"loanId"`
		Amount        record.Cents `json:"amount"`
		AdvanceRate   float64      `json:"advanceRate"`
		AdvanceAmount record.Cents `json:"advanceAmount"`
	}{loan.ID, stored.Amount, advanceRate, stored.Amount * 8 / 10}, nil
}

// withdrawLineOfCredit ends with the one-time password: the interface has no route to confirm
// the withdrawal. The record is not published: any object is accepted, and an amount in it is
// checked.
func (c *Call) withdrawLineOfCredit(loan *record.Loan) (any, error) {
	var req struct {
		Amount record.Cents `json:"amount"`
	}
	if err := c.decodeRequired(&req); err != nil {
		return nil, err
	}
	if req.Amount < 0 {
		c.failed.add("amount", "InvalidAmount", "The amount is negative.")
		return nil, c.failed.err()
	}
	if err := covers(loan, req.Amount); err != nil {
		return nil, err
	}
	c.start(loan, &record.Pending{Amount: req.Amount})
	return struct {
		LoanID  string       `json:"loanId"`
		Amount  record.Cents `json:"amount"`
		OTPSent bool         `json:"otpSent"`
	}{loan.ID, req.Amount, true}, nil
}

// resendOTP sends a new password, which replaces the old password. The response names the
// message, not the password.
func (c *Call) resendOTP(loan *record.Loan) (any, error) {
	p := c.Pending[loan.ID]
	if p == nil {
		return nil, refuse("NoPendingWithdrawal", "No withdrawal waits for a one-time password.")
	}
	return c.start(loan, p).ID, nil
}

func (c *Call) confirmWithdrawal(loan *record.Loan) (any, error) {
	var req struct {
		Amount      *record.Cents    `json:"amount"`
		AdvanceRate *float64         `json:"advanceRate"`
		DateUTC     record.Timestamp `json:"dateUTC"`
		OTP         string           `json:"otp"`
	}
	if err := c.decodeRequired(&req); err != nil {
		return nil, err
	}
	for _, need := range []struct {
		field   string
		present bool
	}{{"amount", req.Amount != nil}, {"advanceRate", req.AdvanceRate != nil}, {"dateUTC", !req.DateUTC.IsZero()}, {"otp", req.OTP != ""}} {
		if !need.present {
			c.failed.add(need.field, "Required", "The %s field is required.", need.field)
		}
	}
	p := c.Pending[loan.ID]
	switch {
	case len(c.failed) > 0:
		return nil, c.failed.err()
	case p == nil || !p.Invoice:
		return nil, refuse("NoPendingWithdrawal", "No invoice withdrawal waits to be confirmed.")
	case *req.Amount != p.Amount:
		return nil, refuse("AmountMismatch", "The amount is not the agreed one.")
	case *req.AdvanceRate != advanceRate:
		return nil, refuse("AdvanceRateMismatch", "The advance rate is not the agreed one.")
	case !c.Accepts(&p.Code, req.OTP):
		return nil, refuse("InvalidOtp", "The one-time password is wrong, expired, or was tried too often.")
	}
	if err := covers(loan, p.Amount); err != nil {
		return nil, err
	}
	w := record.Withdrawal{
		ID: c.NewID(book.Withdrawal), Amount: p.Amount, AdvanceRate: advanceRate, Status: "Completed",
		DateUTC: req.DateUTC, CreatedUTC: c.Stamp(),
	}
	delete(c.Pending, loan.ID)
	loan.Withdrawals = append(loan.Withdrawals, w)
	loan.Transactions = append(loan.Transactions, record.Transaction{
		ID: c.NewID(book.Transaction), Type: "Advance", Amount: p.Amount, Description: "Invoice withdrawal", DateUTC: w.CreatedUTC,
	})
	loan.Balance += p.Amount
	loan.AvailableBalance -= p.Amount
	c.EmitLoan("WB_Loan_Withdrawal_Completed", loan, map[string]any{"withdrawalId": w.ID, "amount": w.Amount})
	return struct {
		Data string `json:"data"`
	}{w.ID}, nil
}
