package lending

import (
	"context"
	"iter"
)

// CommunicationService reads and posts the messages of an application.
//
// A list without records is empty. [IsNotFound] reports a missing application.
type CommunicationService struct{ client *carrier }

// Message is a message.
type Message struct{ Record }

// CommunicationRequest is a message to be posted, in unpublished fields.
type CommunicationRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// Messages returns messages of the application, at most 200 at a time.
//
// Route: GET /api/Communication/get-all-messages/{applicationId}
func (s *CommunicationService) Messages(ctx context.Context, id ApplicationID, opts *ListOptions) ([]Message, error) {
	return get[[]Message](ctx, s.client, route("/api/Communication/get-all-messages/{applicationId}", id.String()).
		page(opts.paged(), maxTake))
}

// AllMessages yields all messages of an application. It calls [CommunicationService.Messages]
// until a page is empty, and otherwise works as [LoansService.AllTransactions].
func (s *CommunicationService) AllMessages(ctx context.Context, id ApplicationID, opts *ListOptions) iter.Seq2[Message, error] {
	return walk(ctx, opts.paged(), func(ctx context.Context, part *PagedOptions) page[Message] {
		return pageOfList(s.Messages(ctx, id, part.list()))
	})
}

// Post posts a message. The service may notify people.
//
// message may be nil, which is null on the wire. Some hosts want a request, even an empty one. A
// response body that is false or reports a failure leaves the outcome unknown; then read
// [CommunicationService.Messages] before posting again.
//
// Route: POST /api/Communication/post-messages/{applicationId}
func (s *CommunicationService) Post(ctx context.Context, id ApplicationID, message *CommunicationRequest) error {
	return postNoContent(ctx, s.client, route("/api/Communication/post-messages/{applicationId}", id.String()).
		with(message).checkedBy("Communication.Messages"))
}
