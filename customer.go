package lending

import "context"

// CustomersService finds customers. [ApplicationsService.CreateCustomer] creates them.
//
// [IsNotFound] reports a customer that does not exist.
type CustomersService struct{ client *carrier }

// GetByEmail finds a customer by e-mail address, which travels in the query: the
// service's own access logs may hold it.
//
// The shape of the answer is not declared. [IsNotFound] reports that no customer has the
// address, be it by a 400, a 404 or an answer without content.
//
// Route: GET /api/Customer/get-customer-by-email
func (s *CustomersService) GetByEmail(ctx context.Context, email string) (*Record, error) {
	return get[*Record](ctx, s.client, request{
		path:  "/api/Customer/get-customer-by-email",
		query: []param{{"email", email, true}},
	})
}

// GetByID returns a customer. The shape of the answer is not published.
//
// Route: GET /api/Customer/get-customer-by-id/{customerId}
func (s *CustomersService) GetByID(ctx context.Context, id CustomerID) (*Record, error) {
	return get[*Record](ctx, s.client, request{
		path: "/api/Customer/get-customer-by-id/{customerId}",
		args: []string{id.String()},
	})
}
