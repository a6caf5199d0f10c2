package lendingtest

import (
	"cmp"
	"encoding/json"
	"slices"
)

// pending is a withdrawal that waits for its one-time password. A loan has at most a single
// pending withdrawal; starting another replaces it.
type pending struct {
	Invoice bool         `json:"invoice"` // only invoice withdrawals can be confirmed
	Amount  Cents        `json:"amount"`
	Code    *oneTimeCode `json:"code"`
}

func (p *pending) clone() pending {
	code := *p.Code
	return pending{p.Invoice, p.Amount, &code}
}

// advanceRate is the rate of all loans in this model.
const advanceRate = 0.8

// drawable returns a loan from which money can be withdrawn.
func (c *call) drawable() (*Loan, error) {
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

func (l *Loan) covers(amount Cents) error {
	if amount > l.AvailableBalance {
		return refuse("InsufficientBalance", "The amount is above the available balance.")
	}
	return nil
}

// start sends a one-time password for p.
func (c *call) start(loan *Loan, p *pending) Sent {
	p.Code = c.newCode("otp")
	loan.pending = p
	m := c.message(Sent{
		Kind: "loan-otp", To: c.customers.get(loan.CustomerID).Email, Code: p.Code.Value,
		LoanID: loan.ID, ApplicationID: loan.ApplicationID,
	})
	c.emitLoan("WB_Send_Loan_Otp", loan, nil)
	return m
}

// withdrawInvoice compares the amount with the stored calculation of the loan's application, and
// with the balance.
func (c *call) withdrawInvoice(loan *Loan) (any, error) {
	var req struct {
		Calculation *Calculation `json:"calculation"`
	}
	var members map[string]json.RawMessage
	if err := cmp.Or(c.decodeRequired(&members), c.decodeRequired(&req)); err != nil {
		return nil, err
	}
	stored := c.applications.get(loan.ApplicationID).Calculation
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
	if err := loan.covers(stored.Amount); err != nil {
		return nil, err
	}
	c.start(loan, &pending{Invoice: true, Amount: stored.Amount})
	return struct {
		LoanID        string  `json:"loanId"`
		Amount        Cents   `json:"amount"`
		AdvanceRate   float64 `json:"advanceRate"`
		AdvanceAmount Cents   `json:"advanceAmount"`
	}{loan.ID, stored.Amount, advanceRate, stored.Amount * 8 / 10}, nil
}

// withdrawLineOfCredit ends with the one-time password: the interface has no route to confirm
// the withdrawal. The record is not published: any object is accepted, and an amount in it is
// checked.
func (c *call) withdrawLineOfCredit(loan *Loan) (any, error) {
	var req struct {
		Amount Cents `json:"amount"`
	}
	if err := c.decodeRequired(&req); err != nil {
		return nil, err
	}
	if req.Amount < 0 {
		c.failed.add("amount", "InvalidAmount", "The amount is negative.")
		return nil, c.failed.err()
	}
	if err := loan.covers(req.Amount); err != nil {
		return nil, err
	}
	c.start(loan, &pending{Amount: req.Amount})
	return struct {
		LoanID  string `json:"loanId"`
		Amount  Cents  `json:"amount"`
		OTPSent bool   `json:"otpSent"`
	}{loan.ID, req.Amount, true}, nil
}

// resendOTP sends a new password, which replaces the old password. The response names the
// message, not the password.
func (c *call) resendOTP(loan *Loan) (any, error) {
	if loan.pending == nil {
		return nil, refuse("NoPendingWithdrawal", "No withdrawal waits for a one-time password.")
	}
	return c.start(loan, loan.pending).ID, nil
}

func (c *call) confirmWithdrawal(loan *Loan) (any, error) {
	var req struct {
		Amount      *Cents    `json:"amount"`
		AdvanceRate *float64  `json:"advanceRate"`
		DateUTC     Timestamp `json:"dateUTC"`
		OTP         string    `json:"otp"`
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
	p := loan.pending
	switch {
	case len(c.failed) > 0:
		return nil, c.failed.err()
	case p == nil || !p.Invoice:
		return nil, refuse("NoPendingWithdrawal", "No invoice withdrawal waits to be confirmed.")
	case *req.Amount != p.Amount:
		return nil, refuse("AmountMismatch", "The amount is not the agreed one.")
	case *req.AdvanceRate != advanceRate:
		return nil, refuse("AdvanceRateMismatch", "The advance rate is not the agreed one.")
	case !p.Code.accepts(req.OTP, c.now()):
		return nil, refuse("InvalidOtp", "The one-time password is wrong, expired, or was tried too often.")
	}
	if err := loan.covers(p.Amount); err != nil {
		return nil, err
	}
	w := Withdrawal{
		ID: c.newID(kindWithdrawal), Amount: p.Amount, AdvanceRate: advanceRate, Status: "Completed",
		DateUTC: req.DateUTC, CreatedUTC: Timestamp{c.now()},
	}
	loan.pending = nil
	loan.Withdrawals = append(loan.Withdrawals, w)
	loan.Transactions = append(loan.Transactions, Transaction{
		ID: c.newID(kindTransaction), Type: "Advance", Amount: p.Amount, Description: "Invoice withdrawal", DateUTC: w.CreatedUTC,
	})
	loan.Balance += p.Amount
	loan.AvailableBalance -= p.Amount
	c.emitLoan("WB_Loan_Withdrawal_Completed", loan, map[string]any{"withdrawalId": w.ID, "amount": w.Amount})
	return struct {
		Data string `json:"data"`
	}{w.ID}, nil
}

// SetLoanEnabled enables or disables a loan and posts the event.
func (s *Service) SetLoanEnabled(loanID string, enabled bool) {
	s.UpdateLoan(loanID, func(l *Loan) { l.IsEnabled = enabled })
}

// CloseLoan closes a loan and posts the event.
func (s *Service) CloseLoan(loanID string) {
	s.UpdateLoan(loanID, func(l *Loan) { l.IsClosed = true })
}

// LoanOf returns the loan of an application, or false if there is none yet.
func (s *Service) LoanOf(applicationID string) (Loan, bool) {
	all := s.Snapshot().Loans
	i := slices.IndexFunc(all, func(l Loan) bool { return l.ApplicationID == applicationID })
	if i < 0 {
		return Loan{}, false
	}
	return all[i], true
}
