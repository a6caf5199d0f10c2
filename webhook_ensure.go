package lending

import (
	"context"
	"errors"
	"net/http"
	"slices"
)

// EnsuredSubscription is what [WebhooksService.Ensure] found and did.
type EnsuredSubscription struct {
	Subscription  WebhookSubscription // as the service has it now, with its secret
	Created       bool                // there was none
	URIChanged    bool                // it had another address
	EventsChanged bool                // it had other events
}

// Changed reports whether anything had to be done.
func (e *EnsuredSubscription) Changed() bool { return e.Created || e.URIChanged || e.EventsChanged }

// What [WebhooksService.Ensure] fails with.
var (
	// ErrNotSaved means that the service reported success and has not saved what was
	// sent, or that what it has is without a secret.
	ErrNotSaved = errors.New("lending: webhook subscription: it reads back otherwise, or without a secret")
	// ErrInactive means that the service has the subscription and sends it nothing,
	// because it is not active.
	ErrInactive = errors.New("lending: webhook subscription: it is not active")
)

// Ensure makes the target's subscription have the address and the events of want, and
// returns it as it reads back, with its secret. It may be called on every deploy: it
// registers only what is missing or differs, and does not change the secret.
//
// It reads with [WebhooksService.Subscription], registers with
// [WebhooksService.Register] if it must, and reads again: success alone proves no
// save. An unknown outcome is settled by that read. Without an error the subscription is
// one that works: the error is [ErrNotSaved] if the service has something else, and
// [ErrInactive] if it is switched off, which may be meant so. Ensure registers as
// active whatever want says; no route is known to switch on one that there is.
func (s *WebhooksService) Ensure(ctx context.Context, target WebhookTarget, want WebhookSubscription) (*EnsuredSubscription, error) {
	want.IsActive = true
	if _, err := (&request{query: []param{target.param()}, body: want, also: s.receiver(want.WebhookURI)}).prepare(); err != nil {
		return nil, err
	}
	was, err := s.Subscription(ctx, target)
	if err != nil && !isUnsubscribed(err) {
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
		case isUnsubscribed(err):
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

// isUnsubscribed reports whether err of Subscription can mean that there is none. It takes
// more for that than [Absent] does, a subscription without its id too: if it means something
// else, Register says so.
func isUnsubscribed(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	part, lost := errors.AsType[*shapeError](err)
	return Absent(err) || ok && (failed.StatusCode == http.StatusNotFound || failed.StatusCode == http.StatusBadRequest) || lost && part.path == "id"
}

// sameEvents compares two lists as sets. None means all, which may also be spelled out.
func sameEvents(a, b []EventName) bool {
	return isAll(a) && isAll(b) || slices.Equal(sorted(a), sorted(b))
}

func isAll(events []EventName) bool {
	return len(events) == 0 || !slices.ContainsFunc(EventNames(), func(name EventName) bool { return !slices.Contains(events, name) })
}

func sorted(events []EventName) []EventName {
	return slices.Compact(slices.Sorted(slices.Values(events)))
}
