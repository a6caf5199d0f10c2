package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

// Register, read back, simulate, update the address, unregister: at the service in
// process, whose deliveries this package's receiver takes.
func TestSubscriptionFromEndToEnd(t *testing.T) {
	t.Parallel()
	secrets := make(chan lending.Secret, 1)
	var secret lending.Secret
	inbox := webhook.NewMemoryInbox()
	receiver := newReceiver(t, func(*http.Request) ([]lending.Secret, error) {
		select {
		case secret = <-secrets:
		default:
		}
		return []lending.Secret{secret}, nil
	}, inbox.Put, nil)
	service, client := fake.Start(t, lendingtest.WithDeliveryClient(&http.Client{Transport: inProcess{receiver}}))
	target := lending.ForPartner(fake.Must(lending.ParsePartnerID(lendingtest.PartnerID)))
	want := lending.WebhookSubscription{WebhookURI: "https://partner.example/a"}
	ensured, err := client.Webhooks.Ensure(t.Context(), target, want)
	require.NoError(t, err)
	secrets <- ensured.Subscription.Secret

	statuses := func() (statuses []int) {
		require.NoError(t, service.Wait(t.Context()))
		for _, d := range service.Deliveries() {
			require.NoError(t, d.Err)
			statuses = append(statuses, d.Status)
		}
		return statuses
	}
	require.NoError(t, client.Webhooks.Simulate(t.Context(), target, lending.EventLoanCreated))
	require.Equal(t, []int{204}, statuses())
	require.Equal(t, lending.EventLoanCreated, take(t, inbox))

	service.SetDeliveryMode(lendingtest.DeliveryMode{Copies: 1})
	require.NoError(t, client.Webhooks.Simulate(t.Context(), target, lending.EventApplicationCreated))
	require.Equal(t, []int{204, 204, 204}, statuses())
	require.Equal(t, lending.EventApplicationCreated, take(t, inbox))

	service.SetDeliveryMode(lendingtest.DeliveryMode{BadSignature: true})
	require.NoError(t, client.Webhooks.Simulate(t.Context(), target, lending.EventLoanCreated))
	service.SetDeliveryMode(lendingtest.DeliveryMode{NoSignature: true})
	require.NoError(t, client.Webhooks.Simulate(t.Context(), target, lending.EventLoanCreated))
	require.Equal(t, []int{204, 204, 204, 401, 401}, statuses())
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, webhook.InboxCounts{Running: 2}, counts, "a duplicate or a forgery was stored")

	require.NoError(t, client.Webhooks.UpdateURI(t.Context(), target, "https://partner.example/b"))
	again, err := client.Webhooks.Subscription(t.Context(), target)
	require.NoError(t, err)
	require.Equal(t, "https://partner.example/b", again.WebhookURI)
	require.Equal(t, ensured.Subscription.Secret.Reveal(), again.Secret.Reveal())
	require.NoError(t, client.Webhooks.Unregister(t.Context(), target, *again))
	_, err = client.Webhooks.Subscription(t.Context(), target)
	require.ErrorIs(t, err, lending.ErrNoContent)
	require.Error(t, client.Webhooks.Simulate(t.Context(), target, lending.EventLoanCreated))
}

// take returns the name of the next event.
func take(t *testing.T, inbox webhook.Inbox) lending.EventName {
	t.Helper()
	entry, err := inbox.Take(t.Context())
	require.NoError(t, err)
	return entry.Event.Name
}

// inProcess is a transport to a handler.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	return w.Result(), nil
}
