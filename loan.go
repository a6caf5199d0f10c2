package lending

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/verdict"
)

// LoansService reads loans and their lists, and withdraws.
//
// A loan is found through its customer: [LoansService.ListByCustomer] returns records
// that name the application they came from.
//
// A list without records is empty. [IsNotFound] reports a loan or customer that does
// not exist.
type LoansService struct{ client *carrier }

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
// An answer without the id of the loan or of its application is an error, and so is the
// record of another loan. [IsNotFound] reports a loan that does not exist.
//
// Route: GET /api/Loan/get-loan/{loanId}
func (s *LoansService) Get(ctx context.Context, id LoanID) (*LoanResponse, error) {
	return get[*LoanResponse](ctx, s.client, request{
		path: "/api/Loan/get-loan/{loanId}",
		args: []string{id.String()},
		fits: func(result any) *shapeError {
			if result.(*LoanResponse).ID == id {
				return nil
			}
			return &shapeError{path: "id", want: "the id that was asked for", got: "another"}
		},
	})
}

// ListByCustomer returns the loans of a customer. It is the way to a loan's id: pick
// the loan by its ApplicationID.
//
// A loan without its id or that of its application is an error.
//
// Route: GET /api/Loan/get-customer-loans/{customerId}
func (s *LoansService) ListByCustomer(ctx context.Context, id CustomerID) ([]LoanResponse, error) {
	return get[[]LoanResponse](ctx, s.client, request{
		path: "/api/Loan/get-customer-loans/{customerId}",
		args: []string{id.String()},
	})
}

// Transactions returns transactions of a loan, at most 200 at a time.
//
// Route: GET /api/Loan/get-transactions/{loanId}
func (s *LoansService) Transactions(ctx context.Context, id LoanID, opts *ListOptions) ([]Transaction, error) {
	return get[[]Transaction](ctx, s.client, request{
		path:  "/api/Loan/get-transactions/{loanId}",
		args:  []string{id.String()},
		query: opts.paged().query(),
		also:  opts.paged().atMost(maxTake),
	})
}

// AllTransactions yields all transactions of a loan. It calls [LoansService.Transactions]
// until a page is empty. A service that never answers with an empty page is stopped only
// by ctx or a break. [LoansService.AllTransactionsPaged] needs one call less and can go
// from the last transaction to the first.
//
// opts may be nil. The iterator begins at Skip and asks for Take records a page, at most
// and by default 200. A call that fails ends it with a [*PageError], which says where
// a new iterator can resume. Each range over the iterator calls again from the beginning.
// A record keeps its page in memory; a [Record.Clone] does not.
func (s *LoansService) AllTransactions(ctx context.Context, id LoanID, opts *ListOptions) iter.Seq2[Transaction, error] {
	return walk(ctx, opts.paged(), func(ctx context.Context, part *PagedOptions) page[Transaction] {
		return pageOfList(s.Transactions(ctx, id, part.list()))
	})
}

// TransactionsPaged returns transactions of a loan, at most 200 at a time, and
// how many there are: the interface's PagedListTransactionResponse.
//
// Route: GET /api/Loan/get-transactions-paged/{loanId}
func (s *LoansService) TransactionsPaged(ctx context.Context, id LoanID, opts *PagedOptions) (*Page[Transaction], error) {
	return get[*Page[Transaction]](ctx, s.client, request{
		path:  "/api/Loan/get-transactions-paged/{loanId}",
		args:  []string{id.String()},
		query: opts.query(),
		also:  opts.atMost(maxTake),
	})
}

// AllTransactionsPaged yields all transactions of a loan. It calls
// [LoansService.TransactionsPaged] until the total is reached or a page is empty. A total
// that is too small ends it early. Options and errors are those of
// [LoansService.AllTransactions].
func (s *LoansService) AllTransactionsPaged(ctx context.Context, id LoanID, opts *PagedOptions) iter.Seq2[Transaction, error] {
	return walk(ctx, opts, func(ctx context.Context, part *PagedOptions) page[Transaction] {
		return pageOfTotal(s.TransactionsPaged(ctx, id, part))
	})
}

// Withdrawals returns withdrawals from a loan, at most 200 at a time, and how
// many there are: the interface's PagedListAdvanceProjectionResponse.
//
// Route: GET /api/Loan/get-withdrawals/{loanId}
func (s *LoansService) Withdrawals(ctx context.Context, id LoanID, opts *PagedOptions) (*Page[AdvanceProjection], error) {
	return get[*Page[AdvanceProjection]](ctx, s.client, request{
		path:  "/api/Loan/get-withdrawals/{loanId}",
		args:  []string{id.String()},
		query: opts.query(),
		also:  opts.atMost(maxTake),
	})
}

// AllWithdrawals yields all withdrawals from a loan. It calls [LoansService.Withdrawals],
// and otherwise works as [LoansService.AllTransactionsPaged].
func (s *LoansService) AllWithdrawals(ctx context.Context, id LoanID, opts *PagedOptions) iter.Seq2[AdvanceProjection, error] {
	return walk(ctx, opts, func(ctx context.Context, part *PagedOptions) page[AdvanceProjection] {
		return pageOfTotal(s.Withdrawals(ctx, id, part))
	})
}

// ContractDocuments returns the contract documents of a loan.
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
// Route: GET /api/Loan/get-total-balance/{loanId}
func (s *LoansService) TotalBalance(ctx context.Context, id LoanID) (*LoanBalanceResponse, error) {
	return get[*LoanBalanceResponse](ctx, s.client, request{
		path: "/api/Loan/get-total-balance/{loanId}",
		args: []string{id.String()},
	})
}

// RepaymentBalances returns what is to be repaid of a loan.
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
// Route: GET /api/Loan/is-loan-enabled/{loanId}
func (s *LoansService) IsEnabled(ctx context.Context, id LoanID) (bool, error) {
	return get[bool](ctx, s.client, request{
		path: "/api/Loan/is-loan-enabled/{loanId}",
		args: []string{id.String()},
	})
}

// IsClosed reports whether the loan is closed. What closes it is not published.
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
// Route: GET /api/Loan/get-early-repayment/{loanId}
func (s *LoansService) EarlyRepayment(ctx context.Context, id LoanID) (*EarlyRepaymentResponse, error) {
	return get[*EarlyRepaymentResponse](ctx, s.client, request{
		path:      "/api/Loan/get-early-repayment/{loanId}",
		args:      []string{id.String()},
		anonymous: true,
	})
}

// InvoiceWithdrawalRequest begins a withdrawal from an invoice loan. What is sent has
// this one property: further fields stand in the calculation's Extra.
type InvoiceWithdrawalRequest struct {
	Calculation CalculationRequest `json:"calculation"` // the one last given to [CalculationService.Invoice]; needs an amount
}

func (r InvoiceWithdrawalRequest) check(c *checks) {
	c.that(r.Calculation.Amount != "", "calculation.amount", CodeRequired, "must not be empty")
	c.prefix = "calculation."
	r.Calculation.check(c)
	c.prefix = ""
}

// InvoiceWithdrawalResponse is the answer to the beginning of a withdrawal. It holds
// the advance rate; its fields are not published.
type InvoiceWithdrawalResponse struct{ Record }

// InvoiceWithdrawal is a withdrawal that waits for its one-time password. It holds
// what [LoansService.ConfirmInvoiceWithdrawal] needs beside that, so that no other
// loan or amount is confirmed than what was begun. It survives JSON: the password
// comes minutes later, perhaps to another process. Where AdvanceRate stands in the
// Response is assumed: see [WithdrawInvoiceRequestData].
type InvoiceWithdrawal struct {
	LoanID      LoanID                    `json:"loanId"`
	Amount      json.Number               `json:"amount,omitzero"`      // as it was asked for
	AdvanceRate json.Number               `json:"advanceRate,omitzero"` // from Response
	Response    InvoiceWithdrawalResponse `json:"response"`
}

// WithdrawInvoiceRequestData is what confirms a withdrawal, beside the
// [InvoiceWithdrawal] itself.
//
// The record that is sent is flat, and the interface names only one of its fields,
// dateUTC. These names are assumed, and no others in this package are:
//
//   - amount: of the confirmation, from the InvoiceWithdrawal
//   - advanceRate: of the confirmation, from the InvoiceWithdrawal
//   - otp: of the confirmation, from OTP
//   - advanceRate: of the answer to [LoansService.WithdrawInvoice]
//
// If the service uses others for the first three, Extra sends those too, with the
// values revealed; if for the last, set the field AdvanceRate of the
// InvoiceWithdrawal from its Response.
type WithdrawInvoiceRequestData struct {
	DateUTC time.Time // required; the date asked for, sent in UTC
	OTP     Secret    // required; the one-time password as it was received
	Extra   any       // further fields: marshals to a JSON object
}

// confirmation is WithdrawInvoiceRequestData as it is sent.
type confirmation struct {
	Amount      json.Number `json:"amount"`
	AdvanceRate json.Number `json:"advanceRate"`
	DateUTC     time.Time   `json:"dateUTC"`
	OTP         Secret      `json:"otp"`
	Extra       any         `json:"-"`
}

func (r confirmation) check(c *checks) {
	c.that(r.Amount != "", "amount", CodeRequired, "must not be empty")
	c.that(r.AdvanceRate != "", "advanceRate", CodeRequired, "must not be empty: set it from the response")
	c.that(!r.DateUTC.IsZero(), "dateUTC", CodeRequired, "must not be empty")
	c.that(!r.OTP.IsZero(), "otp", CodeRequired, "must not be empty")
	c.number("amount", r.Amount)
	c.number("advanceRate", r.AdvanceRate)
}

// GuidApiResponse is the answer to a confirmed withdrawal. Its fields are not
// published.
//
//nolint:revive,staticcheck // the interface spells it so
type GuidApiResponse struct{ Record }

// LineOfCreditWithdrawalRequest begins a withdrawal from a line of credit, and
// cannot finish it: see [LoansService.WithdrawLineOfCredit]. Its fields are not
// published: Extra holds them.
type LineOfCreditWithdrawalRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// LineOfCreditWithdrawalResponse is a withdrawal from a line of credit that has been
// begun and that no route can confirm. Its fields are not published.
type LineOfCreditWithdrawalResponse struct{ Record }

// WithdrawLineOfCredit begins a withdrawal from a line of credit: a one-time password
// is sent, and no money moves. The service has no route that confirms it, so a
// withdrawal from a line of credit cannot be completed through this interface.
//
// After an unknown outcome read [LoansService.Withdrawals]; a second call may send
// another one-time password.
//
// Route: POST /api/Loan/make-withdrawal-line-of-credit/{loanId}
func (s *LoansService) WithdrawLineOfCredit(ctx context.Context, id LoanID, withdrawal LineOfCreditWithdrawalRequest) (*LineOfCreditWithdrawalResponse, error) {
	return post[*LineOfCreditWithdrawalResponse](ctx, s.client, request{
		path:      "/api/Loan/make-withdrawal-line-of-credit/{loanId}",
		args:      []string{id.String()},
		body:      withdrawal,
		checkWith: "Loans.Withdrawals",
	})
}

// WithdrawInvoice begins a withdrawal from an invoice loan: a one-time password is
// sent, and no money moves before [LoansService.ConfirmInvoiceWithdrawal] has taken it
// with the value that is returned here.
//
// It needs the calculation last given to [CalculationService.Invoice] for the
// application of the loan: the amount is checked against what was stored there and
// against the available balance. After an unknown outcome read
// [LoansService.Withdrawals]; a second call may send another one-time password.
//
// Route: POST /api/Loan/make-withdrawal-invoice/{loanId}
func (s *LoansService) WithdrawInvoice(ctx context.Context, id LoanID, withdrawal InvoiceWithdrawalRequest) (*InvoiceWithdrawal, error) {
	response, err := post[*InvoiceWithdrawalResponse](ctx, s.client, request{
		path:      "/api/Loan/make-withdrawal-invoice/{loanId}",
		args:      []string{id.String()},
		body:      map[string]any{"calculation": withdrawal.Calculation},
		also:      withdrawal,
		checkWith: "Loans.Withdrawals",
	})
	if err != nil {
		return nil, err
	}
	var assumed struct {
		AdvanceRate json.Number `json:"advanceRate"`
	}
	_ = response.Decode(&assumed) // the withdrawal has begun, whatever the field is called
	return &InvoiceWithdrawal{id, withdrawal.Calculation.Amount, assumed.AdvanceRate, *response}, nil
}

// ResendWithdrawalOTP sends the one-time password of a withdrawal again. The UUID
// that it returns is not the password; what it identifies is not published.
//
// After an unknown outcome nothing shows whether it was sent: a second call may send
// it twice.
//
// Route: POST /api/Loan/resend-withdrawal-otp/{loanId}
func (s *LoansService) ResendWithdrawalOTP(ctx context.Context, id LoanID) (uuid.UUID, error) {
	return post[uuid.UUID](ctx, s.client, request{
		path: "/api/Loan/resend-withdrawal-otp/{loanId}",
		args: []string{id.String()},
	})
}

// ConfirmInvoiceWithdrawal completes a withdrawal that [LoansService.WithdrawInvoice]
// has begun, with the one-time password that was sent: money moves.
//
// The answer confirms the withdrawal if it is a UUID, or an object with a UUID in id, guid,
// data, result or value. A UUID of the request proves nothing. If another member of the
// object tells of a failure, for example "accepted":false or "status":"Rejected", or if
// there is no such UUID, the call returns an error with [OutcomeUnknown]. Then read
// [LoansService.Withdrawals] and [LoansService.TotalBalance] before anything else.
//
// Route: POST /api/Loan/confirm-withdrawal-invoice/{loanId}
func (s *LoansService) ConfirmInvoiceWithdrawal(ctx context.Context, withdrawal InvoiceWithdrawal, data WithdrawInvoiceRequestData) (*GuidApiResponse, error) {
	answer, err := post[*Record](ctx, s.client, request{
		path:       "/api/Loan/confirm-withdrawal-invoice/{loanId}",
		args:       []string{withdrawal.LoanID.String()},
		body:       confirmation{withdrawal.Amount, withdrawal.AdvanceRate, data.DateUTC.UTC(), data.OTP, data.Extra},
		acceptance: acceptWithdrawal,
		checkWith:  "Loans.Withdrawals, Loans.TotalBalance",
	})
	if err != nil {
		return nil, err
	}
	return &GuidApiResponse{*answer}, nil
}

// acceptWithdrawal says why an answer does not mean that money moves. Nothing but its name
// is published of a GuidApiResponse.
func acceptWithdrawal(x *exchange) error {
	switch {
	case len(x.parsed.body) == 0 || string(x.parsed.body) == "null":
		return ErrNoContent
	case !x.parsed.valid:
		return errNotGUID
	}
	ok, contradiction := verdict.Confirms(x.parsed.body, x.request.holds)
	switch {
	case contradiction != "":
		return hidden("the answer reports a failure: "+redact.Name(contradiction), nil)
	case !ok:
		return errNotGUID
	}
	return nil
}

// holds reports whether the path or the body of the request names id.
func (r *request) holds(id uuid.UUID) bool {
	body, _ := encodeWithoutSecrets(r.body)
	text := strings.ToLower(strings.Join(r.args, " ") + string(body))
	return strings.Contains(strings.ReplaceAll(text, "-", ""), strings.ReplaceAll(id.String(), "-", ""))
}

var errNotGUID = hidden("the answer holds no UUID of a withdrawal", nil)

// missing says which of the two ids is missing.
func (l *LoanResponse) missing() *shapeError {
	if l.ID.IsZero() {
		return l.missingID("id", true)
	}
	return l.missingID("applicationId", l.ApplicationID.IsZero())
}
