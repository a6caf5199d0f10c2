package lendingtest_test

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
)

// statusReader is all that the code under test needs of the client. The package that
// uses it declares it; *lending.ApplicationsService has the method.
type statusReader interface {
	Status(ctx context.Context, id lending.ApplicationID) (string, error)
}

var _ statusReader = (*lending.ApplicationsService)(nil)

// summary is code under test.
func summary(ctx context.Context, applications statusReader, id lending.ApplicationID) string {
	status, err := applications.Status(ctx, id)
	switch {
	case lending.IsNotFound(err):
		return "There is no such application."
	case err != nil:
		return "The status cannot be had at the moment."
	}
	return "The application is at: " + status
}

// statusFunc stands in for the service.
type statusFunc func() (string, error)

func (f statusFunc) Status(context.Context, lending.ApplicationID) (string, error) { return f() }

// Code that needs one method can be tested without any service. The errors are made
// as a call would return them.
func Example_interface() {
	for _, applications := range []statusFunc{
		func() (string, error) { return "Under Review", nil },
		func() (string, error) {
			return "",
				&lending.Error{Effect: lending.Read, StatusCode: 404, Problem: &lending.ProblemDetails{Title: "Not Found"}}
		},
		func() (string, error) { return "", &lending.Error{Effect: lending.Read, StatusCode: 503} },
	} {
		fmt.Println(summary(context.Background(), applications, lending.ApplicationID(uuid.New())))
	}
	// Output:
	// The application is at: Under Review
	// There is no such application.
	// The status cannot be had at the moment.
}
