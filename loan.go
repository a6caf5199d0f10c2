package lending

// LoansService is a group of routes.
type LoansService struct{ client *Client }
