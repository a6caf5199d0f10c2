package rules

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

func (c *Call) customerLoans(row *record.Customer) any {
	return wire(book.Where(c.Tables, func(l *record.Loan) bool { return l.CustomerID == row.ID }))
}

// pageOf returns a page and the length of the whole list. The request's descending sets the order.
func pageOf[T any](c *Call, rows []T) any {
	rows, total := list(rows), len(rows)
	if c.flag("descending") && !c.learned(assumption.Descending, assumption.Ignored) {
		slices.Reverse(rows)
	}
	if c.learned(assumption.Totals, assumption.AnotherNumber) {
		total -= min(total, c.number("skip", 0))
	}
	return fields{"data": page(c, rows, takeCap), "totalCount": total}
}

func totalBalance(loan *record.Loan) any {
	return fields{
		"loanId": loan.ID, "totalBalance": loan.Balance, "availableBalance": loan.AvailableBalance, "limit": loan.Amount,
	}
}

func repaymentBalances(loan *record.Loan) any {
	return fields{
		"loanId": loan.ID, "outstandingBalance": loan.Balance, "nextPaymentAmount": (loan.Balance + 11) / 12,
		"nextPaymentUTC": record.Timestamp{Time: loan.CreatedUTC.AddDate(0, 1, 0)},
	}
}

// earlyRepayment is anonymous: the loan's id is enough.
func (c *Call) earlyRepayment(loan *record.Loan) any {
	return fields{"loanId": loan.ID, "amount": loan.Balance, "validUntilUTC": record.Timestamp{Time: c.Now().AddDate(0, 0, 1)}}
}

// calculate returns this model's CalculationResponse: two percent for each term.
func calculate(app *record.Application, k record.Calculation) fields {
	fee := k.Amount * record.Cents(k.Terms) / 50
	total := k.Amount + fee
	return fields{
		"amount": k.Amount, "percentOfIncome": k.PercentOfIncome, "terms": k.Terms,
		"fixedRepaymentCalculation": k.FixedRepaymentCalculation, "applicationId": app.ID, "advanceRate": advanceRate,
		"fee": fee, "totalRepayment": total, "repaymentAmount": total / record.Cents(max(k.Terms, 1)),
	}
}

// readCalculation reads the body. Without a body it uses the offer.
func (c *Call) readCalculation(app *record.Application) (k record.Calculation) {
	if !c.decode(&k) {
		offer := offerOf(app)
		k = record.Calculation{Amount: offer.Amount, Terms: offer.Terms}
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
	c.valid()
	return k
}

// invoiceCalculation stores the inputs, which an invoice withdrawal must repeat.
func (c *Call) invoiceCalculation(app *record.Application) any {
	k := c.readCalculation(app)
	app.Calculation = &k
	return calculate(app, k)
}

// calculationSlider calculates for three, six and twelve terms.
func (c *Call) calculationSlider(app *record.Application) any {
	k, all := c.readCalculation(app), []fields{}
	for _, terms := range []int{3, 6, 12} {
		k.Terms = terms
		all = append(all, calculate(app, k))
	}
	return all
}

// advanceRate is the rate of all loans in this model.
const advanceRate = 0.8

// drawable returns a loan from which money can be withdrawn.
func (c *Call) drawable() *record.Loan {
	loan := lookUp[record.Loan](c)
	if loan.IsClosed {
		refuse("LoanClosed", "The loan is closed.")
	}
	if !loan.IsEnabled {
		refuse("LoanDisabled", "The loan is disabled.")
	}
	return loan
}

func covers(l *record.Loan, amount record.Cents) {
	if amount > l.AvailableBalance {
		refuse("InsufficientBalance", "The amount is above the available balance.")
	}
}

// start sends a one-time password for p.
func (c *Call) start(loan *record.Loan, p *book.Pending) record.Sent {
	p.Code = c.NewCode("otp")
	c.Pending[loan.ID] = p
	m := c.Send(record.Sent{
		Kind: "loan-otp", To: c.customerOf(c.applicationOf(loan)).Email, Code: p.Code.Value,
		LoanID: loan.ID, ApplicationID: loan.ApplicationID,
	})
	c.EmitLoan("WB_Send_Loan_Otp", loan, nil)
	return m
}

// withdrawInvoice compares the amount with the stored calculation of the loan's application, and
// with the balance.
func (c *Call) withdrawInvoice(loan *record.Loan) any {
	var req struct {
		Calculation *record.Calculation `json:"calculation"`
	}
	var members map[string]json.RawMessage
	c.decodeRequired(&members)
	c.decodeRequired(&req)
	stored := c.applicationOf(loan).Calculation
	c.failed.require("calculation", req.Calculation != nil)
	c.valid()
	switch {
	case len(members) > 1:
		c.invalid("$", "OneProperty", "The object has another property beside calculation.")
	case stored == nil:
		refuse("CalculationNotFound", "The application has no stored invoice calculation.")
	case *req.Calculation != *stored:
		refuse("CalculationMismatch", "The calculation differs from the stored one.")
	}
	covers(loan, stored.Amount)
	pending := &book.Pending{Invoice: true, Amount: stored.Amount}
	response := fields{
		"loanId": loan.ID, "amount": stored.Amount, "advanceRate": advanceRate, "advanceAmount": stored.Amount * 8 / 10,
	}
	if c.Learned(assumption.WithdrawalListed, "") == assumption.FromStart {
		pending.ID = c.NewID(book.Withdrawal)
		response["id"] = pending.ID
		loan.Withdrawals = append(loan.Withdrawals, record.Withdrawal{
			ID: pending.ID, Amount: stored.Amount, AdvanceRate: advanceRate, Status: "Pending", CreatedUTC: c.Stamp(),
		})
	}
	c.start(loan, pending)
	return response
}

// withdrawLineOfCredit ends with the one-time password: the interface has no route to confirm
// the withdrawal. The record is not published: any object is accepted, and an amount in it is
// checked.
func (c *Call) withdrawLineOfCredit(loan *record.Loan) any {
	var req struct {
		Amount record.Cents `json:"amount"`
	}
	c.decodeRequired(&req)
	if req.Amount < 0 {
		c.invalid("amount", "InvalidAmount", "The amount is negative.")
	}
	covers(loan, req.Amount)
	c.start(loan, &book.Pending{Amount: req.Amount})
	return fields{"loanId": loan.ID, "amount": req.Amount, "otpSent": true}
}

// resendOTP sends a new password, which replaces the old password. The response names the
// message, not the password.
func (c *Call) resendOTP(loan *record.Loan) any {
	p := c.Pending[loan.ID]
	if p == nil {
		refuse("NoPendingWithdrawal", "No withdrawal waits for a one-time password.")
	}
	return c.start(loan, p).ID
}

func (c *Call) confirmWithdrawal(loan *record.Loan) any {
	var req struct {
		Amount      *record.Cents    `json:"amount"`
		AdvanceRate *float64         `json:"advanceRate"`
		DateUTC     record.Timestamp `json:"dateUTC"`
		OTP         string           `json:"otp"`
	}
	c.decodeRequired(&req)
	c.failed.require("amount", req.Amount != nil)
	c.failed.require("advanceRate", req.AdvanceRate != nil)
	c.failed.require("dateUTC", !req.DateUTC.IsZero())
	c.failed.require("otp", req.OTP != "")
	c.valid()
	p := c.Pending[loan.ID]
	switch {
	case p == nil || !p.Invoice:
		refuse("NoPendingWithdrawal", "No invoice withdrawal waits to be confirmed.")
	case *req.Amount != p.Amount:
		refuse("AmountMismatch", "The amount is not the agreed one.")
	case *req.AdvanceRate != advanceRate:
		refuse("AdvanceRateMismatch", "The advance rate is not the agreed one.")
	case !c.Accepts(&p.Code, req.OTP):
		refuse("InvalidOtp", "The one-time password is wrong, expired, or was tried too often.")
	}
	covers(loan, p.Amount)
	w := record.Withdrawal{
		ID: cmp.Or(p.ID, c.NewID(book.Withdrawal)), Amount: p.Amount, AdvanceRate: advanceRate, Status: "Completed",
		DateUTC: req.DateUTC, CreatedUTC: c.Stamp(),
	}
	delete(c.Pending, loan.ID)
	loan.Withdrawals = slices.DeleteFunc(slices.Clone(loan.Withdrawals), func(of record.Withdrawal) bool { return of.ID == p.ID })
	loan.Withdrawals = append(loan.Withdrawals, w)
	loan.Transactions = append(loan.Transactions, record.Transaction{
		ID: c.NewID(book.Transaction), Type: "Advance", Amount: p.Amount, Description: "Invoice withdrawal", DateUTC: w.CreatedUTC,
	})
	loan.Balance += p.Amount
	loan.AvailableBalance -= p.Amount
	c.EmitLoan("WB_Loan_Withdrawal_Completed", loan, map[string]any{"withdrawalId": w.ID, "amount": w.Amount})
	return fields{"data": w.ID}
}
