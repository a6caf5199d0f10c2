package lending

import "context"

// CustomersService finds customers. [ApplicationsService.CreateCustomer] creates them.
//
// [IsNotFound] reports a missing customer. The shape of the responses is not published.
type CustomersService struct{ client *carrier }

// GetByEmail finds a customer by e-mail address. The address travels in the query, so the
// service's access logs may contain it.
//
// If no customer has the address, the service responds with 400, 404 or no content: [IsNotFound]
// reports all three.
//
// Route: GET /api/Customer/get-customer-by-email
func (s *CustomersService) GetByEmail(ctx context.Context, email string) (*Record, error) {
	return get[*Record](ctx, s.client, route("/api/Customer/get-customer-by-email").where(required("email", email)).orNone())
}

// GetByID returns a customer.
//
// Route: GET /api/Customer/get-customer-by-id/{customerId}
func (s *CustomersService) GetByID(ctx context.Context, id CustomerID) (*Record, error) {
	return get[*Record](ctx, s.client, route("/api/Customer/get-customer-by-id/{customerId}", id.String()))
}
