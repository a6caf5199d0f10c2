package lending

import (
	"context"
	"strconv"
)

// BulkService creates many records in a call. The interface does not say whether a call is all
// or nothing: a 400 without a field name leaves the outcome unknown.
//
// The client checks the rules of all records before it sends anything. An [ArgumentError] names
// a field by the index of its record, for example "[3].email". A response with fewer records
// than were sent, or with a failure, is an error with [OutcomeUnknown].
type BulkService struct{ client *carrier }

// ApplicationResponse is an application that a bulk call created.
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

// CreateCustomers creates customers and returns them, by the rules of [UserRequest].
//
// A response with a customer without an id is an error with [OutcomeDone]. After an unknown
// outcome read [CustomersService.GetByEmail] for each customer before creating again.
//
// Route: POST /api/ApplicationBulk/create-customers
func (s *BulkService) CreateCustomers(ctx context.Context, customers []UserRequest) ([]UserResponse, error) {
	r := route("/api/ApplicationBulk/create-customers").checkedBy("Customers.GetByEmail")
	r.body, r.proof.records = batch[UserRequest](customers), len(customers)
	return post[[]UserResponse](ctx, s.client, r)
}

// CreateApplications creates applications of existing customers and returns them, by the rules
// of [ApplicationRequest].
//
// After an unknown outcome read [ApplicationsService.ListByCustomer] for each customer before
// creating again.
//
// Route: POST /api/ApplicationBulk/create-applications
func (s *BulkService) CreateApplications(ctx context.Context, applications []ApplicationRequest) ([]ApplicationResponse, error) {
	r := route("/api/ApplicationBulk/create-applications").checkedBy("Applications.ListByCustomer")
	r.body, r.proof.records = batch[ApplicationRequest](applications), len(applications)
	return post[[]ApplicationResponse](ctx, s.client, r)
}
