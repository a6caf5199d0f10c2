// Package lending is the client of a business-lending HTTP service: customers,
// applications, bank data, offers, contracts, loans and withdrawals.
//
// It is made for programs that move money. Every route is typed, no mutation is ever
// sent twice, every error says whether the mutation happened, and no secret shows in
// an error or a log.
//
//	client, err := lending.New(address, lending.WithCredentials(lending.Credentials{
//		Username:  username,
//		Password:  lending.NewSecret(password),
//		TwoFactor: askForCode,
//	}))
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//
//	status, err := client.Applications.Status(ctx, application)
//	if err != nil {
//		return err
//	}
//	fmt.Println("the application is", status)
//
// The package [github.com/lendingapi/lending-go/lendingtest] holds the whole service in
// process, for examples and tests.
//
// # Signing in
//
// [WithCredentials] signs in when the first token is needed and again when it has
// expired; in between it refreshes the token ahead of time. Where an account needs a
// second factor, [Credentials].TwoFactor is asked for the code that the service has
// sent; without it the call fails with a [*TwoFactorRequiredError], and
// [Session.CompleteTwoFactor] completes the sign-in, perhaps in another process.
// Callers who need a token at the same time share one sign-in, and with
// [WithTokenStore] so do the replicas of a program. [Session] has the rules.
// [WithTokenSource] takes tokens from elsewhere, [StaticToken] among them.
//
// # Errors and outcomes
//
// The service has no idempotency keys. A call that fails returns one of
//
//   - [*ArgumentError]: refused before anything was sent. It lists every field that
//     breaks a rule of the interface;
//   - [*TwoFactorRequiredError]: a person has to sign in;
//   - [*Error]: everything else. It holds status, problem record and outcome.
//
// [OutcomeOf] tells what became of the mutation:
//
//   - [OutcomeNotSent]: the service never saw it. Sending it again is safe;
//   - [OutcomeRejected]: the service refused it;
//   - [OutcomeDone]: it happened, only the answer was lost;
//   - [OutcomeUnknown]: it may have happened. The field CheckWith of [Error] names the
//     reads that show it; do that before sending it again.
//
// errors.Is finds [ErrMayHaveHappened] in the last two, and [ErrOutcomeUnknown] in the
// last, if every wrapping kept it with %w; OutcomeOf takes what it does not know for
// unknown. A read shows that a record is there, not that this call made it, and a mutation
// whose answer is lost may still be under way.
//
// [ErrUnauthorized], [ErrForbidden], [ErrNotFound], [ErrTooLarge], [ErrRateLimited],
// [ErrNoContent] and [ErrSignInRequired] are for errors.Is too, and [IsNotFound] tells
// whether a read has found nothing: by a 404, a 400 or no content, as it comes. The text of every error
// of this package may be logged: it names fields and codes, and quotes no value. What
// the service said is in the field Problem of [Error], and in [Error.Response].
//
// # What a success shows
//
// A status of success is believed if the answer looks like one. Where a record has a
// published id, an answer without it is an error, and the outcome [OutcomeDone]; so is
// one that is none at all where something is due, or does not decode. It is
// [OutcomeUnknown] where the answer contradicts its status: a page of HTML, false where
// no boolean is due, and an object that reports a failure. That is a problem record, or
// success, isSuccess or succeeded that is false, or error or errors with something in
// it. Two kinds of calls are successes by their answer alone, and unknown without it:
// an upload by true, and [LoansService.ConfirmInvoiceWithdrawal] by a UUID, alone or in one
// of a few members, that the request did not hold. Unknown are those of [BulkService] with fewer records than were sent, or with one
// that reports a failure. Where the interface declares no answer, any other will do, and none.
//
// # What is retried
//
// A read is repeated after 408, 429, 500, 502, 503, 504 and after a broken connection,
// up to four times, no sooner than Retry-After says, with a random wait that grows,
// and never beyond the deadline of the context: what would be is given up at once, with
// the service's answer and [context.DeadlineExceeded] in the error. With a token that
// the service refuses it is repeated once with a new one. A success that is a page of
// HTML or does not decode is an error, and is not repeated. net/http repeats a read by
// itself where a kept connection breaks: Attempts counts that, and a read that was sent
// ten times is stopped.
//
// A mutation is sent at most once, whatever happens, and whatever its HTTP method:
// five routes are GETs that change state, and [ApplicationsService.Offer] with Force
// is treated as a sixth. Not by this package, nor by net/http, which by itself repeats
// a GET whose connection breaks. After 401 and 429 the caller is told, and decides: the
// service has refused the mutation, and it may be sent again, with another token or when
// the RetryAfter of [Error] has passed.
//
// Each mutation has a connection of its own: it meets none that is being closed, and what
// a service sends beyond the answer to one call, a second answer for example, is never
// taken for the answer to a mutation. Reads share connections, which are kept for a few
// seconds, and there net/http can take it for the answer to the next read. What comes
// while a connection is idle net/http writes to the standard logger of package log, up
// to 4 KB as they are; log.SetOutput decides where that goes. [WithHTTPClient] says
// what holds there.
//
// A call whose context has no deadline is given two minutes.
//
// # Mutations that happen once
//
// If a process dies while a mutation is in flight, there is no error to inspect. With an
// idempotency key the mutation happens once all the same:
//
//	ctx = lending.WithIdempotencyKey(ctx, "order-42/create-customer")
//	customer, err := client.Applications.CreateCustomer(ctx, request)
//
// The key is the caller's name for this one mutation. Package
// [github.com/lendingapi/lending-go/idempotency] has the log that [WithIdempotency] takes, the
// stores, and the states of a key. The service has no idempotency keys: the key is never sent.
// Nothing changes for calls without a key.
//
// # In your backend
//
// The service remembers no mutation of yours: what a process that ends must not forget,
// the backend keeps.
//
//   - Give each mutation a key that comes from your business, as above, and call again
//     until it is done. The example Backend does.
//   - An absence proves nothing for some minutes: a mutation whose answer was lost can be
//     executed after a read that did not show it. Look again before you send it again.
//   - What was refused with [ErrRateLimited] has not happened: send it again, later.
//   - An event can come before the answer to the call that caused it. Return an error
//     from the receiver's function for a record that you do not know yet: webhook.Work
//     calls it again after some seconds. Without an inbox the service may send it again,
//     and promises nothing.
//   - Run [Session.Keepalive] for an account with a second factor. If nobody calls for
//     longer than a token lives, the next call may need a person.
//   - In a database an [ID] is text, and so is [Record.Raw], which json.Unmarshal reads
//     into the record that it was.
//
// # Records
//
// The service publishes only some fields of most records. Those are typed; beside
// them [Record] keeps the whole record as it was received: [Record.Raw] is the JSON,
// [Record.Decode] decodes it into a struct of the caller's. [As] does so in one line with
// the call, [ListAs] with a list and [AllAs] with an iterator:
//
//	balance, err := lending.As[Balance](client.Loans.TotalBalance(ctx, id))
//
// What does not decode is a [*DecodeError], which names record, field and types; after a
// mutation its outcome is [OutcomeDone]. [Time] reads the service's times. A request record takes
// further fields in Extra: anything that marshals to a JSON object whose names do not
// clash with the typed ones. Amounts are [encoding/json.Number]: exact, and written
// as an untyped constant. Statuses and event names are open sets, kept as received.
//
// # Documents
//
// A [Document] is read while it is being sent and never held in memory whole. One that
// is empty, larger than 15 MiB, or of another length than its size says never ends as
// an accepted document: the JSON string that carries it is not closed. See
// [ApplicationsService.SubmitBankStatement], [ApprovalService.SubmitRequiredDocument]
// and [ApprovalService.SubmitDocument].
//
// # Lists
//
// [LoansService.AllTransactions] and the other methods that begin with All are
// iterators over whole lists. They fetch page after page, at most 200 records at
// a time, advance by what arrived, and end with an error that says where to resume if
// a page cannot be had. A list is not a snapshot.
//
// # Webhooks
//
// [WebhooksService.Ensure] registers a receiver and returns the secret that signs its
// deliveries. Package [github.com/lendingapi/lending-go/webhook] receives them: it verifies
// signatures, skips duplicates, and stores events until they are handled. Receivers of your
// own call [Verify].
//
// # Looking closer
//
// [CaptureResponse] keeps status, header and body of one call. [WithLogger] and
// [WithObserver] tell about every attempt, [WithCallObserver] about every call.
// contrib/otel makes spans and metrics of both. [WithMaxConns] bounds the connections.
// [WithHTTPClient] sends through a client of the caller's. [Client.Do] calls a route that this package has no method for. Routes
// that answer without a record discard what the service sends all the same, of which
// CaptureResponse tells.
//
// # Testing
//
// The package lendingtest serves every route from memory over real HTTP:
//
//	service := lendingtest.NewServer()
//	defer service.Close()
//	token := lending.StaticToken(service.Token(lendingtest.Username))
//	client, err := lending.New(service.URL, lending.WithTokenSource(token))
//
// It keeps state, refuses what the interface says is refused, misbehaves on demand
// (resets, cut answers, 5xx before or after the command was executed) and counts what
// it executed. Where the examples here call demo(), that makes such a service and a
// client of it, as the example of the package does.
//
// # What the interface does not say
//
// The token's lifetime, the fields of most records, the values of statuses and error
// codes, which event each operation emits, what makes a bulk creation fail as a whole,
// who may call what and how often. Some routes are mentioned and not shown: see
// [Client.Do]. This package does not guess: it keeps what it receives. Names that had
// to be assumed stand at [WithdrawInvoiceRequestData].
//
// # Services and routes
//
// [ApplicationsService], 20 routes below /api/Application:
//
//   - [ApplicationsService.CreateWithCustomer]: POST create-customer-and-application (deprecated)
//   - [ApplicationsService.SendLink]: POST send-application-link
//   - [ApplicationsService.CreateWithCustomerAndApplicant]: POST create-customer-and-application-and-applicant
//   - [ApplicationsService.CreateCustomer]: POST create-customer
//   - [ApplicationsService.Create]: POST create-application
//   - [ApplicationsService.CreateWithApplicant]: POST create-application-and-applicant
//   - [ApplicationsService.QuickTest]: POST quick-test/{applicationId}
//   - [ApplicationsService.AddOrUpdateBankingData]: POST add-or-update-banking-data/{applicationId}
//   - [ApplicationsService.Process]: GET process-application/{applicationId} (changes state)
//   - [ApplicationsService.Status]: GET application-status/{applicationId}
//   - [ApplicationsService.Offer]: GET application-offer/{applicationId}
//   - [ApplicationsService.ListByCustomer]: GET get-customer-applications/{customerId}
//   - [ApplicationsService.ListByPartner]: GET get-partner-applications/{partnerId}
//   - [ApplicationsService.Get]: GET get-application/{applicationId}
//   - [ApplicationsService.UpdateName]: GET update-application-name/{applicationId} (changes state)
//   - [ApplicationsService.UpdateNameAndZipCode]: GET update-application-name-and-zip-code/{applicationId} (changes state)
//   - [ApplicationsService.UpdateCustomerData]: GET update-customer-data/{applicationId} (changes state)
//   - [ApplicationsService.UpdateData]: GET update-application-data/{applicationId} (changes state)
//   - [ApplicationsService.SubmitBankStatement]: POST submit-bankstatement-document/{applicationId}
//   - [ApplicationsService.Cancel]: POST cancel-application/{applicationId}
//
// [ApprovalService], 13 routes below /api/ApplicationApproval:
//
//   - [ApprovalService.AddCompanyDetails]: POST add-company-details/{applicationId}
//   - [ApprovalService.AddPrimaryApplicantDetails]: POST add-primary-applicant-details/{applicationId}
//   - [ApprovalService.AddSecondaryApplicantDetails]: POST add-secondary-applicant-details/{applicationId}
//   - [ApprovalService.Contracts]: GET get-contracts/{applicationId}
//   - [ApprovalService.ContractDetails]: GET get-contract-details/{applicationId}
//   - [ApprovalService.Applicants]: GET get-all-applicants/{applicationId}
//   - [ApprovalService.BankAccounts]: GET get-all-bank-accounts/{applicationId}
//   - [ApprovalService.PrimaryBankAccount]: GET get-primary-bank-account/{applicationId}
//   - [ApprovalService.SetPrimaryBankAccount]: POST set-primary-bank-account/{applicationId}/{id}
//   - [ApprovalService.SignContract]: POST sign-contract/{applicationId}/{applicantId}
//   - [ApprovalService.RequiredDocuments]: GET get-required-documents/{applicationId}
//   - [ApprovalService.SubmitRequiredDocument]: POST submit-required-document/{applicationId}
//   - [ApprovalService.SubmitDocument]: POST submit-document/{applicationId}
//
// [BulkService], 2 routes below /api/ApplicationBulk:
//
//   - [BulkService.CreateCustomers]: POST create-customers
//   - [BulkService.CreateApplications]: POST create-applications
//
// [AuthService], 3 routes below /api/Authenication:
//
//   - [AuthService.Login]: POST login (no token)
//   - [AuthService.ValidateTwoFactor]: POST validate-two-factor (no token)
//   - [AuthService.RefreshToken]: POST refresh-token
//
// [CalculationService], 3 routes below /api/Calculation:
//
//   - [CalculationService.LineOfCreditSlider]: POST application-loc-calculation-slider
//   - [CalculationService.LineOfCredit]: POST application-loc-calculation
//   - [CalculationService.Invoice]: POST application-invoice-calculation
//
// [CommunicationService], 2 routes below /api/Communication:
//
//   - [CommunicationService.Messages]: GET get-all-messages/{applicationId}
//   - [CommunicationService.Post]: POST post-messages/{applicationId}
//
// [CustomersService], 2 routes below /api/Customer:
//
//   - [CustomersService.GetByEmail]: GET get-customer-by-email
//   - [CustomersService.GetByID]: GET get-customer-by-id/{customerId}
//
// [LoansService], 15 routes below /api/Loan:
//
//   - [LoansService.Get]: GET get-loan/{loanId}
//   - [LoansService.ListByCustomer]: GET get-customer-loans/{customerId}
//   - [LoansService.Transactions]: GET get-transactions/{loanId}
//   - [LoansService.TransactionsPaged]: GET get-transactions-paged/{loanId}
//   - [LoansService.Withdrawals]: GET get-withdrawals/{loanId}
//   - [LoansService.ContractDocuments]: GET get-contract-documents/{loanId}
//   - [LoansService.TotalBalance]: GET get-total-balance/{loanId}
//   - [LoansService.RepaymentBalances]: GET get-repayment-balances/{loanId}
//   - [LoansService.WithdrawLineOfCredit]: POST make-withdrawal-line-of-credit/{loanId}
//   - [LoansService.WithdrawInvoice]: POST make-withdrawal-invoice/{loanId}
//   - [LoansService.ResendWithdrawalOTP]: POST resend-withdrawal-otp/{loanId}
//   - [LoansService.ConfirmInvoiceWithdrawal]: POST confirm-withdrawal-invoice/{loanId}
//   - [LoansService.IsEnabled]: GET is-loan-enabled/{loanId}
//   - [LoansService.IsClosed]: GET is-loan-closed/{loanId}
//   - [LoansService.EarlyRepayment]: GET get-early-repayment/{loanId} (no token)
//
// [WebhooksService], 9 routes below /api/Webhook:
//
//   - [WebhooksService.Register]: POST register
//   - [WebhooksService.Unregister]: POST unregister
//   - [WebhooksService.UpdateAll]: POST update-all
//   - [WebhooksService.PostToHandler]: POST handler (no token)
//   - [WebhooksService.Simulate]: POST generate-simulated-webhook
//   - [WebhooksService.RegisteredEvents]: GET get-registered-webhooks
//   - [WebhooksService.Subscription]: GET get-subscription
//   - [WebhooksService.AllSubscriptions]: GET get-all-subscriptions
//   - [WebhooksService.UpdateURI]: POST update-webhook-uri
package lending
