package lending_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jarcoal/httpmock"

	"github.com/lendingapi/lending-go"
)

// isBusy is code under test: it asks for a status, and tells a busy service from one
// that fails.
func isBusy(ctx context.Context, client *lending.Client, application lending.ApplicationID) (wait time.Duration,
	busy bool,
) {
	_, err := client.Applications.Status(ctx, application)
	var failed *lending.Error
	if errors.As(err, &failed) && errors.Is(err, lending.ErrRateLimited) {
		return failed.RetryAfter, true
	}
	return 0, false
}

// One route can be stubbed with any library that makes a RoundTripper, here with
// github.com/jarcoal/httpmock. Give each test a transport of its own. A stub checks no path
// parameter, record or state, and answers a second send of a mutation like the first:
// lendingtest checks those, and counts what was executed.
func ExampleWithHTTPClient_httpmock() {
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder(http.MethodGet, `=~/api/Application/application-status/`,
		httpmock.NewStringResponder(http.StatusTooManyRequests, "").HeaderSet(http.Header{"Retry-After": {"7200"}}))

	client, err := lending.New("https://lending.example",
		lending.WithHTTPClient(&http.Client{Transport: mock}),
		lending.WithTokenSource(lending.StaticToken("any-token")))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println(isBusy(context.Background(), client, lending.ApplicationID(uuid.New())))
	fmt.Println("calls:", mock.GetTotalCallCount())
	// Output:
	// 2h0m0s true
	// calls: 1
}

// A sequence of answers, and an answer that is lost: the mutation may have run, and the stub
// cannot tell. lendingtest can, by Fault.ResetAfter and Executed.
func ExampleWithHTTPClient_httpmockSequence() {
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder(http.MethodGet, `=~/api/Application/application-status/`,
		httpmock.NewJsonResponderOrPanic(http.StatusOK, "In Review").
			Then(httpmock.NewJsonResponderOrPanic(http.StatusOK, "Approved")))
	mock.RegisterResponder(http.MethodPost, `=~/api/Application/cancel-application/`,
		httpmock.NewErrorResponder(errors.New("connection reset by peer")))

	client, err := lending.New("https://lending.example",
		lending.WithHTTPClient(&http.Client{Transport: mock}),
		lending.WithTokenSource(lending.StaticToken("any-token")))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	application := lending.ApplicationID(uuid.New())
	fmt.Println(client.Applications.Status(context.Background(), application))
	fmt.Println(client.Applications.Status(context.Background(), application))
	err = client.Applications.Cancel(context.Background(), application)
	fmt.Println(lending.OutcomeOf(err), errors.Is(err, lending.ErrOutcomeUnknown))
	// Output:
	// In Review <nil>
	// Approved <nil>
	// unknown true
}
