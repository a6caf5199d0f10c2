package lending

// ApprovalService is a group of routes.
type ApprovalService struct{ client *Client }
