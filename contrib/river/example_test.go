package lendingriver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/riverqueue/river"

	lendingriver "github.com/lendingapi/lending-go/contrib/river"
)

func ExampleJobError() {
	service := lendingtest.NewServer()
	defer service.Close()
	service.Fail("POST /api/Application/create-customer",
		lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 30 * time.Second})
	client, err := lending.New(service.URL,
		lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
	if err != nil {
		panic(err)
	}
	defer client.Close()

	// Return this error from the Work method of a job.
	work := func(ctx context.Context) error {
		_, err := client.Applications.CreateCustomer(ctx, lending.UserRequest{
			FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
			Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "(415) 555-0100",
		})
		return lendingriver.JobError(err)
	}
	err = work(context.Background())

	if snooze, ok := errors.AsType[*river.JobSnoozeError](err); ok {
		fmt.Println("the job sleeps for", snooze.Duration)
	}
	fmt.Println("rate limited:", errors.Is(err, lending.ErrRateLimited))
	// Output:
	// the job sleeps for 30s
	// rate limited: true
}
