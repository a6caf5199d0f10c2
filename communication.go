package lending

// CommunicationService is a group of routes.
type CommunicationService struct{ client *Client }
