package lending

// CustomersService is a group of routes.
type CustomersService struct{ client *Client }
