package lending

// CalculationService is a group of routes.
type CalculationService struct{ client *Client }
