package lendingtest

import "slices"

// openLoan makes the loan of an application after the last signature.
func (c *call) openLoan(app *Application) {
	loan := &Loan{
		ID: c.newID(kindLoan), ApplicationID: app.ID, CustomerID: app.CustomerID,
		Amount: app.Offer.Amount, AvailableBalance: app.Offer.Amount, IsEnabled: true, CreatedUTC: Timestamp{c.now()},
	}
	c.concern(loan.ID)
	c.loans.put(loan.ID, loan)
	c.setStatus(app, StatusLoanOpened)
	c.emitLoan("WB_Loan_Created", loan, nil)
	c.emitLoan("WB_Loan_Opened", loan, nil)
}

func (c *call) getLoan(row *Loan) (any, error) { return row, nil }

func (c *call) customerLoans(row *Customer) (any, error) {
	return slices.AppendSeq([]*Loan{}, rowsOf(c.loans.by(ofCustomer(row.ID)))), nil
}

// paged is the envelope of the two paged lists.
type paged[T any] struct {
	Data       []T `json:"data"`
	TotalCount int `json:"totalCount"`
}

// pageOf returns a page. The request's descending sets the order.
func pageOf[T any](c *call, rows []T) paged[T] {
	first, last := c.window(len(rows), takeCap)
	data := append([]T{}, rows[first:last]...)
	if c.flag("descending") {
		data = append(data[:0], rows[len(rows)-last:len(rows)-first]...)
		slices.Reverse(data)
	}
	return paged[T]{Data: data, TotalCount: len(rows)}
}

// transactions ignores descending, which only the paged lists have.
func (c *call) transactions(loan *Loan) (any, error) {
	return page(c, loan.Transactions, takeCap), nil
}

func (c *call) transactionsPaged(loan *Loan) (any, error) {
	return pageOf(c, loan.Transactions), nil
}

func (c *call) withdrawals(loan *Loan) (any, error) {
	return pageOf(c, loan.Withdrawals), nil
}

func (c *call) loanContracts(loan *Loan) (any, error) {
	return c.applications.get(loan.ApplicationID).contracts(), nil
}

func (c *call) totalBalance(loan *Loan) (any, error) {
	return struct {
		LoanID           string `json:"loanId"`
		TotalBalance     Cents  `json:"totalBalance"`
		AvailableBalance Cents  `json:"availableBalance"`
		Limit            Cents  `json:"limit"`
	}{loan.ID, loan.Balance, loan.AvailableBalance, loan.Amount}, nil
}

func (c *call) repaymentBalances(loan *Loan) (any, error) {
	return struct {
		LoanID             string    `json:"loanId"`
		OutstandingBalance Cents     `json:"outstandingBalance"`
		NextPaymentAmount  Cents     `json:"nextPaymentAmount"`
		NextPaymentUTC     Timestamp `json:"nextPaymentUTC"`
	}{loan.ID, loan.Balance, (loan.Balance + 11) / 12, Timestamp{loan.CreatedUTC.AddDate(0, 1, 0)}}, nil
}

// earlyRepayment is anonymous: the loan's id is enough.
func (c *call) earlyRepayment(loan *Loan) (any, error) {
	return struct {
		LoanID        string    `json:"loanId"`
		Amount        Cents     `json:"amount"`
		ValidUntilUTC Timestamp `json:"validUntilUTC"`
	}{loan.ID, loan.Balance, Timestamp{c.now().AddDate(0, 0, 1)}}, nil
}

func (c *call) isEnabled(loan *Loan) (any, error) {
	return loan.IsEnabled, nil
}

func (c *call) isClosed(loan *Loan) (any, error) {
	return loan.IsClosed, nil
}
