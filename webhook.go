package lending

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/redact"
)

// WebhooksService subscribes a receiver to the service's events.
//
// Most programs need only [WebhooksService.Ensure]. After [WebhooksService.Register], read
// [WebhooksService.Subscription]: the record proves that the service saved the subscription,
// and contains the secret. Registering the same subscription again is harmless.
//
// The address of a receiver is an https address. If receiver and service both run on this
// machine, as with cmd/lending-sandbox, http is allowed too.
//
// A list without records is empty. If a method returns only an error, the service declares no
// response body; a body that is false or reports a failure leaves the outcome unknown.
type WebhooksService struct{ client *carrier }

// WebhookTarget is the partner or the customer of a subscription. [ForPartner] and [ForCustomer]
// return a WebhookTarget; the zero WebhookTarget is invalid.
type WebhookTarget struct {
	partner  PartnerID
	customer CustomerID
}

// ForPartner is the target of a partner's subscription.
func ForPartner(id PartnerID) WebhookTarget { return WebhookTarget{partner: id} }

// ForCustomer is the target of a customer's subscription.
func ForCustomer(id CustomerID) WebhookTarget { return WebhookTarget{customer: id} }

// String returns for example "partner 3fa85f64-5717-4562-b3fc-2c963f66afa6", and nothing for the
// zero WebhookTarget.
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
		return required("partnerId", t.partner.String())
	case !t.customer.IsZero():
		return required("customerId", t.customer.String())
	}
	return required("target", "")
}

// WebhookSubscription is a subscription, for registering and as read back. A subscription that
// was read and changed is sent with the changed fields and all others as received. Its JSON
// contains the secret redacted.
type WebhookSubscription struct {
	Record
	ID         uuid.UUID   `json:"id,omitzero"`        // assigned by the service; not the id of the target
	WebhookURI string      `json:"webhookUri"`         // https address of the receiver: see [WebhooksService]
	IsActive   bool        `json:"isActive,omitzero"`  // false is not sent unless the service sent it first
	Webhooks   []EventName `json:"webhooks,omitempty"` // empty for all events that the service supports
	Secret     Secret      `json:"secret,omitzero"`    // issued by the service at the first registration
	Extra      any         `json:"-"`                  // further fields: marshals to a JSON object
}

// receiver is the address of a receiver.
type receiver struct {
	uri  string
	near bool // the service runs on this machine: a receiver here may use http
}

func (s *WebhooksService) receiver(uri string) receiver {
	return receiver{uri, isLoopback(s.client.settings().base.Hostname())}
}

func (r receiver) check(c *checks) {
	u, err := url.Parse(r.uri)
	secure := err == nil && u.Hostname() != "" && (u.Scheme == "https" || u.Scheme == "http" && r.near && isLoopback(u.Hostname()))
	c.that(secure, "webhookUri", CodeFormat, "must be an https address")
	c.that(err != nil || u.User == nil && !strings.Contains(r.uri, "#"), "webhookUri", CodeFormat, "must not hold user information or a fragment")
}

// UnmarshalJSON keeps data as the [Record].
func (s *WebhookSubscription) UnmarshalJSON(data []byte) error { return unmarshalRecord(data, s) }

// MarshalJSON writes the record as for a request, with the secret redacted.
func (s WebhookSubscription) MarshalJSON() ([]byte, error) {
	if !s.Secret.IsZero() {
		s.Secret = NewSecret(redacted)
	}
	return encode(s)
}

// WebhookSubscriptionSummary is a subscription in the list of all.
type WebhookSubscriptionSummary struct{ Record }

// WebhookPayload is a delivery for the service's own receiver, for example a webhook.Event in
// Extra.
type WebhookPayload struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// Register subscribes a receiver to events of the target, or changes address and events of the
// current subscription, which keeps its id and secret.
//
// Success does not prove the save, and the response holds no secret: read
// [WebhooksService.Subscription] afterwards, also after an unknown outcome.
//
// Route: POST /api/Webhook/register
func (s *WebhooksService) Register(ctx context.Context, target WebhookTarget, subscription WebhookSubscription) error {
	r := route("/api/Webhook/register").where(target.param()).with(subscription).checkedBy("Webhooks.Subscription")
	r.also = s.receiver(subscription.WebhookURI)
	return postNoContent(ctx, s.client, r)
}

// Unregister removes the subscription of the target. The client does not check subscription, so
// that a subscription with an outdated address can be removed.
//
// After an unknown outcome read [WebhooksService.Subscription].
//
// Route: POST /api/Webhook/unregister
func (s *WebhooksService) Unregister(ctx context.Context, target WebhookTarget, subscription WebhookSubscription) error {
	return postNoContent(ctx, s.client, route("/api/Webhook/unregister").
		where(target.param()).with(subscription).checkedBy("Webhooks.Subscription"))
}

// UpdateAll has the service update the subscriptions of the target. The effect is not published.
//
// After an unknown outcome read [WebhooksService.Subscription].
//
// Route: POST /api/Webhook/update-all
func (s *WebhooksService) UpdateAll(ctx context.Context, target WebhookTarget) error {
	return postNoContent(ctx, s.client, route("/api/Webhook/update-all").
		where(target.param()).checkedBy("Webhooks.Subscription"))
}

// PostToHandler posts a delivery to the service's own test receiver, without a token. After an
// unknown outcome no read shows whether the delivery arrived.
//
// Route: POST /api/Webhook/handler
func (s *WebhooksService) PostToHandler(ctx context.Context, payload WebhookPayload) error {
	r := route("/api/Webhook/handler").with(payload)
	r.anonymous = true
	return postNoContent(ctx, s.client, r)
}

// Simulate has the service send a simulated event to the receiver of the target. The
// subscription must contain the event. The service can simulate only some events, and rejects
// the others.
//
// After an unknown outcome only the receiver shows whether the event was sent: a second call may
// send the event twice.
//
// Route: POST /api/Webhook/generate-simulated-webhook
func (s *WebhooksService) Simulate(ctx context.Context, target WebhookTarget, event EventName) error {
	return postNoContent(ctx, s.client, route("/api/Webhook/generate-simulated-webhook").
		where(required("eventName", string(event)), target.param()))
}

// RegisteredEvents returns the names of the events to which the target is subscribed. The shape
// of the response is not declared: an array decodes into a []EventName. Without a subscription
// the result may be empty, or an error that [IsNotFound] reports.
//
// Route: GET /api/Webhook/get-registered-webhooks
func (s *WebhooksService) RegisteredEvents(ctx context.Context, target WebhookTarget) (*Record, error) {
	return get[*Record](ctx, s.client, route("/api/Webhook/get-registered-webhooks").where(target.param()))
}

// Subscription returns the subscription of the target, with its secret. The record proves that
// the service saved the subscription; a record without its id is an error. [IsNotFound] reports
// a missing subscription.
//
// Route: GET /api/Webhook/get-subscription
func (s *WebhooksService) Subscription(ctx context.Context, target WebhookTarget) (*WebhookSubscription, error) {
	return get[*WebhookSubscription](ctx, s.client, route("/api/Webhook/get-subscription").where(target.param()).orNone())
}

// AllSubscriptions returns all subscriptions, for webhook administrators: others get
// [ErrForbidden].
//
// Route: GET /api/Webhook/get-all-subscriptions
func (s *WebhooksService) AllSubscriptions(ctx context.Context) ([]WebhookSubscriptionSummary, error) {
	return get[[]WebhookSubscriptionSummary](ctx, s.client, route("/api/Webhook/get-all-subscriptions"))
}

// UpdateURI changes the address of the target's receiver. Without a subscription the service
// changes nothing.
//
// Success does not prove the save: read [WebhooksService.Subscription] afterwards, also after an
// unknown outcome.
//
// Route: POST /api/Webhook/update-webhook-uri
func (s *WebhooksService) UpdateURI(ctx context.Context, target WebhookTarget, uri string) error {
	r := route("/api/Webhook/update-webhook-uri").where(required("webhookUri", uri), target.param()).
		checkedBy("Webhooks.Subscription")
	r.also = s.receiver(uri)
	return postNoContent(ctx, s.client, r)
}

// EnsuredSubscription is the result of [WebhooksService.Ensure].
type EnsuredSubscription struct {
	Subscription WebhookSubscription // as the service has it now, with its secret
	Changed      bool                // Ensure registered it: there was none, or one with another address or other events
}

// Ensure gives the target's subscription the address and the events of want, and returns the
// subscription with its secret. Call Ensure on every deploy: it registers only if something is
// missing or differs, and does not change the secret.
//
// Ensure reads [WebhooksService.Subscription], calls [WebhooksService.Register] if necessary,
// and reads again. The error is [ErrInactive] if the service then has another subscription, or if
// the subscription is switched off. Ensure registers with IsActive set; no published route
// switches on an existing subscription. Ensure needs no idempotency key, and refuses a context
// with a key.
func (s *WebhooksService) Ensure(ctx context.Context, target WebhookTarget, want WebhookSubscription) (*EnsuredSubscription, error) {
	want.IsActive = true
	if _, err := (&request{query: []param{target.param()}, body: want, also: s.receiver(want.WebhookURI)}).prepare(false); err != nil {
		return nil, err
	}
	was, err := s.Subscription(ctx, target)
	if err != nil && !mayBeNotFound(err) {
		return nil, err
	}
	e := EnsuredSubscription{Changed: true}
	if was != nil {
		e.Subscription = *was
		e.Changed = was.WebhookURI != want.WebhookURI || !sameEvents(want.Webhooks, was.Webhooks)
	}
	var failed error
	if e.Changed {
		failed = s.Register(ctx, target, want)
		if outcome := OutcomeOf(failed); outcome == OutcomeRejected || outcome == OutcomeNotSent {
			return nil, failed
		}
		now, err := s.Subscription(ctx, target)
		switch {
		case mayBeNotFound(err):
			return nil, errors.Join(failed, errNotSaved)
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

// proved returns nil if the subscription now is as wanted and works.
func proved(now, want WebhookSubscription) error {
	switch {
	case now.WebhookURI != want.WebhookURI, !sameEvents(want.Webhooks, now.Webhooks), now.Secret.IsZero():
		return errNotSaved
	case !now.IsActive:
		return ErrInactive
	}
	return nil
}

var errNotSaved = redact.New("lending: webhook subscription: the service did not save it, or saved no secret; call Ensure again", ErrInactive)

// sameEvents compares two lists as sets. An empty list means all events.
func sameEvents(a, b []EventName) bool {
	return isAll(a) && isAll(b) || slices.Equal(sorted(a), sorted(b))
}

func isAll(events []EventName) bool {
	return len(events) == 0 || !slices.ContainsFunc(eventNames(), func(name EventName) bool { return !slices.Contains(events, name) })
}

func sorted(events []EventName) []EventName {
	return slices.Compact(slices.Sorted(slices.Values(events)))
}

// EventName is the name of an event. The service may send names without a constant here. The
// interface does not say which operation sends which event, nor the fields of the data.
type EventName string

// The events of the service, with their meaning from the interface.
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

func (s *WebhookSubscription) missing() *shapeError { return s.missingID("id", s.ID == uuid.Nil) }
