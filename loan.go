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
// To find the id of a loan, call [LoansService.ListByCustomer] and pick the loan by its
// ApplicationID.
//
// A list without records is empty. [IsNotFound] reports a missing loan or customer.
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

// Transaction is a transaction of a loan.
type Transaction struct{ Record }

// AdvanceProjection is a withdrawal from a loan.
type AdvanceProjection struct{ Record }

// LoanBalanceResponse is the balance of a loan.
type LoanBalanceResponse struct{ Record }

// DashboardLoanRepaymentResponse is the amount to be repaid of a loan.
type DashboardLoanRepaymentResponse struct{ Record }

// EarlyRepaymentResponse is the cost of repaying a loan early.
type EarlyRepaymentResponse struct{ Record }

// Get returns a loan. A record without the id of the loan or of its application is an error, and
// so is the record of another loan.
//
// Route: GET /api/Loan/get-loan/{loanId}
func (s *LoansService) Get(ctx context.Context, id LoanID) (*LoanResponse, error) {
	r := route("/api/Loan/get-loan/{loanId}", id.String())
	r.proof.fits = func(result any) *shapeError {
		if result.(*LoanResponse).ID == id {
			return nil
		}
		return &shapeError{Path: "id", Want: "the id that was asked for", Got: "another"}
	}
	return get[*LoanResponse](ctx, s.client, r)
}

// ListByCustomer returns the loans of a customer. The record with the ApplicationID of your
// application has the id of its loan. A record without these two ids is an error.
//
// Route: GET /api/Loan/get-customer-loans/{customerId}
func (s *LoansService) ListByCustomer(ctx context.Context, id CustomerID) ([]LoanResponse, error) {
	return get[[]LoanResponse](ctx, s.client, route("/api/Loan/get-customer-loans/{customerId}", id.String()))
}

// Transactions returns transactions of a loan, at most 200 at a time.
//
// Route: GET /api/Loan/get-transactions/{loanId}
func (s *LoansService) Transactions(ctx context.Context, id LoanID, opts *ListOptions) ([]Transaction, error) {
	return get[[]Transaction](ctx, s.client, route("/api/Loan/get-transactions/{loanId}", id.String()).
		page(opts.paged(), maxTake))
}

// AllTransactions yields all transactions of a loan. It calls [LoansService.Transactions] until
// a page is empty, ctx ends or the caller breaks the loop. [LoansService.AllTransactionsPaged]
// saves the last call and can begin with the last transaction.
//
// opts may be nil. The iterator begins at Skip and asks for Take records a page, at most and by
// default 200. If a call fails, the iterator ends with a [*PageError], which says where a new
// iterator can resume. Each range over the iterator begins at Skip again. A record keeps its
// page in memory; a [Record.Clone] does not.
func (s *LoansService) AllTransactions(ctx context.Context, id LoanID, opts *ListOptions) iter.Seq2[Transaction, error] {
	return walk(ctx, opts.paged(), func(ctx context.Context, part *PagedOptions) page[Transaction] {
		return pageOfList(s.Transactions(ctx, id, part.list()))
	})
}

// TransactionsPaged returns transactions of a loan, at most 200 at a time, and their total: the
// interface's PagedListTransactionResponse.
//
// Route: GET /api/Loan/get-transactions-paged/{loanId}
func (s *LoansService) TransactionsPaged(ctx context.Context, id LoanID, opts *PagedOptions) (*Page[Transaction], error) {
	return get[*Page[Transaction]](ctx, s.client, route("/api/Loan/get-transactions-paged/{loanId}", id.String()).
		page(opts, maxTake))
}

// AllTransactionsPaged yields all transactions of a loan. It calls
// [LoansService.TransactionsPaged] until the service's total is reached or a page is empty.
// Options and errors are those of [LoansService.AllTransactions].
func (s *LoansService) AllTransactionsPaged(ctx context.Context, id LoanID, opts *PagedOptions) iter.Seq2[Transaction, error] {
	return walk(ctx, opts, func(ctx context.Context, part *PagedOptions) page[Transaction] {
		return pageOfTotal(s.TransactionsPaged(ctx, id, part))
	})
}

// Withdrawals returns withdrawals from a loan, at most 200 at a time, and their total: the
// interface's PagedListAdvanceProjectionResponse.
//
// Route: GET /api/Loan/get-withdrawals/{loanId}
func (s *LoansService) Withdrawals(ctx context.Context, id LoanID, opts *PagedOptions) (*Page[AdvanceProjection], error) {
	return get[*Page[AdvanceProjection]](ctx, s.client, route("/api/Loan/get-withdrawals/{loanId}", id.String()).
		page(opts, maxTake))
}

// AllWithdrawals yields all withdrawals from a loan. It calls [LoansService.Withdrawals], and
// otherwise works as [LoansService.AllTransactionsPaged].
func (s *LoansService) AllWithdrawals(ctx context.Context, id LoanID, opts *PagedOptions) iter.Seq2[AdvanceProjection, error] {
	return walk(ctx, opts, func(ctx context.Context, part *PagedOptions) page[AdvanceProjection] {
		return pageOfTotal(s.Withdrawals(ctx, id, part))
	})
}

// ContractDocuments returns the contract documents of a loan.
//
// Route: GET /api/Loan/get-contract-documents/{loanId}
func (s *LoansService) ContractDocuments(ctx context.Context, id LoanID) ([]ContractDocumentResponse, error) {
	return get[[]ContractDocumentResponse](ctx, s.client, route("/api/Loan/get-contract-documents/{loanId}", id.String()))
}

// TotalBalance returns the balance of a loan.
//
// Route: GET /api/Loan/get-total-balance/{loanId}
func (s *LoansService) TotalBalance(ctx context.Context, id LoanID) (*LoanBalanceResponse, error) {
	return get[*LoanBalanceResponse](ctx, s.client, route("/api/Loan/get-total-balance/{loanId}", id.String()))
}

// RepaymentBalances returns the amount to be repaid of a loan.
//
// Route: GET /api/Loan/get-repayment-balances/{loanId}
func (s *LoansService) RepaymentBalances(ctx context.Context, id LoanID) (*DashboardLoanRepaymentResponse, error) {
	return get[*DashboardLoanRepaymentResponse](ctx, s.client,
		route("/api/Loan/get-repayment-balances/{loanId}", id.String()))
}

// IsEnabled reports whether the loan is enabled.
//
// Route: GET /api/Loan/is-loan-enabled/{loanId}
func (s *LoansService) IsEnabled(ctx context.Context, id LoanID) (bool, error) {
	return get[bool](ctx, s.client, route("/api/Loan/is-loan-enabled/{loanId}", id.String()))
}

// IsClosed reports whether the loan is closed.
//
// Route: GET /api/Loan/is-loan-closed/{loanId}
func (s *LoansService) IsClosed(ctx context.Context, id LoanID) (bool, error) {
	return get[bool](ctx, s.client, route("/api/Loan/is-loan-closed/{loanId}", id.String()))
}

// EarlyRepayment returns the cost of repaying a loan early. The route needs no token, and the
// client sends none: everybody who knows the loan's id can read the cost.
//
// Route: GET /api/Loan/get-early-repayment/{loanId}
func (s *LoansService) EarlyRepayment(ctx context.Context, id LoanID) (*EarlyRepaymentResponse, error) {
	r := route("/api/Loan/get-early-repayment/{loanId}", id.String())
	r.anonymous = true
	return get[*EarlyRepaymentResponse](ctx, s.client, r)
}

// InvoiceWithdrawalRequest begins a withdrawal from an invoice loan. Further fields belong in
// the calculation's Extra.
type InvoiceWithdrawalRequest struct {
	Calculation CalculationRequest `json:"calculation"` // as last given to [CalculationService.Invoice]; needs an amount
}

func (r InvoiceWithdrawalRequest) check(c *checks) {
	c.that(r.Calculation.Amount != "", "calculation.amount", CodeRequired, "must not be empty")
	c.prefix = "calculation."
	r.Calculation.check(c)
	c.prefix = ""
}

// InvoiceWithdrawalResponse is the response to the beginning of a withdrawal. An unpublished
// field holds the advance rate.
type InvoiceWithdrawalResponse struct{ Record }

// InvoiceWithdrawal is a withdrawal that waits for its one-time password. It names the loan and
// the amount, so that [LoansService.ConfirmInvoiceWithdrawal] confirms no others. It can be
// stored as JSON, because the password comes minutes later, perhaps to another process. The name
// of AdvanceRate in the Response is assumed: see [WithdrawInvoiceRequestData].
type InvoiceWithdrawal struct {
	LoanID      LoanID                    `json:"loanId"`
	Amount      json.Number               `json:"amount,omitzero"`      // as requested
	AdvanceRate json.Number               `json:"advanceRate,omitzero"` // from Response
	Response    InvoiceWithdrawalResponse `json:"response"`
}

// WithdrawInvoiceRequestData confirms a withdrawal, together with the [InvoiceWithdrawal].
//
// The client sends a flat record, of which the interface names only the field dateUTC. Four
// names are assumed, the only ones in this package:
//
//   - amount, in the confirmation: from the InvoiceWithdrawal
//   - advanceRate, in the confirmation: from the InvoiceWithdrawal
//   - otp, in the confirmation: from OTP
//   - advanceRate, in the response to [LoansService.WithdrawInvoice]
//
// If the service names the first three differently, send them in Extra too, with the values
// revealed. If the service names the last differently, set AdvanceRate of the InvoiceWithdrawal
// from its Response.
type WithdrawInvoiceRequestData struct {
	DateUTC time.Time // required; the date asked for, sent in UTC and whole milliseconds
	OTP     Secret    // required; the one-time password as received
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
	c.secret(!r.OTP.IsZero(), "otp")
	c.number("amount", r.Amount)
	c.number("advanceRate", r.AdvanceRate)
}

// GuidApiResponse is the response to a confirmed withdrawal.
//
//nolint:revive,staticcheck // the interface spells it so
type GuidApiResponse struct{ Record }

// LineOfCreditWithdrawalRequest begins a withdrawal from a line of credit, in unpublished
// fields: see [LoansService.WithdrawLineOfCredit].
type LineOfCreditWithdrawalRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// LineOfCreditWithdrawalResponse is a withdrawal from a line of credit, begun and not confirmed.
type LineOfCreditWithdrawalResponse struct{ Record }

// WithdrawLineOfCredit begins a withdrawal from a line of credit: the service sends a one-time
// password, and no money moves. The interface has no route to confirm the withdrawal.
//
// After an unknown outcome read [LoansService.Withdrawals]; a second call may send another
// one-time password.
//
// Route: POST /api/Loan/make-withdrawal-line-of-credit/{loanId}
func (s *LoansService) WithdrawLineOfCredit(ctx context.Context, id LoanID, withdrawal LineOfCreditWithdrawalRequest) (*LineOfCreditWithdrawalResponse, error) {
	return post[*LineOfCreditWithdrawalResponse](ctx, s.client,
		route("/api/Loan/make-withdrawal-line-of-credit/{loanId}", id.String()).
			with(withdrawal).checkedBy("Loans.Withdrawals"))
}

// WithdrawInvoice begins a withdrawal from an invoice loan: the service sends a one-time
// password. Money moves when [LoansService.ConfirmInvoiceWithdrawal] gets the password and the
// value that WithdrawInvoice returns.
//
// Give it the calculation last given to [CalculationService.Invoice] for the loan's application:
// the service compares the amount with the stored calculation and with the available balance. If
// they do not fit, or if the loan is disabled or closed, the outcome is [OutcomeRejected], for good.
// After an unknown outcome read [LoansService.Withdrawals]; a second call may send another
// one-time password.
//
// Route: POST /api/Loan/make-withdrawal-invoice/{loanId}
func (s *LoansService) WithdrawInvoice(ctx context.Context, id LoanID, withdrawal InvoiceWithdrawalRequest) (*InvoiceWithdrawal, error) {
	r := route("/api/Loan/make-withdrawal-invoice/{loanId}", id.String()).checkedBy("Loans.Withdrawals")
	r.body, r.also = map[string]any{"calculation": withdrawal.Calculation}, withdrawal
	response, err := post[*InvoiceWithdrawalResponse](ctx, s.client, r)
	if err != nil {
		return nil, err
	}
	var assumed struct {
		AdvanceRate json.Number `json:"advanceRate"`
	}
	_ = response.Decode(&assumed) // the withdrawal has begun, whatever the field is called
	return &InvoiceWithdrawal{id, withdrawal.Calculation.Amount, assumed.AdvanceRate, *response}, nil
}

// ResendWithdrawalOTP has the service send the one-time password of a withdrawal again. The
// returned UUID is not the password; its meaning is not published.
//
// After an unknown outcome no read shows whether the password was sent: a second call may send
// another. With an idempotency key the call succeeds with a zero UUID if the mutation happened and
// its response is lost.
//
// Route: POST /api/Loan/resend-withdrawal-otp/{loanId}
func (s *LoansService) ResendWithdrawalOTP(ctx context.Context, id LoanID) (uuid.UUID, error) {
	return post[uuid.UUID](ctx, s.client, route("/api/Loan/resend-withdrawal-otp/{loanId}", id.String()))
}

// ConfirmInvoiceWithdrawal completes a withdrawal of [LoansService.WithdrawInvoice] with the
// one-time password: money moves.
//
// The response must be a UUID, or an object with a UUID in id, guid, data or result. A UUID from
// the request does not count. The error has [OutcomeUnknown] if the UUID is missing, if success
// is not true, if error is not empty, or if the word in status, state or code does not mean a
// success, for example "status":"Rejected". Then read [LoansService.Withdrawals] and
// [LoansService.TotalBalance] before anything else. No other member of the object counts.
//
// With [OutcomeRejected] no money has moved: the password is wrong, expired or replaced by a later
// one, or the balance is too low by now. [LoansService.ResendWithdrawalOTP] sends another
// password, for the same key and request.
//
// With an idempotency key the call succeeds as soon as a read shows the withdrawal. If the
// response is lost, the returned record is empty, because no read shows its UUID.
//
// Route: POST /api/Loan/confirm-withdrawal-invoice/{loanId}
func (s *LoansService) ConfirmInvoiceWithdrawal(ctx context.Context, withdrawal InvoiceWithdrawal, data WithdrawInvoiceRequestData) (*GuidApiResponse, error) {
	at := data.DateUTC.UTC()
	sent := confirmation{withdrawal.Amount, withdrawal.AdvanceRate, at.Truncate(time.Millisecond), data.OTP, data.Extra} // a database can keep less than nanoseconds
	r := route("/api/Loan/confirm-withdrawal-invoice/{loanId}", withdrawal.LoanID.String()).
		with(sent).
		checkedBy("Loans.Withdrawals, Loans.TotalBalance")
	former := sent
	former.DateUTC = at
	r.former = former
	r.proof.accepts = func(a *answer) error { return confirms(a, &r) }
	answer, err := post[*Record](ctx, s.client, r)
	if err != nil {
		return nil, err
	}
	return &GuidApiResponse{*answer}, nil
}

// confirms returns why a does not confirm the withdrawal of r. The interface publishes only the name
// of GuidApiResponse.
func confirms(a *answer, r *request) error {
	body := a.content().body
	switch failure := a.reportsFailure(); {
	case failure != nil:
		return failure
	case len(body) == 0 || string(body) == "null":
		return ErrNoContent
	case !a.content().valid:
		return errNotGUID
	}
	ok, contradiction := verdict.Confirms(body, r.holds)
	switch {
	case contradiction != "":
		return reported(redact.Name(contradiction))
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

func (l *LoanResponse) missing() *shapeError {
	if l.ID.IsZero() {
		return l.missingID("id", true)
	}
	return l.missingID("applicationId", l.ApplicationID.IsZero())
}
