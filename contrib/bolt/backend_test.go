package lendingbolt_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

var handled = make(chan struct{}, 1000)

func loanCreated(context.Context, *webhook.Event) error {
	handled <- struct{}{}
	return nil
}

func unknownEvent(context.Context, *webhook.Event) error { return nil }

// unkept shares no connection with http.DefaultTransport, whose connections the end of any httptest.Server closes.
var unkept = &http.Transport{DisableKeepAlives: true}

// toAddress sends every request to the same address, like the proxy in front of the program.
type toAddress string

func (a toAddress) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", string(a)
	return unkept.RoundTrip(r)
}

// The program of README starts, receives an event, and ends in order.
func TestBackend(t *testing.T) {
	t.Chdir(t.TempDir())
	address := make(chan string, 1)
	server := &http.Server{
		Addr: "127.0.0.1:0", ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(l net.Listener) context.Context {
			address <- l.Addr().String()
			return t.Context()
		},
	}
	var receiver toAddress
	service := lendingtest.NewServer(lendingtest.WithDeliveryClient(&http.Client{Transport: &receiver}))
	defer service.Close()
	credentials := lending.Credentials{
		Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
		TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
	}
	partner, err := lending.ParsePartnerID(lendingtest.PartnerID)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, service.URL, credentials, partner, server) }()
	receiver = toAddress(<-address)
	client, err := lending.New(service.URL, lending.WithCredentials(credentials))
	require.NoError(t, err)
	defer client.Close()
	require.Eventually(t, func() bool { // the program subscribes meanwhile
		_ = client.Webhooks.Simulate(t.Context(), lending.ForPartner(partner), lending.EventLoanCreated)
		select {
		case <-handled:
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	}, time.Minute, time.Millisecond, "no event was handled")
	cancel()
	require.NoError(t, <-ended)
	inbox, err := lendingbolt.OpenInbox("webhooks.db", nil)
	require.NoError(t, err, "the inbox is closed")
	require.NoError(t, inbox.Close())
}
