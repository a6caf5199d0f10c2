// Package lending is the client of a business-lending HTTP service: customers,
// applications, bank data, offers, contracts, loans and withdrawals.
//
// It is made for programs that move money. Every route is typed, no command is ever
// sent twice, every error says whether the command happened, and no secret shows in
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
// [OutcomeOf] tells what became of the command:
//
//   - [OutcomeNotSent]: the service never saw it. Sending it again is safe;
//   - [OutcomeRejected]: the service refused it;
//   - [OutcomeDone]: it happened, only the answer was lost;
//   - [OutcomeUnknown]: it may have happened. The field CheckWith of [Error] names the
//     reads that show it; do that before sending it again.
//
// errors.Is finds [ErrMayHaveHappened] in the last two, and [ErrOutcomeUnknown] in the
// last, if every wrapping kept it with %w; OutcomeOf takes what it does not know for
// unknown. A read shows that a record is there, not that this call made it, and a command
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
// service has refused the command, and it may be sent again, with another token or when
// the RetryAfter of [Error] has passed.
//
// Each command has a connection of its own: it meets none that is being closed, and what
// a service sends beyond the answer to one call, a second answer for example, is never
// taken for the answer to a command. Reads share connections, which are kept for a few
// seconds, and there net/http can take it for the answer to the next read. What comes
// while a connection is idle net/http writes to the standard logger of package log, up
// to 4 KB as they are; log.SetOutput decides where that goes. [WithHTTPClient] says
// what holds there.
//
// A call whose context has no deadline is given two minutes.
//
// # A command that is done once
//
// A process that dies in the middle of a command leaves no error, and so nobody who knows
// what became of it. With a [Journal] and a key of the caller's it is done once all the same:
//
//	ctx = lending.WithIdempotencyKey(ctx, "order-42/create-customer")
//	customer, err := client.Applications.CreateCustomer(ctx, request)
//
// The method is the same. The command is written down before its first byte is sent, and its
// outcome and answer after. From then on the same call with the same key, from whichever
// process shares the [JournalStore], does what the state of the command asks for:
//
//	free       it never left, was refused, or a read has shown that it is not there:
//	           what is there is read, "sent" is written down, it is sent. What was refused
//	           and can never have left otherwise may be another request now
//	sent       within the time that its call has, two minutes at most, an hour for an
//	           upload without a deadline: [ErrInProgress], and when to call again. Later
//	           its process must be dead: it is settled
//	unknown    its call lost the answer: it is settled
//	undecided  no read tells: [ErrUndecided], until [Journal.Resolve], [MayRepeat] or [SettleWith]
//	done       nothing is sent: the recorded answer is returned, decoded as it was then
//	forgotten  nothing is sent: it has happened, and its answer is lost, too large, or
//	           older than [JournalOptions] keep it: [ErrAnswerLost], [OutcomeDone]
//
// To settle is to read once more what was read before the command was sent. What has come
// since is the command, which is done then: its answer is rebuilt from the read where it can
// be. What has not come may still come: [ErrUnsettled], until the command has been gone for
// [JournalOptions].Quiet; then it is sent again, or where its absence proves little, as of a
// processing, undecided. Set values are sent again at once; one that is refused then stays
// unknown, since the first may have happened. Commands that would hide each other's effect, two
// creations for one customer or two withdrawals of one loan, are refused with [ErrScopeHeld]
// while one is unsettled. What is read for which route stands in one table, in journal_settle.go.
//
// A command costs two durable writes, and one more, which takes the scope, if it has one and
// is looked for. A replay costs none.
//
// What can go wrong, and what holds it:
//
//   - A crash before or during the send, or before the outcome is written down: it says
//     "sent", and is settled. What no read shows is undecided then, although it may never have left.
//   - A crash after the outcome was written down: it is replayed.
//   - Two callers with one key, also in different processes: each step is a compare-and-swap
//     in the store, and one of them has it. The other gets ErrInProgress.
//   - A process that was frozen and wakes up: the deadline of its call ends the send, and
//     until then nobody else is at the command. What it still hears counts more than what others
//     have read meanwhile, unless they have found the command done.
//   - A command that is executed late: no absence counts before Quiet is over. A value that
//     was set twice keeps newer ones waiting for as long.
//   - Another actor at the same list, without this journal: one more record than before is
//     taken for ours, so that nothing is sent twice; two more are undecided.
//   - A store that fails before the command is sent: nothing is sent. After the answer: it
//     is tried for ten seconds, then the error is [ErrJournal] and its outcome done, and the
//     next call settles it.
//   - A key that is used for another request: an [*ArgumentError]. What tells requests apart
//     are route, parameters and body but for what is a [Secret], in Extra too: what can be
//     guessed, or is another one in the next try, must be one; of a [Document] name, size and what
//     it holds, if that can be read twice. A time.Now() in a request makes another of it.
//   - Clocks: ages are the store's, leases are durations.
//
// What it cannot promise: a command that is executed later than Quiet after its call has
// ended, or whose process or machine stands still for longer than that between the last look
// at its deadline and the write to its socket, is done twice if nothing showed it. So is one
// whose entry the store has lost: the doc of each store says what it takes. A read that does not
// show for longer than Quiet what was written is believed; how long that takes is not published.
// Commands of [Client.Do], and batches for several customers, share no scope with others.
//
// Nothing changes for calls without a key. [Journal.Unsettled] lists what is in doubt, and
// [Journal.Sweep] forgets old answers, which can hold personal data; [NewEncryptedJournalStore]
// keeps them from those who can read the store.
//
// # In your backend
//
// The service remembers no command of yours: what a process that ends must not forget,
// the backend keeps.
//
//   - Give each command a key that comes from your business, as above, and call again
//     until it is done. The example Backend does.
//   - An absence proves nothing for some minutes: a command whose answer was lost can be
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
// command its outcome is [OutcomeDone]. [Time] reads the service's times. A request record takes
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
