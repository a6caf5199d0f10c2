package lending

// WebhooksService is a group of routes.
type WebhooksService struct{ client *Client }
