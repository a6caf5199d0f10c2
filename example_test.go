package lending_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jarcoal/httpmock"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// must returns the value of a call that has to succeed.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// demo returns the whole service in process, without a socket, and a client of it
// that is signed in. There is nothing to close.
func demo(opts ...lending.Option) (*lendingtest.Service, *lending.Client) {
	service := lendingtest.New()
	client, err := lending.New("https://lending.example", append(opts,
		lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
		lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))...)
	if err != nil {
		panic(err)
	}
	return service, client
}

// ada is a customer as the service wants it.
func ada() lending.UserRequest {
	return lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
		Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "(415) 555-0100",
	}
}

// The first call signs in, with the code that the service has sent.
func Example() {
	service := lendingtest.NewServer() // in the place of https://lending.example
	defer service.Close()

	client, err := lending.New(service.URL, lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			return service.TwoFactorCode(lendingtest.Username), nil // a person reads it from a phone
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	customer, err := client.Applications.CreateCustomer(context.Background(), ada())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("created customer", customer.ID)
	// Output: created customer 00000001-0001-4000-8000-000000000001
}

// The connection breaks after the service has created the customer. Calling again could create a
// second customer: the program reads first.
func ExampleOutcomeOf() {
	service, client := demo()
	service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true})

	ctx := context.Background()
	_, err := client.Applications.CreateCustomer(ctx, ada())
	switch lending.OutcomeOf(err) {
	case lending.OutcomeNotSent:
		fmt.Println("not sent: it is safe to call again")
	case lending.OutcomeRejected:
		fmt.Println("rejected: correct the request first")
	case lending.OutcomeDone:
		fmt.Println("created, although the response was lost")
	case lending.OutcomeUnknown:
		fmt.Println(err)
		_, err = client.Customers.GetByEmail(ctx, "ada@example.com")
		fmt.Println("it happened:", err == nil)
	}
	// Output:
	// lending: POST /api/Application/create-customer: connection reset: outcome unknown, check with Customers.GetByEmail
	// it happened: true
}

// A problem record explains why the service rejected a request.
func ExampleError() {
	_, client := demo()
	customer := ada()
	customer.Password = lending.NewSecret("short") // the rules for passwords are the service's own
	_, err := client.Applications.CreateCustomer(context.Background(), customer)

	var failed *lending.Error
	if errors.As(err, &failed) && failed.Problem != nil {
		fmt.Println(failed.StatusCode, failed.Outcome, failed.Problem.ErrorCode)
		for _, field := range failed.Problem.Errors {
			fmt.Println(field.Field, field.Code)
		}
		fmt.Println("trace for the support:", failed.Problem.TraceID != "")
	}
	// Output:
	// 400 rejected ValidationFailed
	// password PasswordRules
	// trace for the support: true
}

// A gateway in front of the service responds with a page of its own. The error does not quote the
// page; Response returns it.
func ExampleError_Response() {
	service, client := demo()
	application := must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))
	service.Fail("POST /api/Application/cancel-application/{applicationId}", lendingtest.Fault{
		Status: http.StatusBadGateway, ContentType: "text/html", Body: []byte("<h1>Back in a minute</h1>"),
	})

	err := client.Applications.Cancel(context.Background(), application)
	fmt.Println(err)
	if failed, ok := errors.AsType[*lending.Error](err); ok {
		fmt.Printf("%s\n", failed.Response().Body)
	}
	// Output:
	// lending: POST /api/Application/cancel-application/{applicationId}: 502 Bad Gateway: the answer is HTML, not JSON: outcome unknown, check with Applications.Status
	// <h1>Back in a minute</h1>
}

// A test of your own code makes the error of a call. The zero Outcome is the careful one, unknown.
func ExampleError_made() {
	refused := &lending.Error{StatusCode: http.StatusTooManyRequests, Outcome: lending.OutcomeRejected}
	lost := fmt.Errorf("create customer: %w", &lending.Error{Method: "POST", Route: "/api/Application/create-customer"})

	fmt.Println(errors.Is(refused, lending.ErrRateLimited), errors.Is(refused, lending.ErrOutcomeUnknown))
	fmt.Println(lending.OutcomeOf(refused))
	fmt.Println(errors.Is(lost, lending.ErrOutcomeUnknown), lending.OutcomeOf(lost))
	// Output:
	// true false
	// rejected
	// true unknown
}

// An error lists all rules of the interface that a request breaks. Nothing is sent.
func ExampleArgumentError() {
	_, client := demo()
	_, err := client.Applications.CreateCustomer(context.Background(), lending.UserRequest{
		FirstName: "Ada", Email: "nowhere", Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "555",
	})

	if refused, ok := errors.AsType[*lending.ArgumentError](err); ok {
		for _, field := range refused.Fields {
			fmt.Println(field.Field, field.Message)
		}
	}
	fmt.Println(lending.OutcomeOf(err))
	// Output:
	// email must be an e-mail address
	// mobileNumber must hold exactly ten digits beside punctuation
	// not sent
}

// Extra sends unpublished fields. It cannot replace a typed field.
func ExampleUserRequest_extra() {
	service, client := demo()
	customer := ada()
	customer.Extra = map[string]string{"preferredLanguage": "en"}
	_, err := client.Applications.CreateCustomer(context.Background(), customer)
	fmt.Println(err)

	var sent map[string]any
	_ = json.Unmarshal(service.Requests()[0].Body, &sent)
	fmt.Println(sent["firstName"], sent["preferredLanguage"])

	customer.Extra = map[string]string{"firstName": "Grace"}
	_, err = client.Applications.CreateCustomer(context.Background(), customer)
	fmt.Println(err)
	// Output:
	// <nil>
	// Ada en
	// lending: POST /api/Application/create-customer: not sent: Extra.firstName stands in a field of its own
}

// The status, the header and the body of a response, for a call that needs them.
func ExampleCaptureResponse() {
	service, client := demo()
	application := must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))

	var response lending.Response
	status, err := client.Applications.Status(lending.CaptureResponse(context.Background(), &response), application)
	fmt.Println(status, err)
	fmt.Println(response.StatusCode, response.Header.Get("Content-Type"), string(response.Body))
	fmt.Println(response) // it can hold secrets, so it does not print them
	// Output:
	// Application Created <nil>
	// 200 application/json; charset=utf-8 "Application Created"
	// 200 OK, 21 bytes
}

// Do calls a route without a method, with the same rules as the other routes.
func ExampleClient_Do() {
	service, client := demo()
	loan := service.AddLoan(lendingtest.Loan{})

	record, err := client.Do(context.Background(), lending.RawRequest{
		Effect: lending.Read, // without it the call counts as a mutation, and is never repeated
		Method: http.MethodGet,
		Path:   "/api/Loan/is-loan-enabled/{loanId}",
		Args:   []string{loan.ID},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", record.Raw())
	// Output: true
}

// Metrics of calls and of attempts: a read that fails at first, a mutation whose response is lost, and a
// mutation with a wrong argument, which is not sent.
func ExampleWithObserver() {
	type end = func(lending.Call)
	service, client := demo(lending.WithObserver(
		func(ctx context.Context, _ lending.Call) (context.Context, end) {
			return ctx, func(c lending.Call) { // c.Duration says how long it took
				fmt.Println("call", c.Route, c.Effect, "attempts", c.Attempts, "outcome", c.Outcome)
			}
		},
		func(ctx context.Context, _ lending.Call) (context.Context, end) {
			return ctx, func(a lending.Call) {
				fmt.Println("attempt", a.Attempts, a.Route, "status", a.StatusCode, cmp.Or(a.Protocol, "none"))
			}
		}))
	const loanClosed, process = "GET /api/Loan/is-loan-closed/{loanId}",
		"GET /api/Application/process-application/{applicationId}"
	loan, application := service.AddLoan(lendingtest.Loan{}), service.AddApplication(lendingtest.Application{})
	service.Fail(loanClosed, lendingtest.Fault{Status: http.StatusServiceUnavailable})
	service.Fail(process, lendingtest.Fault{ResetAfter: true})

	ctx := context.Background()
	_, _ = client.Loans.IsClosed(ctx, must(lending.ParseLoanID(loan.ID)))
	_, _ = client.Applications.Process(ctx, must(lending.ParseApplicationID(application.ID)))
	_, _ = client.Applications.Process(ctx, lending.ApplicationID{})
	// Output:
	// attempt 1 /api/Loan/is-loan-closed/{loanId} status 503 HTTP/1.1
	// attempt 2 /api/Loan/is-loan-closed/{loanId} status 200 HTTP/1.1
	// call /api/Loan/is-loan-closed/{loanId} read attempts 2 outcome done
	// attempt 1 /api/Application/process-application/{applicationId} status 0 none
	// call /api/Application/process-application/{applicationId} mutation attempts 1 outcome unknown
	// call /api/Application/process-application/{applicationId} mutation attempts 0 outcome not sent
}

// A gateway wants the tenant of each call, which travels in its context.
func ExampleWithHeader() {
	type tenant struct{}
	service, client := demo(lending.WithHeader(func(ctx context.Context, header http.Header) {
		if name, ok := ctx.Value(tenant{}).(string); ok {
			header.Set("X-Tenant", name)
		}
	}))
	const route = "GET /api/Loan/is-loan-closed/{loanId}"
	service.Answer(route, func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("the gateway sees", r.Header.Get("X-Tenant"))
		w.WriteHeader(http.StatusNotFound)
	})
	loan := must(lending.ParseLoanID(service.AddLoan(lendingtest.Loan{}).ID))

	ctx := context.Background()
	_, _ = client.Loans.IsClosed(context.WithValue(ctx, tenant{}, "north"), loan)
	_, err := client.Loans.IsClosed(context.WithValue(ctx, tenant{}, "north\r\nAdmin: yes"), loan)
	fmt.Println(err)
	// Output:
	// the gateway sees north
	// lending: GET /api/Loan/is-loan-closed/{loanId}: not sent: WithHeader: X-Tenant must not hold line breaks or control characters
}

// A logger gets a record of every attempt, with the route and without a value. A rejected attempt is
// a warning.
func ExampleWithLogger() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			if attr.Key == "time" || attr.Key == "duration" { // in no run the same
				return slog.Attr{}
			}
			return attr
		},
	}))
	service, client := demo(lending.WithLogger(logger))
	row := service.AddLoan(lendingtest.Loan{})

	ctx := context.Background()
	_, _ = client.Customers.GetByEmail(ctx, "ada@example.com")
	_, _ = client.Loans.WithdrawInvoice(ctx, must(lending.ParseLoanID(row.ID)), lending.InvoiceWithdrawalRequest{
		Calculation: lending.CalculationRequest{Amount: "2500.00", Terms: 6}, // which nobody has stored
	})
	// Output:
	// level=DEBUG msg="lending attempt" method=GET route=/api/Customer/get-customer-by-email effect=read attempt=1 status=204 outcome=done
	// level=WARN msg="lending attempt" method=POST route=/api/Loan/make-withdrawal-invoice/{loanId} effect=mutation attempt=1 status=400 outcome=rejected
}

// An identifier is a UUID of one kind of record, here a customer. In SQL the zero identifier is NULL.
func ExampleID() {
	id, err := lending.ParseCustomerID("3fa85f64-5717-4562-b3fc-2c963f66afa6")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = lending.ParseCustomerID("ada@example.com")
	fmt.Println(err) // does not quote the argument

	text, err := json.Marshal(map[string]lending.CustomerID{"customerId": id})
	fmt.Println(string(text), err)

	stored, err := id.Value() // database/sql calls Value for an argument, and Scan for a column
	fmt.Println(stored, err)
	var loaded lending.CustomerID
	fmt.Println(loaded.Scan(stored), loaded == id, loaded.Scan(nil), loaded.IsZero())
	// Output:
	// lending: customerId must be a UUID
	// {"customerId":"3fa85f64-5717-4562-b3fc-2c963f66afa6"} <nil>
	// 3fa85f64-5717-4562-b3fc-2c963f66afa6 <nil>
	// <nil> true <nil> true
}

// A secret prints as "[redacted]", wherever it is.
func ExampleSecret() {
	credentials := lending.Credentials{Username: "ada", Password: lending.NewSecret("Analytical-Engine-1")}
	fmt.Println(credentials.Password)
	fmt.Printf("%#v\n", credentials.Password)
	asJSON, err := json.Marshal(credentials.Password)
	fmt.Println(string(asJSON), err)
	fmt.Println(len(credentials.Password.Reveal()))
	// Output:
	// [redacted]
	// [redacted]
	// "[redacted]" <nil>
	// 19
}

// The service has three ways to say that it has no such customer, loan or offer.
func ExampleIsNotFound() {
	service, client := demo()
	application := lending.ApplicationID(uuid.MustParse(service.AddApplication(lendingtest.Application{}).ID))

	ctx := context.Background()
	_, noCustomer := client.Customers.GetByEmail(ctx, "nobody@example.com")
	_, noLoan := client.Loans.Get(ctx, lending.LoanID(uuid.New()))
	_, noOffer := client.Applications.Offer(ctx, application, nil)
	for _, err := range []error{noCustomer, noLoan, noOffer} {
		var failed *lending.Error
		fmt.Println(errors.As(err, &failed), failed.StatusCode, lending.IsNotFound(err))
	}

	service.Fail("GET /api/Customer/get-customer-by-email",
		lendingtest.Fault{Status: http.StatusNotFound, Body: []byte("no such host here")})
	_, err := client.Customers.GetByEmail(ctx, "nobody@example.com")
	fmt.Println("of a gateway:", lending.IsNotFound(err))
	// Output:
	// true 204 true
	// true 404 true
	// true 400 true
	// of a gateway: false
}

// A receiver of your own verifies the bytes of the body as they arrived, before it parses them.
func ExampleVerify() {
	const secret = "whs_0123456789abcdef0123456789abcdef" // of the subscription
	body := []byte(`{"x":1}`)
	signature := lending.Sign(secret, body) // a test of your receiver signs as the service does
	fmt.Println(signature[:18], lending.Verify(secret, body, signature))

	err := lending.Verify(secret, []byte(`{"x": 1}`), signature) // parsed and encoded again
	fmt.Println(errors.Is(err, lending.ErrSignature))
	// Output:
	// sha256=5C-4D-AA-5E <nil>
	// true
}

// A token outlives the program that signed in. The file is of no use without the key.
func ExampleWithTokenStore() {
	service := lendingtest.NewServer()
	defer service.Close()
	directory := must(os.MkdirTemp("", "lending"))
	defer os.RemoveAll(directory)
	path, key := filepath.Join(directory, "token"), make([]byte, 32)
	_, _ = rand.Read(key) // a program takes the key from where its secrets are kept

	credentials := lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			return service.TwoFactorCode(lendingtest.Username), nil // a person reads it from a phone
		},
	}
	for range 3 { // runs of the program
		store := must(lending.NewEncryptedTokenStore(must(lending.NewFileTokenStore(path)), key))
		client, err := lending.New(service.URL, lending.WithCredentials(credentials), lending.WithTokenStore(store))
		if err != nil {
			fmt.Println(err)
			return
		}
		token := must(client.Session().Token(context.Background()))
		kept := must(os.ReadFile(path))
		fmt.Println("in the clear:", bytes.Contains(kept, []byte(token.Value.Reveal())))
		client.Close()
	}
	fmt.Println("codes sent:", len(service.Sent()))
	// Output:
	// in the clear: false
	// in the clear: false
	// in the clear: false
	// codes sent: 1
}

// A web service cannot ask for the code in the middle of a call. The call returns a challenge, and
// another request completes the sign-in, in any process with the same [lending.TokenStore].
func ExampleSession_CompleteTwoFactor() {
	service := lendingtest.NewServer()
	defer service.Close()
	client, err := lending.New(service.URL, lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx := context.Background()
	_, err = client.Applications.CreateCustomer(ctx, ada())
	required, ok := errors.AsType[*lending.TwoFactorRequiredError](err)
	fmt.Println(ok, lending.OutcomeOf(err))
	if !ok {
		return
	}
	kept := must(json.Marshal(required.Challenge)) // in a row of the database: never send it to the browser

	var challenge lending.Challenge
	if err := json.Unmarshal(kept, &challenge); err != nil {
		fmt.Println(err)
		return
	}
	for _, code := range []string{"000000", service.TwoFactorCode(lendingtest.Username)} { // a person enters them
		err = client.Session().CompleteTwoFactor(ctx, challenge, code)
		fmt.Println("wrong code:", lending.OutcomeOf(err) == lending.OutcomeRejected, "signed in:", err == nil)
	}
	// Output:
	// true not sent
	// wrong code: true signed in: false
	// wrong code: false signed in: true
}

// An adapter makes an oauth2.TokenSource of golang.org/x/oauth2 a [lending.TokenSource]. The types
// here stand for those of oauth2.
func ExampleTokenSource_oauth2() {
	service := lendingtest.NewServer()
	defer service.Close()
	source := oauthFunc(func() (*oauthToken, error) {
		return &oauthToken{AccessToken: service.Token(lendingtest.Username), Expiry: time.Now().Add(time.Hour)}, nil
	})
	client, err := lending.New(service.URL, lending.WithTokenSource(fromOAuth2{source}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	_, err = client.Applications.ListByCustomer(context.Background(), lending.CustomerID(uuid.New()))
	fmt.Println("not found:", errors.Is(err, lending.ErrNotFound))
	// Output: not found: true
}

type (
	oauthToken struct {
		AccessToken string
		Expiry      time.Time
	}
	oauthSource interface{ Token() (*oauthToken, error) }
	oauthFunc   func() (*oauthToken, error)
)

func (f oauthFunc) Token() (*oauthToken, error) { return f() }

// fromOAuth2 is the adapter. Give it an oauth2.ReuseTokenSource, which keeps a token.
type fromOAuth2 struct{ source oauthSource }

func (f fromOAuth2) Token(context.Context) (lending.Token, error) {
	token, err := f.source.Token()
	if err != nil {
		return lending.Token{}, err
	}
	return lending.Token{Value: lending.NewSecret(token.AccessToken), Expires: token.Expiry}, nil
}

// Any library that makes a RoundTripper can stub a route, for example github.com/jarcoal/httpmock.
// Give each test its own transport. A stub checks no path parameter, record or state, and cannot tell
// whether a mutation ran whose response is lost. lendingtest can, with Fault.ResetAfter and Executed.
func ExampleWithHTTPClient_httpmock() {
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder(http.MethodGet, `=~/api/Application/application-status/`,
		httpmock.NewJsonResponderOrPanic(http.StatusOK, "In Review").
			Then(httpmock.NewJsonResponderOrPanic(http.StatusOK, "Approved")))
	mock.RegisterResponder(http.MethodPost, `=~/api/Application/cancel-application/`,
		httpmock.NewStringResponder(http.StatusTooManyRequests, "").HeaderSet(http.Header{"Retry-After": {"7200"}}))

	client, err := lending.New("https://lending.example",
		lending.WithHTTPClient(&http.Client{Transport: mock}),
		lending.WithTokenSource(lending.StaticToken("any-token")))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx, application := context.Background(), lending.ApplicationID(uuid.New())
	fmt.Println(client.Applications.Status(ctx, application))
	fmt.Println(client.Applications.Status(ctx, application))
	fmt.Println(lending.NextOf(client.Applications.Cancel(ctx, application)))
	fmt.Println("calls:", mock.GetTotalCallCount())
	// Output:
	// In Review <nil>
	// Approved <nil>
	// retry after 2h0m0s
	// calls: 3
}
