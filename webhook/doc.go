// Package webhook receives the events of the service.
//
// [NewReceiver] returns an [http.Handler] that verifies the signature of each delivery and
// calls your function with the event:
//
//	secret := ensured.Subscription.Secret // from client.Webhooks.Ensure
//	receiver, err := webhook.NewReceiver(webhook.SignedWith(secret), handle, nil)
//	…
//	http.Handle("/webhooks", receiver)
//
// The service waits for the answer. If the work is short, wrap handle in [Once], which skips
// deliveries that were handled before. If the work is long or can fail, put events into an
// [Inbox], which answers the service as soon as the event is stored, and run [Work]:
//
//	receiver, err := webhook.NewReceiver(webhook.SignedWith(secret), inbox.Put, nil)
//	…
//	http.Handle("/webhooks", receiver)
//	go webhook.Work(ctx, inbox, handle, nil)
//
// The modules contrib/bolt, contrib/redis and contrib/postgres store inboxes.
package webhook
