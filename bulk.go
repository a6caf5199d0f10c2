package lending

import (
	"context"
	"strconv"
)

// BulkService creates many records in one call. Whether a call is all or nothing is
// not published: a 400 that names no field leaves its outcome unknown.
type BulkService struct{ client *carrier }

// ApplicationResponse is an application that a bulk call created. Its fields are not
// published.
type ApplicationResponse struct{ Record }

// batch is a list of request records.
type batch[T checker] []T

func (b batch[T]) check(c *checks) {
	c.that(len(b) > 0, "records", CodeRequired, "must not be empty")
	for i, record := range b {
		c.prefix = "[" + strconv.Itoa(i) + "]."
		record.check(c)
	}
	c.prefix = ""
}

// CreateCustomers creates customers and returns them. The rules of [UserRequest] are
// checked for all of them before anything is sent: an [ArgumentError] names a field
// by the index of its record, for example "[3].email".
//
// An answer with a customer without an id is an error whose outcome is [OutcomeDone];
// with fewer customers than were sent, or one that reports a failure, it is
// [OutcomeUnknown]. After an unknown outcome read [CustomersService.GetByEmail] for each
// before creating again.
//
// Route: POST /api/ApplicationBulk/create-customers
func (s *BulkService) CreateCustomers(ctx context.Context, customers []UserRequest) ([]UserResponse, error) {
	return post[[]UserResponse](ctx, s.client, request{
		path:      "/api/ApplicationBulk/create-customers",
		body:      batch[UserRequest](customers),
		batch:     len(customers),
		checkWith: "Customers.GetByEmail",
	})
}

// CreateApplications creates applications of existing customers and returns them.
// The rules of [ApplicationRequest] are checked for all of them before anything is
// sent: an [ArgumentError] names a field by the index of its record, for example
// "[3].customerId".
//
// An answer with fewer applications than were sent, or one that reports a failure, is an
// error whose outcome is [OutcomeUnknown]. After an unknown outcome read
// [ApplicationsService.ListByCustomer] for each customer before creating again.
//
// Route: POST /api/ApplicationBulk/create-applications
func (s *BulkService) CreateApplications(ctx context.Context, applications []ApplicationRequest) ([]ApplicationResponse, error) {
	return post[[]ApplicationResponse](ctx, s.client, request{
		path:      "/api/ApplicationBulk/create-applications",
		body:      batch[ApplicationRequest](applications),
		batch:     len(applications),
		checkWith: "Applications.ListByCustomer",
	})
}
