// Package webhook receives the events of the service.
//
// [NewReceiver] returns an [http.Handler] that verifies the signature of each delivery and calls
// a function of yours with the event:
//
//	receiver, err := webhook.NewReceiver(webhook.SignedWith(secret), handle, nil)
//	…
//	http.Handle("/webhooks", receiver)
//
// The secret is in the subscription that [lending.WebhooksService.Ensure] returns.
//
// The service waits for the response, and may send an event twice. Store events in an [Inbox]:
// the receiver responds when the event is stored, repeated deliveries are skipped, and [Work]
// calls handle until handle succeeds:
//
//	receiver, err := webhook.NewReceiver(webhook.SignedWith(secret), inbox.Put, nil)
//	…
//	http.Handle("/webhooks", receiver)
//	go webhook.Work(ctx, inbox, handle, nil)
//
// [NewConsumer] does all of this, with the subscription, its secret and an orderly shutdown.
// [DeadLetters] lists, redrives and drops events whose tries all failed.
//
// [NewMemoryInbox] is for tests. The module contrib/bolt stores events in a file, for a single
// process; contrib/postgres stores them for several processes.
package webhook
