// Package lendingtest is the business-lending service in process: all of its
// routes, stateful, and faulty on demand. It is for examples, demos and the
// tests of programs that use the service.
//
//	s := lendingtest.NewServer()
//	defer s.Close()
//	// call s.URL as lendingtest.Username, with lendingtest.Password
//
// It is a second implementation, written from the interface's description and
// not from the client: it shares no record with package lending.
//
// # Forms
//
// [NewServer] listens on loopback, [WithTLS] and [WithHTTP2] if wanted. [New]
// opens no socket: serve its [Service.Handler] wherever you like, or give
// [Service.Transport] to an http.Client, also within testing/synctest. Nothing
// needs a testing.TB, nothing runs after Close, and services do not share state.
//
// # Signing in
//
// [Username] has two-factor sign-in: after the login, [Service.TwoFactorCode]
// tells the code that was "sent". A login with [TrustedDeviceToken] needs none.
// [AdministratorUsername] has no second factor. [Service.Token] skips it all.
// Tokens live an hour by the service's clock, which [Service.Advance] moves.
//
// # Control
//
// [Service.Fail] plans a [Fault] for a route: an answer that lies, gets lost, is cut
// or takes its time, or a mutation that is executed after its caller has gone.
// [WithReadLag] has reads come behind writes. [Service.Answer] replaces a route's
// answer. [Service.Requests] is the request log, and [Service.Executed] tells how
// often a route did its work, so that a test can say "exactly once";
// [Service.ExecutedFor] tells it by customer, application and loan. Seed with
// AddCustomer, AddApplication, AddLoan and their kin, change with the Update
// methods, look with [Service.Snapshot], whose JSON is the whole state: put it back
// with [Restore], there or elsewhere. [Service.SetDecision], [Service.Repay], [Patch] and
// [Service.Play] are for life after the happy path: RECIPES.md has a line for each situation. [Service.Watch] reports requests, sent
// codes and webhook deliveries as they happen. Routes are spelled as the
// interface spells them, method first.
//
// Identifiers, codes and tokens are the same in every run that makes the same
// calls in the same order; [WithSeed] changes them.
//
// # From outside
//
// [Service.Control] lets another process do the same over HTTP, in Go through [Dial],
// in other languages as CONTROL.md in this folder says, with curl to begin with. The
// program examples/sandbox is the service on a port, with the control if asked for.
//
// # Testing your own code
//
// The examples of this package show the usual tests: Consumer runs code against the
// service while its answers get lost, and asks how often it executed; Interface tests
// code that needs one method without any service, with errors made by hand;
// AddSubscription has events delivered to a receiver, each one twice, and
// WithDeliveryClient goes from its registration to the first of them. Package lending
// has one that stubs a single route with httpmock, at WithHTTPClient, and one that
// signs a delivery by hand, at Sign. To try a program in another language, run
// examples/sandbox: the same service on a port.
//
// # Time
//
// In a bubble of testing/synctest time passes as soon as everybody waits for it. This
// read waits for half an hour, as the service asks, and the test takes milliseconds.
// Tokens expire by the same clock, after an hour:
//
//	synctest.Test(t, func(t *testing.T) {
//		service := lendingtest.New()
//		client, err := lending.New("https://lending.example",
//			lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
//			lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
//		if err != nil {
//			t.Fatal(err)
//		}
//
//		const route = "GET /api/Application/application-status/{applicationId}"
//		service.Fail(route, lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 30 * time.Minute})
//		application, err := lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID)
//		if err != nil {
//			t.Fatal(err)
//		}
//		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
//		defer cancel()
//		start := time.Now()
//		_, err = client.Applications.Status(ctx, application)
//		if waited := time.Since(start); err != nil || waited < 30*time.Minute {
//			t.Error(waited, err)
//		}
//	})
//
// # Memory
//
// A service keeps the last 10,000 rows, or 32 MiB, of each of its logs: the requests of
// the request log, with up to 64 KiB of each body and 8 KiB of each answer, what was sent, what was delivered, and
// what its own webhook handler got. All of them together stay below 128 MiB, whatever
// the traffic; ordinary requests fill a tenth of that. Counts go on. Up to 10,000
// deliveries wait for a slow receiver, expired tokens are forgotten once there are that
// many, and of files only size and digest are kept. What grows is the records that
// callers create, by about two kilobytes for a customer with an application. Up to 1,000
// mutations wait to be executed late, with their bodies.
//
// # Where this is only a model
//
// The interface does not show every record, state and rule. What follows was
// made up to have something that works. Do not rely on it: the real service will
// differ. [WithShapes] replaces the made-up names by those of real responses.
//
// Records:
//   - Banking data: {"accounts": [{"accountNumber", "accountName",
//     "routingNumber", "accountType", "balance", "transactions": [{"date",
//     "description", "amount"}]}]}. accountNumber and balance are required;
//     balance and amount are strings that hold a number.
//   - The combined creations take the fields of UserRequest and
//     ApplicationRequest side by side, and an object "applicant".
//   - Company and applicants: any object. Of applicants, "firstName",
//     "lastName" and "email" are shown again.
//   - Message: "message". Line of credit: "amount", not required. Slider: the
//     fields of CalculationRequest.
//   - Confirming a withdrawal: "amount", "advanceRate", "dateUTC", "otp".
//   - Answers: the JSON names of [Application], [Customer], [Offer] with
//     "isExpired", [Applicant], [BankAccount], [Requirement], [Loan],
//     [Transaction], [Withdrawal], [Message].
//
// States and rules:
//   - The statuses are [StatusCreated], [StatusBankingData], [StatusOfferReady],
//     [StatusInApproval], [StatusLoanOpened] and [StatusCancelled], and by a [Decision]
//     [StatusUnderReview] and [StatusDeclined]. A cancelled application
//     takes bank statements and messages, and nothing else.
//   - An offer is the sum of the credits, rounded down to full hundreds, at least
//     5,000.00 and at most 250,000.00. Bank data without transactions makes no
//     offer. Every processing makes a new one.
//     application-offer?force=true renews an expired one.
//   - Approval goes in order: offer, company, primary applicant, secondary
//     applicants, primary bank account, signatures. The last signature opens the
//     loan, enabled and with the offer's amount.
//   - Passwords have eight characters, upper and lower case letters and a digit.
//     Codes live five minutes and stand five tries.
//   - The bulk routes are all or nothing. update-all subscribes to every event.
//   - An account with a partner may use no other: 403 where the target is
//     another's, 400 for an application's partnerId.
//   - 400 for a malformed identifier, 404 for an unknown one, 204 for
//     get-customer-by-email, get-primary-bank-account and get-subscription where
//     there is nothing. A sign-in that fails is a 400.
//   - Optional bodies: without one, banking data and messages change nothing,
//     quick-test judges the stored data, calculations use the offer.
//   - Which event is posted when. Deliveries are never retried.
//
// The values of errorCode and of the fields' codes are the model's, too.
// errorCode: AdvanceRateMismatch, AlreadySigned, AmountMismatch,
// ApplicantNotInApplication, ApplicationCancelled, ApplicationNotFound,
// BankAccountNotFound, CalculationMismatch, CalculationNotFound, Closed,
// CustomerNotFound, EmptyDocument, EventNotSubscribed, FileTooLarge,
// FileTypeMismatch, Forbidden, InjectedFault, InsufficientBalance,
// InsufficientBankingData, InvalidCredentials, InvalidDocument, InvalidOtp,
// InvalidTwoFactorCode, LoanClosed, LoanDisabled, LoanNotFound, LoanOpened,
// NoPendingWithdrawal, NotFound, OfferExpired, OfferNotFound, RequestTooLarge,
// RequirementNotFound, SimulationNotSupported, StepOutOfOrder,
// SubscriptionInactive, SubscriptionNotFound, TargetRequired, TokenExpired,
// TokenInvalid, TokenMissing, TooManyLate, UnknownEvent, UnsupportedMediaType, and
// ValidationFailed where errors says what.
package lendingtest
