// Package lendingtest is the business-lending service in process. It has all routes, keeps its
// state in memory and fails on demand. Use it in tests, examples and demos of programs that call
// the service:
//
//	s := lendingtest.NewServer()
//	defer s.Close()
//	// call s.URL as lendingtest.Username, with lendingtest.Password
//
// The package is a second implementation of the interface and shares no code with the client, so
// an error in the client does not hide in the fake.
//
// # Forms
//
// [NewServer] listens on loopback, with [WithTLS] or [WithHTTP2] if needed. [New] opens no
// socket: serve the [Service], or give [Service.Transport] to an http.Client. In a bubble of
// testing/synctest pauses of half an hour then take milliseconds, and tokens expire by the same
// clock. No function needs a testing.TB, no goroutine runs after Close, and services do not share
// state.
//
// # Signing in
//
// [Username] has a second factor: after the login, [Service.TwoFactorCode] returns the code that
// the service "sent". A login with [TrustedDeviceToken] needs no code. [AdministratorUsername]
// has no second factor. [Service.Token] returns a token without a login. Tokens expire after an
// hour of the service's clock, which [Service.Advance] moves.
//
// # Control
//
//   - [Service.Fail] plans a [Fault] for a route: a wrong, lost, cut or slow response, or a mutation
//     that runs after its caller has gone. [Service.Answer] replaces the response of a route.
//   - [Service.Executed] counts how often a route ran, so a test can check "exactly once".
//     [Service.ExecutedFor] counts by customer, application and loan. [Service.Requests] is the
//     request log.
//   - [Service.AddCustomer], [Service.AddLoan] and similar methods add records, [Service.UpdateLoan]
//     and similar methods change them. [Service.Snapshot] returns all records, also as JSON.
//   - RECIPES.md has a line for each situation after the happy path: declined applications,
//     repayments, late webhooks and more.
//
// A route is written like in the interface, with the method first. Identifiers, codes and tokens
// are the same in every run with the same calls in the same order; [WithSeed] changes them.
//
// # Control from another process
//
// Package control offers the same methods over HTTP, for programs in any language: CONTROL.md
// in this folder describes the requests, with examples for curl. The program cmd/lending-sandbox is
// the service on a port, with the control as an option.
//
// # Testing your own code
//
// The service executes nothing late unless a [Fault] says so. A test with idempotency keys therefore ends in milliseconds
// with idempotency.Options{MaxLateness: time.Millisecond}: see the example KeyedMutation.
//
// [WithService] takes the service.json of lending-probe, so that your tests meet the names, statuses and delays of the
// real service. With [OnlySeen] a response that rests on an assumption fails, and says how to measure it.
//
// The examples of this package show common tests. Two examples of package lending need no fake
// service: WithHTTPClient replaces a route with httpmock, and Sign signs a delivery by hand. To
// test a program in another language, run cmd/lending-sandbox.
//
// # Memory
//
// A service keeps the last 10,000 rows, or 32 MiB, of each of its logs, and all logs together stay
// below 128 MiB. The request log keeps up to 64 KiB of each request body and 8 KiB of each response.
// Counters have no limit. Up to 10,000 deliveries wait for slow receivers, and up to 1,000 mutations
// for their late execution. Of files only the size and digest are kept. Only the records of callers
// grow without a limit: about two kilobytes for a customer with an application.
//
// # Where this is only a model
//
// The interface does not publish every record, state and rule. MODEL.md in this folder lists what
// is invented: the real service will differ there. [WithService] answers as the real service does.
package lendingtest
