package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

const subscriptionRoute = "GET /api/Webhook/get-subscription"

var target = lending.ForPartner(fake.Must(lending.ParsePartnerID(lendingtest.PartnerID)))

// newConsumer returns a consumer of the partner's events.
func newConsumer(
	client *lending.Client, inbox webhook.Inbox, handle webhook.EventFunc, opts *webhook.ConsumerOptions,
) *webhook.Consumer {
	subscription := lending.WebhookSubscription{WebhookURI: "https://partner.example/webhooks"}
	return fake.Must(webhook.NewConsumer(client, target, subscription, inbox, handle, opts))
}

// consumed is a consumer at a service in a bubble.
type consumed struct {
	*webhook.Consumer
	service *lendingtest.Service
	client  *lending.Client
	events  chan lending.EventName
	log     bytes.Buffer
	stop    func() error // ends Run
}

func consuming(t *testing.T, opts webhook.ConsumerOptions, test func(t *testing.T, c *consumed)) {
	t.Helper()
	consumingAfter(t, lendingtest.Fault{}, opts, test)
}

// consumingAfter is consuming, with a fault of the subscription from before the first request.
func consumingAfter(
	t *testing.T, fault lendingtest.Fault, opts webhook.ConsumerOptions, test func(t *testing.T, c *consumed),
) {
	t.Helper()
	c := &consumed{events: make(chan lending.EventName, 10)}
	late := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.ServeHTTP(w, r) })
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		c.service, c.client = service, fake.SignIn(t, service, nil)
		opts.Logger = slog.New(slog.NewTextHandler(&c.log, nil))
		c.Consumer = newConsumer(c.client, webhook.NewMemoryInbox(), func(_ context.Context, event *webhook.Event) error {
			c.events <- event.Name
			return nil
		}, &opts)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		c.service.Fail(subscriptionRoute, fault)
		go func() { ended <- c.Run(ctx, nil) }()
		c.stop = func() error {
			cancel()
			return <-ended
		}
		test(t, c)
	}, lendingtest.WithDeliveryClient(&http.Client{Transport: inProcess{late}}))
}

// deliver has the service deliver an event, and returns the status of the answer.
func (c *consumed) deliver(t *testing.T, mode lendingtest.DeliveryMode) int {
	t.Helper()
	c.service.SetDeliveryMode(mode)
	require.NoError(t, c.client.Webhooks.Simulate(t.Context(), target, lending.EventLoanCreated))
	require.NoError(t, c.service.Wait(t.Context()))
	deliveries := c.service.Deliveries()
	return deliveries[len(deliveries)-1].Status
}

// The service is down when the program starts. The consumer subscribes when the service is back.
func TestConsumerSubscribesWhenTheServiceIsBack(t *testing.T) {
	swept, checked, audited := make(chan struct{}, 10), make(chan *lending.Client, 1000), make(chan *lending.Client, 10)
	down := lendingtest.Fault{Status: http.StatusServiceUnavailable, Times: 40}
	consumingAfter(t, down, webhook.ConsumerOptions{Sweep: func(context.Context) (int, error) {
		swept <- struct{}{}
		switch len(swept) {
		case 1:
			panic("sweeps")
		case 2:
			return 0, errors.New("a failure")
		}
		return 0, nil
	}, Check: func(_ context.Context, client *lending.Client) (time.Duration, error) {
		checked <- client
		if len(checked) < 3 {
			panic("checks")
		}
		return time.Hour, nil
	}, Audit: func(_ context.Context, client *lending.Client) (time.Duration, error) {
		audited <- client
		return 24 * time.Hour, nil
	}}, func(t *testing.T, c *consumed) {
		bubble.Elapse(time.Millisecond)
		require.EqualError(t, c.Ready(t.Context()),
			"lending/webhook: consumer: not subscribed yet; see the log of the consumer")
		bubble.Elapse(time.Minute)
		require.Error(t, c.Ready(t.Context()), "it tries again after growing pauses")
		for range 540 {
			bubble.Elapse(time.Second)
		}
		synctest.Wait()
		require.NoError(t, c.Ready(t.Context()))
		require.Contains(t, c.log.String(), `msg="lending/webhook: consumer: subscribing"`)
		require.Equal(t, http.StatusNoContent, c.deliver(t, lendingtest.DeliveryMode{}))
		require.Equal(t, lending.EventLoanCreated, <-c.events)
		bubble.Elapse(25 * time.Hour)
		synctest.Wait()
		require.Len(t, swept, 4, "after a minute twice, then once a day")
		require.Contains(t, c.log.String(), `msg="lending/webhook: consumer: sweeping"`)
		require.Contains(t, c.log.String(), `msg="lending/webhook: consumer: checking"`)
		require.InDelta(t, 27, len(checked), 1, "after a minute twice, then once an hour")
		require.Same(t, c.client, <-checked)
		require.Len(t, audited, 2)
		require.Same(t, c.client, <-audited)
		require.NoError(t, c.stop())
	})
}

// The consumer finds a new secret after the first delivery with its signature. The secret before stays
// valid for an hour.
func TestConsumerFollowsARotatedSecret(t *testing.T) {
	consuming(t, webhook.ConsumerOptions{Refresh: 24 * time.Hour}, func(t *testing.T, c *consumed) {
		bubble.Elapse(time.Second)
		require.Equal(t, http.StatusNoContent, c.deliver(t, lendingtest.DeliveryMode{}))
		bubble.Elapse(time.Hour)
		subscription := fake.Must(c.client.Webhooks.Subscription(t.Context(), target))
		var old string
		c.service.UpdateSubscription(subscription.ID.String(), func(s *lendingtest.Subscription) {
			old, s.Secret = s.Secret, "whs_"+strings.Repeat("ab", 16)
		})
		require.Equal(t, http.StatusUnauthorized, c.deliver(t, lendingtest.DeliveryMode{}))
		bubble.Elapse(2 * time.Minute)
		require.Equal(t, http.StatusNoContent, c.deliver(t, lendingtest.DeliveryMode{}))
		require.Equal(t, http.StatusNoContent, c.deliver(t, lendingtest.DeliveryMode{Secret: old}))
		reads := c.service.Arrived(subscriptionRoute)
		for range 60 {
			require.Equal(t, http.StatusUnauthorized, c.deliver(t, lendingtest.DeliveryMode{Secret: "guess"}))
			bubble.Elapse(time.Second)
		}
		require.LessOrEqual(t, c.service.Arrived(subscriptionRoute)-reads, 2, "a flood of forgeries reads no faster")
		bubble.Elapse(time.Hour)
		require.Equal(t, http.StatusUnauthorized, c.deliver(t, lendingtest.DeliveryMode{Secret: old}))
		require.NoError(t, c.stop())
	})
}

// Somebody switches the subscription off, or changes it: Ready and the log tell within Refresh, and
// Ready is nil after the repair. The reads are Refresh apart.
func TestConsumerNoticesThatItsSubscriptionIsOff(t *testing.T) {
	consuming(t, webhook.ConsumerOptions{}, func(t *testing.T, c *consumed) {
		bubble.Elapse(time.Second)
		require.NoError(t, c.Ready(t.Context()))
		before := c.service.Arrived(subscriptionRoute)
		bubble.Elapse(100 * time.Minute)
		require.Equal(t, 10, c.service.Arrived(subscriptionRoute)-before)
		id := fake.Must(c.client.Webhooks.Subscription(t.Context(), target)).ID.String()
		for _, tt := range []struct {
			want   string
			change func(s *lendingtest.Subscription)
		}{
			{"switched off", func(s *lendingtest.Subscription) { s.IsActive = false }},
			{"another address", func(s *lendingtest.Subscription) { s.WebhookURI = "https://partner.example/b" }},
			{"other events", func(s *lendingtest.Subscription) { s.Webhooks = []string{"WB_Loan_Closed"} }},
		} {
			var was lendingtest.Subscription
			c.service.UpdateSubscription(id, func(s *lendingtest.Subscription) { was = *s; tt.change(s) })
			bubble.Elapse(11 * time.Minute)
			require.ErrorContains(t, c.Ready(t.Context()), tt.want)
			require.Contains(t, c.log.String(), tt.want)
			c.service.UpdateSubscription(id, func(s *lendingtest.Subscription) { *s = was })
			bubble.Elapse(11 * time.Minute)
			require.NoError(t, c.Ready(t.Context()))
		}
		subscription := fake.Must(c.client.Webhooks.Subscription(t.Context(), target))
		require.NoError(t, c.client.Webhooks.Unregister(t.Context(), target, *subscription))
		bubble.Elapse(11 * time.Minute)
		require.ErrorContains(t, c.Ready(t.Context()), "no subscription")
		require.NoError(t, c.stop())
	})
}

// unready is an inbox without a store.
type unready struct{ *webhook.MemoryInbox }

func (unready) Ready(context.Context) error { return errors.New("the disk is gone") }

// An observer of the client panics in the consumer's own calls, and the inbox is not ready.
func TestConsumerIsNotReadyWithoutItsInbox(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		panics := true
		observe := func(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
			if panics {
				panics = false
				panic("observer")
			}
			return ctx, func(lending.Call) {}
		}
		client := fake.SignIn(t, service, nil, lending.WithObserver(observe, nil))
		consumer := newConsumer(client, unready{webhook.NewMemoryInbox()}, acceptAll, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- consumer.Run(ctx, nil) }()
		bubble.Elapse(time.Minute)
		require.EqualError(t, consumer.Ready(t.Context()), "the disk is gone")
		cancel()
		require.NoError(t, <-ended)
	})
}

// slowInbox holds a Put until it is released.
type slowInbox struct {
	*webhook.MemoryInbox
	putting, release chan struct{}
}

func (s slowInbox) Put(ctx context.Context, event *webhook.Event) error {
	s.putting <- struct{}{}
	<-s.release
	return s.MemoryInbox.Put(ctx, event)
}

// A delivery and a call of the function are in progress when the context ends: Run waits for the
// delivery first, and for the call then.
func TestConsumerShutsDownInOrder(t *testing.T) {
	t.Parallel()
	_, client := fake.Start(t)
	inbox := slowInbox{webhook.NewMemoryInbox(), make(chan struct{}, 1), make(chan struct{})}
	handling, release := make(chan struct{}, 2), make(chan struct{})
	require.NoError(t, inbox.MemoryInbox.Put(t.Context(), &webhook.Event{Name: "before"}))
	consumer := newConsumer(client, inbox, func(context.Context, *webhook.Event) error {
		handling <- struct{}{}
		<-release
		return nil
	}, nil)
	server := &http.Server{}
	ctx, cancel := context.WithCancel(t.Context())
	address, ended := serve(ctx, consumer, server)
	url := "http://" + address
	<-handling
	require.Eventually(t, func() bool { return consumer.Ready(t.Context()) == nil }, time.Minute, time.Millisecond)
	subscription := fake.Must(client.Webhooks.Subscription(t.Context(), target))
	status := make(chan int, 1)
	go func() {
		status <- deliver(t, url, delivery.Body, lending.Sign(subscription.Secret.Reveal(), []byte(delivery.Body)))
	}()
	<-inbox.putting
	cancel()
	select {
	case err := <-ended:
		t.Fatalf("Run returned %v while a delivery and a call were in progress", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(inbox.release)
	require.Equal(t, http.StatusNoContent, <-status, "the delivery in progress was not accepted")
	select {
	case err := <-ended:
		t.Fatalf("Run returned %v while a call was in progress", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	require.NoError(t, <-ended)
	require.Equal(t, 10*time.Second, server.ReadHeaderTimeout)
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Zero(t, counts.Running, "Run returned before the end of a call")
	require.LessOrEqual(t, counts.Waiting, 1)
}

func TestConsumerEndsOnAMistake(t *testing.T) {
	t.Parallel()
	_, client := fake.Start(t)
	consumer := func(uri string) *webhook.Consumer {
		return fake.Must(webhook.NewConsumer(client, target, lending.WebhookSubscription{WebhookURI: uri},
			webhook.NewMemoryInbox(), acceptAll, nil))
	}
	var refused *lending.ArgumentError
	require.ErrorAs(t, consumer("http://partner.example").Run(t.Context(), nil), &refused)
	server := &http.Server{Addr: "256.0.0.1:http", ReadHeaderTimeout: time.Minute}
	require.Error(t, consumer("https://partner.example").Run(t.Context(), server))
	_, err := webhook.NewConsumer(nil, target, lending.WebhookSubscription{}, webhook.NewMemoryInbox(), acceptAll, nil)
	require.Error(t, err)
}

// An invalid argument elsewhere, for example an empty password of a vault, is no mistake of the subscription.
func TestConsumerOutlivesABadArgument(t *testing.T) {
	var bad atomic.Bool
	for _, test := range []struct {
		name    string
		sign    func(*lending.Credentials)
		options []lending.Option
	}{
		{"password", func(c *lending.Credentials) {
			username, password := c.Username, c.Password
			c.Current = func(context.Context) (string, lending.Secret, error) {
				if bad.Load() {
					return username, lending.Secret{}, nil
				}
				return username, password, nil
			}
		}, nil},
		{"header", nil, []lending.Option{lending.WithHeader(func(_ context.Context, header http.Header) {
			if bad.Load() {
				header.Set("Baggage", strings.Repeat("a", 9000))
			}
		})}},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				client := fake.SignIn(t, service, test.sign, test.options...)
				consumer := newConsumer(client, webhook.NewMemoryInbox(), acceptAll, nil)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				bad.Store(true)
				go func() { ended <- consumer.Run(ctx, nil) }()
				for range 2 { // while the consumer subscribes, and while it reads the subscription
					bubble.Elapse(20 * time.Minute)
					require.Empty(t, ended)
					bad.Store(false)
					bubble.Elapse(10 * time.Minute)
					require.NoError(t, consumer.Ready(ctx))
					bad.Store(true)
				}
				cancel()
				require.NoError(t, <-ended)
			}, lendingtest.WithDeliveryClient(&http.Client{Transport: inProcess{http.NotFoundHandler()}}))
		})
	}
}

// serve runs a consumer with a server on a free port until ctx ends.
func serve(ctx context.Context, consumer *webhook.Consumer, server *http.Server) (address string, ended <-chan error) {
	listening, result := make(chan string, 1), make(chan error, 1)
	server.Addr, server.Handler = "127.0.0.1:0", consumer
	server.BaseContext = func(l net.Listener) context.Context {
		listening <- l.Addr().String()
		return context.WithoutCancel(ctx)
	}
	go func() { result <- consumer.Run(ctx, server) }()
	return <-listening, result
}

// inProcess is a transport to a handler.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestConsumerServesHTTPSWithACertificate starts servers with a certificate in each place of a TLSConfig, and
// servers without one.
func TestConsumerServesHTTPSWithACertificate(t *testing.T) {
	t.Parallel()
	_, client := fake.Start(t)
	with := httptest.NewUnstartedServer(nil)
	with.StartTLS()
	defer with.Close()
	certificates := with.TLS.Certificates
	own := &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12}
	for _, test := range []struct {
		name, scheme string
		config       *tls.Config
	}{
		{"none", "http", nil},
		{"config without a certificate", "http", &tls.Config{MinVersion: tls.VersionTLS13}},
		{"Certificates", "https", own},
		{"GetCertificate", "https", &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &certificates[0], nil
		}, MinVersion: tls.VersionTLS12}},
		{"GetConfigForClient", "https", &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return own, nil
		}, MinVersion: tls.VersionTLS12}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			address, ended := serve(ctx, newConsumer(client, webhook.NewMemoryInbox(), acceptAll, nil),
				&http.Server{TLSConfig: test.config, ReadHeaderTimeout: time.Minute})
			response, err := with.Client().Get(test.scheme + "://" + address)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
			with.Client().CloseIdleConnections()
			cancel()
			require.NoError(t, <-ended)
		})
	}
}
