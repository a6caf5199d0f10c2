// Package lending is the client of a business-lending HTTP service: customers,
// applications, bank data, offers, contracts, loans and withdrawals.
//
// It is made for programs that move money. Every route is typed, no command is ever
// sent twice, every error says whether the command happened, and no secret shows in
// an error or a log.
//
//	client, err := lending.New("https://lending.example", lending.WithCredentials(lending.Credentials{
//		Username:  username,
//		Password:  lending.NewSecret(password),
//		TwoFactor: askForCode,
//	}))
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	status, err := client.Applications.Status(ctx, application)
//
// The package lendingtest holds the whole service in process, for examples and tests.
//
// # Signing in
//
// [WithCredentials] signs in when the first token is needed and again when it has
// expired. Where an account needs a second factor, [Credentials].TwoFactor is asked
// for the code that the service has sent; without it the call fails with a
// [*TwoFactorRequiredError]. Callers who need a token at the same time share one
// sign-in. [WithTokenSource] takes tokens from elsewhere, [StaticToken] among them.
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
//   - [OutcomeUnknown]: it may have happened. [Error.SettledBy] names the read that
//     shows it; do that before sending it again.
//
// The sentinels [ErrUnauthorized], [ErrForbidden], [ErrNotFound], [ErrTooLarge],
// [ErrRateLimited], [ErrNoContent] and [ErrOutcomeUnknown] are for errors.Is. The text
// of every error of this package may be logged: it names fields and codes, and quotes
// no value. What the service said is in [Error.Problem] and [Error.Response].
//
// # What is retried
//
// A read is repeated after 408, 429, 500, 502, 503, 504 and after a broken connection,
// up to four times, no sooner than Retry-After says, with a random wait that grows,
// and never beyond the deadline of the context. With a token that the service refuses
// it is repeated once with a new one.
//
// A mutation is sent at most once, whatever happens, and whatever its HTTP method:
// five routes are GETs that change state, and [ApplicationsService.Offer] with Force
// is treated as a sixth. Not by this package, nor by net/http, which by itself repeats
// a GET whose connection breaks. After 401 and 429 the caller is told, and decides.
//
// A call whose context has no deadline is given two minutes.
//
// # Records
//
// The service publishes only some fields of most records. Those are typed; beside
// them [Record] keeps the whole record as it was received: [Record.Raw] is the JSON,
// [Record.Decode] decodes it into a struct of the caller's. A request record takes
// further fields in Extra: anything that marshals to a JSON object whose names do not
// clash with the typed ones. Amounts are [encoding/json.Number]: exact, and written
// as an untyped constant. Statuses and event names are open sets, kept as received.
//
// # Testing
//
// The package lendingtest serves every route from memory over real HTTP:
//
//	service := lendingtest.NewServer()
//	defer service.Close()
//	client, err := lending.New(service.URL, lending.WithCredentials(…))
//
// It keeps state, refuses what the interface says is refused, misbehaves on demand
// (resets, cut answers, 5xx before or after the command was executed) and counts what
// it executed.
//
// # What the interface does not say
//
// The token's lifetime, the fields of most records, the values of statuses and error
// codes, which event each operation emits, and what makes a bulk creation fail as a
// whole. This package does not guess: it keeps what it receives.
package lending
