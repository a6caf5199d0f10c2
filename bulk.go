package lending

// BulkService is a group of routes.
type BulkService struct{ client *Client }
