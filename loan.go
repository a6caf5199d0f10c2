package lending

import "context"

// LoansService reads loans and their lists, and withdraws.
//
// A loan is found through its customer: [LoansService.ListByCustomer] returns records
// that name the application they came from.
type LoansService struct{ client *Client }

// LoanResponse is a loan.
type LoanResponse struct {
	Record
	ID            LoanID        `json:"id"`
	ApplicationID ApplicationID `json:"applicationId"` // the application that led to the loan
}

// UnmarshalJSON keeps data as the [Record].
func (l *LoanResponse) UnmarshalJSON(data []byte) error { return unmarshalRecord(data, l) }

// MarshalJSON writes the record as it was received.
func (l LoanResponse) MarshalJSON() ([]byte, error) { return marshalRecord(l.Record, l) }

// Transaction is a transaction of a loan. Its fields are not published.
type Transaction struct{ Record }

// AdvanceProjection is a withdrawal from a loan. Its fields are not published.
type AdvanceProjection struct{ Record }

// LoanBalanceResponse is the balance of a loan. Its fields are not published.
type LoanBalanceResponse struct{ Record }

// DashboardLoanRepaymentResponse is what is to be repaid of a loan. Its fields are
// not published.
type DashboardLoanRepaymentResponse struct{ Record }

// EarlyRepaymentResponse is what it costs to repay a loan early. Its fields are not
// published.
type EarlyRepaymentResponse struct{ Record }

// Get returns a loan. The interface declares the record Loan for it; the service
// answers with [LoanResponse].
//
// An answer without the id of the loan and of its application is an error. [Absent]
// reports a loan that does not exist.
//
// Route: GET /api/Loan/get-loan/{loanId}
func (s *LoansService) Get(ctx context.Context, id LoanID) (*LoanResponse, error) {
	return get[*LoanResponse](ctx, s.client, request{
		path: "/api/Loan/get-loan/{loanId}",
		args: []string{id.String()},
	})
}

// ListByCustomer returns the loans of a customer. It is the way to a loan's id: pick
// the loan by its ApplicationID.
//
// Where there are none the list is empty; [Absent] reports a customer who does not
// exist. A loan without its id or that of its application is an error.
//
// Route: GET /api/Loan/get-customer-loans/{customerId}
func (s *LoansService) ListByCustomer(ctx context.Context, id CustomerID) ([]LoanResponse, error) {
	return get[[]LoanResponse](ctx, s.client, request{
		path: "/api/Loan/get-customer-loans/{customerId}",
		args: []string{id.String()},
	})
}

// Transactions returns transactions of a loan, at most [MaxTake] at a time.
//
// Where there are none the list is empty; [Absent] reports a loan that does not exist.
//
// Route: GET /api/Loan/get-transactions/{loanId}
func (s *LoansService) Transactions(ctx context.Context, id LoanID, opts *ListOptions) ([]Transaction, error) {
	return get[[]Transaction](ctx, s.client, request{
		path:  "/api/Loan/get-transactions/{loanId}",
		args:  []string{id.String()},
		query: opts.query(),
		also:  opts.atMost(MaxTake),
	})
}

// TransactionsPaged returns transactions of a loan, at most [MaxTake] at a time, and
// how many there are: the interface's PagedListTransactionResponse.
//
// Where there are none the list is empty; [Absent] reports a loan that does not exist.
//
// Route: GET /api/Loan/get-transactions-paged/{loanId}
func (s *LoansService) TransactionsPaged(ctx context.Context, id LoanID, opts *PagedOptions) (*Page[Transaction], error) {
	return get[*Page[Transaction]](ctx, s.client, request{
		path:  "/api/Loan/get-transactions-paged/{loanId}",
		args:  []string{id.String()},
		query: opts.query(),
		also:  opts.atMost(MaxTake),
	})
}

// Withdrawals returns withdrawals from a loan, at most [MaxTake] at a time, and how
// many there are: the interface's PagedListAdvanceProjectionResponse.
//
// Where there are none the list is empty; [Absent] reports a loan that does not exist.
//
// Route: GET /api/Loan/get-withdrawals/{loanId}
func (s *LoansService) Withdrawals(ctx context.Context, id LoanID, opts *PagedOptions) (*Page[AdvanceProjection], error) {
	return get[*Page[AdvanceProjection]](ctx, s.client, request{
		path:  "/api/Loan/get-withdrawals/{loanId}",
		args:  []string{id.String()},
		query: opts.query(),
		also:  opts.atMost(MaxTake),
	})
}

// ContractDocuments returns the contract documents of a loan.
//
// Where there are none the list is empty; [Absent] reports a loan that does not exist.
//
// Route: GET /api/Loan/get-contract-documents/{loanId}
func (s *LoansService) ContractDocuments(ctx context.Context, id LoanID) ([]ContractDocumentResponse, error) {
	return get[[]ContractDocumentResponse](ctx, s.client, request{
		path: "/api/Loan/get-contract-documents/{loanId}",
		args: []string{id.String()},
	})
}

// TotalBalance returns the balance of a loan.
//
// [Absent] reports a loan that does not exist.
//
// Route: GET /api/Loan/get-total-balance/{loanId}
func (s *LoansService) TotalBalance(ctx context.Context, id LoanID) (*LoanBalanceResponse, error) {
	return get[*LoanBalanceResponse](ctx, s.client, request{
		path: "/api/Loan/get-total-balance/{loanId}",
		args: []string{id.String()},
	})
}

// RepaymentBalances returns what is to be repaid of a loan.
//
// [Absent] reports a loan that does not exist.
//
// Route: GET /api/Loan/get-repayment-balances/{loanId}
func (s *LoansService) RepaymentBalances(ctx context.Context, id LoanID) (*DashboardLoanRepaymentResponse, error) {
	return get[*DashboardLoanRepaymentResponse](ctx, s.client, request{
		path: "/api/Loan/get-repayment-balances/{loanId}",
		args: []string{id.String()},
	})
}

// IsEnabled reports whether the loan is enabled. What enables it is not published.
//
// [Absent] reports a loan that does not exist.
//
// Route: GET /api/Loan/is-loan-enabled/{loanId}
func (s *LoansService) IsEnabled(ctx context.Context, id LoanID) (bool, error) {
	return get[bool](ctx, s.client, request{
		path: "/api/Loan/is-loan-enabled/{loanId}",
		args: []string{id.String()},
	})
}

// IsClosed reports whether the loan is closed. What closes it is not published.
//
// [Absent] reports a loan that does not exist.
//
// Route: GET /api/Loan/is-loan-closed/{loanId}
func (s *LoansService) IsClosed(ctx context.Context, id LoanID) (bool, error) {
	return get[bool](ctx, s.client, request{
		path: "/api/Loan/is-loan-closed/{loanId}",
		args: []string{id.String()},
	})
}

// EarlyRepayment returns what it costs to repay a loan early. It needs no token, and
// none is sent: whoever knows the loan's id can read it.
//
// [Absent] reports a loan that does not exist.
//
// Route: GET /api/Loan/get-early-repayment/{loanId}
func (s *LoansService) EarlyRepayment(ctx context.Context, id LoanID) (*EarlyRepaymentResponse, error) {
	return get[*EarlyRepaymentResponse](ctx, s.client, request{
		path:      "/api/Loan/get-early-repayment/{loanId}",
		args:      []string{id.String()},
		anonymous: true,
	})
}
