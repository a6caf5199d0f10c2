package lendingtest_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// The test that the package documentation shows: no Example can have a testing.T.
func TestReadWaitsForTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New()
		client, err := lending.New("https://lending.example",
			lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
			lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
		if err != nil {
			t.Fatal(err)
		}

		const route = "GET /api/Application/application-status/{applicationId}"
		service.Fail(route, lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 30 * time.Minute})
		application, err := lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		_, err = client.Applications.Status(ctx, application)
		if waited := time.Since(start); err != nil || waited < 30*time.Minute {
			t.Error(waited, err)
		}
	})
}
