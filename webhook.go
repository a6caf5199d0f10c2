package lending

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// WebhooksService subscribes a receiver to the service's events.
//
// [WebhooksService.Register] is followed by [WebhooksService.Subscription], which
// proves that the subscription was saved and returns its secret, and perhaps by
// [WebhooksService.Simulate].
//
// The address of a receiver is an https address. For trying things out http does where
// both are on this machine: the host of the address, and that of the client's base URL,
// are localhost or a loopback address, as those of examples/sandbox.
//
// A list without records is empty. If a method returns only an error, the service
// declares no answer for its route. A body that is false or reports a failure leaves
// the outcome unknown.
type WebhooksService struct{ client *carrier }

// WebhookTarget is whose events a subscription is about: a partner or a customer,
// never both. [ForPartner] and [ForCustomer] make one; the zero WebhookTarget is
// refused.
type WebhookTarget struct {
	partner  PartnerID
	customer CustomerID
}

// ForPartner is the target of a partner's subscription.
func ForPartner(id PartnerID) WebhookTarget { return WebhookTarget{partner: id} }

// ForCustomer is the target of a customer's subscription.
func ForCustomer(id CustomerID) WebhookTarget { return WebhookTarget{customer: id} }

// String returns for example "partner 3fa85f64-5717-4562-b3fc-2c963f66afa6", and
// nothing for the zero WebhookTarget.
func (t WebhookTarget) String() string {
	switch {
	case !t.partner.IsZero():
		return "partner " + t.partner.String()
	case !t.customer.IsZero():
		return "customer " + t.customer.String()
	}
	return ""
}

func (t WebhookTarget) param() param {
	switch {
	case !t.partner.IsZero():
		return param{"partnerId", t.partner.String(), true}
	case !t.customer.IsZero():
		return param{"customerId", t.customer.String(), true}
	}
	return param{"target", "", true}
}

// WebhookSubscription is a subscription, as it is registered and as it is read back.
// One that was read, changed and sent again carries the changed fields, and of the
// others all that the service sent.
//
// It marshals to JSON with its secret redacted.
type WebhookSubscription struct {
	Record
	ID         SubscriptionID `json:"id,omitzero"`        // the service assigns it; not the id of the target
	WebhookURI string         `json:"webhookUri"`         // https address of the receiver: see [WebhooksService]
	IsActive   bool           `json:"isActive,omitzero"`  // false is not sent unless the service sent it first
	Webhooks   []EventName    `json:"webhooks,omitempty"` // the events; none means all that the service supports
	Secret     Secret         `json:"secret,omitzero"`    // the service issues it when the target is first registered
	Extra      any            `json:"-"`                  // further fields: marshals to a JSON object
}

// receiver is the address of a receiver.
type receiver struct {
	uri  string
	near bool // the service is on this machine: http does for a receiver that is, too
}

func (s *WebhooksService) receiver(uri string) receiver {
	return receiver{uri, isLoopback(s.client.settings().base.Hostname())}
}

func (r receiver) check(c *checks) {
	u, err := url.Parse(r.uri)
	secure := err == nil && u.Hostname() != "" && (u.Scheme == "https" || u.Scheme == "http" && r.near && isLoopback(u.Hostname()))
	c.that(secure, "webhookUri", CodeInsecure, "must be an https address")
	c.that(err != nil || u.User == nil && !strings.Contains(r.uri, "#"), "webhookUri", CodeFormat, "must not hold user information or a fragment")
}

// UnmarshalJSON keeps data as the [Record].
func (s *WebhookSubscription) UnmarshalJSON(data []byte) error { return unmarshalRecord(data, s) }

// MarshalJSON writes the record as it would be sent, but redacts the secret.
func (s WebhookSubscription) MarshalJSON() ([]byte, error) {
	if !s.Secret.IsZero() {
		s.Secret = NewSecret(redacted)
	}
	return encode(s)
}

// WebhookSubscriptionSummary is a subscription in the list of all. Its fields are not
// published.
type WebhookSubscriptionSummary struct{ Record }

// WebhookPayload is a delivery for the service's own receiver. Extra holds it, for
// example a webhook.Event.
type WebhookPayload struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// Register subscribes a receiver to events of the target, or changes address and
// events of the subscription that there is. It keeps that one's id and secret.
//
// Success alone proves no save, and the answer holds no secret: read
// [WebhooksService.Subscription] afterwards for both, and after an unknown outcome.
// Sending the same again is an update. An answer that is false or reports a failure
// leaves the outcome unknown.
//
// Route: POST /api/Webhook/register
func (s *WebhooksService) Register(ctx context.Context, target WebhookTarget, subscription WebhookSubscription) error {
	return postNoContent(ctx, s.client, request{
		path:      "/api/Webhook/register",
		query:     []param{target.param()},
		body:      subscription,
		also:      s.receiver(subscription.WebhookURI),
		checkWith: "Webhooks.Subscription",
	})
}

// Unregister removes the subscription of the target. Nothing of subscription is
// checked: one with an old address must be removable too.
//
// After an unknown outcome read [WebhooksService.Subscription].
//
// Route: POST /api/Webhook/unregister
func (s *WebhooksService) Unregister(ctx context.Context, target WebhookTarget, subscription WebhookSubscription) error {
	return postNoContent(ctx, s.client, request{
		path:      "/api/Webhook/unregister",
		query:     []param{target.param()},
		body:      subscription,
		checkWith: "Webhooks.Subscription",
	})
}

// UpdateAll has the service update the subscriptions of the target. What it updates is
// not published.
//
// After an unknown outcome read [WebhooksService.Subscription].
//
// Route: POST /api/Webhook/update-all
func (s *WebhooksService) UpdateAll(ctx context.Context, target WebhookTarget) error {
	return postNoContent(ctx, s.client, request{
		path:      "/api/Webhook/update-all",
		query:     []param{target.param()},
		checkWith: "Webhooks.Subscription",
	})
}

// PostToHandler posts a delivery to the service's own test receiver. It needs no
// token, and none is sent.
//
// After an unknown outcome nothing shows whether it arrived.
//
// Route: POST /api/Webhook/handler
func (s *WebhooksService) PostToHandler(ctx context.Context, payload WebhookPayload) error {
	return postNoContent(ctx, s.client, request{
		path:      "/api/Webhook/handler",
		body:      payload,
		anonymous: true,
	})
}

// Simulate has the service send a simulated event to the receiver that is saved for
// the target. The event must be among those of the subscription; only some of the
// catalogue can be simulated, so that a registered event can still be refused.
//
// After an unknown outcome only the receiver shows whether it was sent: a second call
// may send it twice.
//
// Route: POST /api/Webhook/generate-simulated-webhook
func (s *WebhooksService) Simulate(ctx context.Context, target WebhookTarget, event EventName) error {
	return postNoContent(ctx, s.client, request{
		path:  "/api/Webhook/generate-simulated-webhook",
		query: []param{{"eventName", string(event), true}, target.param()},
	})
}

// RegisteredEvents returns the names of the events that the target is subscribed to, and
// nothing else. The shape of the answer is not declared: if it is an array,
// [Record.Decode] reads it into a []EventName. Where there is no subscription it may be
// empty, or an error that [IsNotFound] reports.
//
// Route: GET /api/Webhook/get-registered-webhooks
func (s *WebhooksService) RegisteredEvents(ctx context.Context, target WebhookTarget) (*Record, error) {
	return get[*Record](ctx, s.client, request{
		path:  "/api/Webhook/get-registered-webhooks",
		query: []param{target.param()},
	})
}

// Subscription returns the subscription of the target, with its secret. It is the proof
// that a subscription was saved: one without its id is an error. [IsNotFound] reports that
// there is none.
//
// Route: GET /api/Webhook/get-subscription
func (s *WebhooksService) Subscription(ctx context.Context, target WebhookTarget) (*WebhookSubscription, error) {
	return get[*WebhookSubscription](ctx, s.client, request{
		path:  "/api/Webhook/get-subscription",
		query: []param{target.param()},
	})
}

// AllSubscriptions returns all subscriptions. It is for webhook administrators:
// others get [ErrForbidden].
//
// Route: GET /api/Webhook/get-all-subscriptions
func (s *WebhooksService) AllSubscriptions(ctx context.Context) ([]WebhookSubscriptionSummary, error) {
	return get[[]WebhookSubscriptionSummary](ctx, s.client, request{
		path: "/api/Webhook/get-all-subscriptions",
	})
}

// UpdateURI changes the https address of the receiver that is saved for the target. It
// creates nothing where there is no subscription.
//
// Success alone proves no save: read [WebhooksService.Subscription] afterwards, and
// after an unknown outcome. Sending the same again is an update. An answer that is false
// or reports a failure leaves the outcome unknown.
//
// Route: POST /api/Webhook/update-webhook-uri
func (s *WebhooksService) UpdateURI(ctx context.Context, target WebhookTarget, uri string) error {
	return postNoContent(ctx, s.client, request{
		path:      "/api/Webhook/update-webhook-uri",
		query:     []param{{"webhookUri", uri, true}, target.param()},
		also:      s.receiver(uri),
		checkWith: "Webhooks.Subscription",
	})
}

// EnsuredSubscription is what [WebhooksService.Ensure] found and did.
type EnsuredSubscription struct {
	Subscription  WebhookSubscription // as the service has it now, with its secret
	Created       bool                // there was none
	URIChanged    bool                // it had another address
	EventsChanged bool                // it had other events
}

// Changed reports whether anything had to be done.
func (e *EnsuredSubscription) Changed() bool { return e.Created || e.URIChanged || e.EventsChanged }

// Ensure makes the target's subscription have the address and the events of want, and
// returns it as it reads back, with its secret. It may be called on every deploy: it
// registers only what is missing or differs, and does not change the secret.
//
// It reads with [WebhooksService.Subscription], registers with
// [WebhooksService.Register] if it must, and reads again: success alone proves no
// save. After an unknown outcome that read tells. Without an error the subscription is
// one that works: the error is [ErrNotSaved] if the service has something else, and
// [ErrInactive] if it is switched off, which may be meant so. Ensure registers as
// active whatever want says; no route is known to switch on one that there is. It needs no
// key ([WithIdempotencyKey]), and refuses one.
func (s *WebhooksService) Ensure(ctx context.Context, target WebhookTarget, want WebhookSubscription) (*EnsuredSubscription, error) {
	want.IsActive = true
	if _, err := (&request{query: []param{target.param()}, body: want, also: s.receiver(want.WebhookURI)}).prepare(); err != nil {
		return nil, err
	}
	was, err := s.Subscription(ctx, target)
	if err != nil && !mayBeNotFound(err) {
		return nil, err
	}
	var e EnsuredSubscription
	if was == nil {
		e.Created = true
	} else {
		e.Subscription = *was
		e.URIChanged, e.EventsChanged = was.WebhookURI != want.WebhookURI, !sameEvents(want.Webhooks, was.Webhooks)
	}
	var failed error
	if e.Changed() {
		failed = s.Register(ctx, target, want)
		if outcome := OutcomeOf(failed); outcome == OutcomeRejected || outcome == OutcomeNotSent {
			return nil, failed
		}
		now, err := s.Subscription(ctx, target)
		switch {
		case mayBeNotFound(err):
			return nil, errors.Join(failed, ErrNotSaved)
		case err != nil:
			return nil, errors.Join(failed, err)
		}
		e.Subscription = *now
	}
	if err := proved(e.Subscription, want); err != nil {
		return nil, errors.Join(failed, err)
	}
	return &e, nil
}

// proved returns nil if now is what was wanted, and works.
func proved(now, want WebhookSubscription) error {
	switch {
	case now.WebhookURI != want.WebhookURI, !sameEvents(want.Webhooks, now.Webhooks), now.Secret.IsZero():
		return ErrNotSaved
	case !now.IsActive:
		return ErrInactive
	}
	return nil
}

// sameEvents compares two lists as sets. None means all, which may also be spelled out.
func sameEvents(a, b []EventName) bool {
	return isAll(a) && isAll(b) || slices.Equal(sorted(a), sorted(b))
}

func isAll(events []EventName) bool {
	return len(events) == 0 || !slices.ContainsFunc(eventNames(), func(name EventName) bool { return !slices.Contains(events, name) })
}

func sorted(events []EventName) []EventName {
	return slices.Compact(slices.Sorted(slices.Values(events)))
}

// EventName is the name of an event. The set is open: a name that is not below is kept as
// received.
//
// The interface does not say which operation sends which event, nor which fields the data has.
type EventName string

// The events of the service, with the meaning that the interface gives.
const (
	EventPartnerRequest                EventName = "WB_Partner_Request"                  // partner request notification
	EventApplicationCreated            EventName = "WB_Application_Created"              // application created: see webhook.ApplicationCreated
	EventCustomerCreated               EventName = "WB_Customer_Created"                 // customer created
	EventCustomerAndApplicationCreated EventName = "WB_Customer_And_Application_Created" // customer and application created
	EventApplicationCurrentProcess     EventName = "WB_Application_Current_Process"      // current process update
	EventApplicationStatusChanged      EventName = "WB_Application_Status_Changed"       // application status change
	EventLoanCreated                   EventName = "WB_Loan_Created"                     // loan created
	EventBankTransactionsRefresh       EventName = "WB_Bank_Transactions_Refresh"        // bank transaction refresh
	EventCommunicationSent             EventName = "WB_Communication_Sent"               // communication sent
	EventLoanWithdrawalCompleted       EventName = "WB_Loan_Withdrawal_Completed"        // loan withdrawal completed
	EventSendSecondaryApplicantNotice  EventName = "WB_Send_Secondary_Applicant_Notice"  // secondary applicant notice
	EventUnderReview                   EventName = "WB_Under_Review"                     // under review notification
	EventSendSMS                       EventName = "WB_Send_Sms"                         // SMS send
	EventSendOTP                       EventName = "WB_Send_Otp"                         // OTP send
	EventSendLoanOTP                   EventName = "WB_Send_Loan_Otp"                    // loan OTP send
	EventApplicationCancelled          EventName = "WB_Application_Cancelled"            // application cancelled
	EventSendTwoFactorCode             EventName = "WB_Send_Two_Factor_Code"             // two-factor code sent
	EventSendApplicationReady          EventName = "WB_Send_Application_Ready"           // application ready notification
	EventApplicationReady              EventName = "WB_Application_Ready"                // application ready
	EventLoanEnabledOrDisabled         EventName = "WB_Loan_Enabled_Or_Disabled"         // loan enabled or disabled
	EventLoanClosed                    EventName = "WB_Loan_Closed"                      // loan closed
	EventLoanOpened                    EventName = "WB_Loan_Opened"                      // loan opened
)

// eventNames returns the names above, in that order.
func eventNames() []EventName {
	return []EventName{
		EventPartnerRequest, EventApplicationCreated, EventCustomerCreated, EventCustomerAndApplicationCreated,
		EventApplicationCurrentProcess, EventApplicationStatusChanged, EventLoanCreated, EventBankTransactionsRefresh,
		EventCommunicationSent, EventLoanWithdrawalCompleted, EventSendSecondaryApplicantNotice, EventUnderReview,
		EventSendSMS, EventSendOTP, EventSendLoanOTP, EventApplicationCancelled, EventSendTwoFactorCode,
		EventSendApplicationReady, EventApplicationReady, EventLoanEnabledOrDisabled, EventLoanClosed, EventLoanOpened,
	}
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// missing says that the id is missing.
func (s *WebhookSubscription) missing() *shapeError { return s.missingID("id", s.ID.IsZero()) }
