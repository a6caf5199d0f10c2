// Package lending is the client of a business-lending HTTP service: customers, applications,
// bank data, offers, contracts, loans and withdrawals. The package is made for backends that
// move money. The client never sends a mutation twice, every error says whether the mutation
// happened, and errors and logs show no secret.
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
// The fields of [Client] are nine services, whose methods are the routes. The last line of each
// method's comment names the route. [LoansService.ListByCustomer] returns the id of a loan.
//
// # Signing in
//
// [WithCredentials] signs in when a call needs a token, and refreshes the token ahead of its
// expiry. If the account has a second factor, the function [Credentials].TwoFactor returns the
// code. Without the function, the call fails with a [*TwoFactorRequiredError], and
// [Session.CompleteTwoFactor] completes the sign-in later. Concurrent calls share one sign-in;
// with [WithTokenStore], so do replicas. [Session] has the rules.
//
// # Errors and outcomes
//
// A call returns an [*ArgumentError] for an invalid request, a [*TwoFactorRequiredError] if a
// person has to sign in, and an [*Error] for everything else. [OutcomeOf] says what happened to
// the mutation:
//
//   - [OutcomeNotSent]: the service never saw the mutation.
//   - [OutcomeRejected]: the service refused the mutation.
//   - [OutcomeDone]: the mutation happened, but its response was lost.
//   - [OutcomeUnknown]: the mutation may have happened.
//
// After the first two, correct the cause and send the mutation again. After the last two, repeat
// the call only with an idempotency key, see below. Without a key, read first: the field
// CheckWith of [Error] names the reads that show the effect. A mutation can still be in flight
// while a read shows nothing. [NextOf] makes these decisions: retry, stop, or tell a person.
//
// [IsNotFound] reports whether a read found nothing. errors.Is finds [ErrMayHaveHappened],
// [ErrUnauthorized], [ErrRateLimited] and the others. Error texts can be logged: they name
// fields and codes, and never a value. The field Problem of [Error] has the service's words.
//
// The client does not trust a 2xx status alone. A response without its published id, or one that
// does not decode, is an error with OutcomeDone. The outcome is OutcomeUnknown if the body
// contradicts the status: an HTML page, the value false where no boolean is expected, or an
// object that reports a failure. Uploads succeed only with the body true.
// [LoansService.ConfirmInvoiceWithdrawal] succeeds only if the body contains a new UUID.
//
// # Retries
//
// The client retries reads, up to four times, after 408, 429, 500, 502, 503, 504 and broken
// connections. [WithReadRetries] changes the number. The delay grows, is random, and is at least
// Retry-After. A retry that could not start before the context's deadline is not attempted. After
// a 401 the client resends a read with a new token: see [Session].
//
// The client never retries a mutation. Neither does net/http, which normally resends a GET when
// its connection breaks: five routes are GETs that change state, and [ApplicationsService.Offer]
// with Force counts as a sixth. Each mutation uses a stream of HTTP/2 or a connection of its own,
// so no late response to another call can be taken for its response.
//
// A call whose context has no deadline gets two minutes.
//
// # Mutations that happen once
//
// If a process dies while a mutation is in flight, there is no error to inspect. Name the
// mutation with an idempotency key, and repeat the call with the same key until it succeeds:
//
//	ctx = lending.WithIdempotencyKey(ctx, "order-42/create-customer")
//	customer, err := client.Applications.CreateCustomer(ctx, request)
//
// The key comes from the caller's business, and the request must be the same each time.
// [WithIdempotency] takes the log of package [github.com/lendingapi/lending-go/idempotency],
// which records the mutation and checks by reads whether it happened. Calls without a key do not
// use the log.
//
// Package [github.com/lendingapi/lending-go/orders] has the loop that repeats the calls.
//
// # Records
//
// The service publishes only some fields of its records. [Record] keeps the whole record:
// [Record.Raw] is its JSON, and [Record.Decode] fills a struct of the caller. [As] decodes in
// the same line as the call, [ListAs] decodes a list, and [AllAs] an iterator:
//
//	balance, err := lending.As[Balance](client.Loans.TotalBalance(context.Background(), id))
//
// Requests take unpublished fields in Extra. Amounts are [encoding/json.Number], which is exact.
// Statuses and event names can have values that this package does not list.
//
// # Lists and documents
//
// [LoansService.AllTransactions] and the other methods that begin with All iterate over a whole
// list, at most 200 records a page. After a failure, the error says where to resume. A list is
// not a snapshot.
//
// The client streams a [Document] and never holds it in memory. The service cannot accept a
// document that is empty, over 15 MiB or cut short: its JSON string stays open.
//
// # Webhooks
//
// [WebhooksService.Ensure] subscribes a receiver and returns the secret of its signatures.
// Package [github.com/lendingapi/lending-go/webhook] verifies deliveries, skips duplicates and
// stores events until they are handled. [Verify] is for receivers of your own.
//
// # Observing
//
// [WithLogger] logs every attempt. [WithObserver] reports every call and every attempt;
// contrib/otel has spans and metrics. [WithHeader] adds headers, for example of a trace.
// [CaptureResponse] keeps the response of a call. [Client.Do] calls a route without a method.
//
// # Testing
//
// Package [github.com/lendingapi/lending-go/lendingtest] is the service in process, with faults
// on demand:
//
//	service := lendingtest.NewServer()
//	defer service.Close()
//	token := lending.StaticToken(service.Token(lendingtest.Username))
//	client, err := lending.New(service.URL, lending.WithTokenSource(token))
//
// In the examples here, demo() makes such a service and its client.
package lending
