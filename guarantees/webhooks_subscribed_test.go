package guarantees_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

func partnerTarget() lending.WebhookTarget {
	return lending.ForPartner(lending.PartnerID(uuid.MustParse(lendingtest.PartnerID)))
}

// subscriber returns a client that has signed in, and how to count what it registers.
func subscriber(t *testing.T, opts ...lendingtest.Option) (*lendingtest.Server, *lending.Client, func() int) {
	t.Helper()
	fake.NeedsControl(t)
	registered := 0
	service := lendingtest.NewServer(append(opts, lendingtest.WithRequestLog(func(r lendingtest.Request) {
		if strings.HasSuffix(r.Path, "/register") {
			registered++
		}
	}))...)
	t.Cleanup(service.Close)
	client, err := lending.New(service.URL, lending.WithHTTPClient(service.Client()), lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password), TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
	}))
	require.NoError(t, err)
	return service, client, func() int { return registered }
}

func TestEnsureIsSafeToRepeat(t *testing.T) {
	t.Parallel()
	_, client, registered := subscriber(t)
	ensure := func(uri string, events ...lending.EventName) *lending.EnsuredSubscription {
		t.Helper()
		e, err := client.Webhooks.Ensure(t.Context(), partnerTarget(), lending.WebhookSubscription{WebhookURI: uri, Webhooks: events})
		require.NoError(t, err)
		require.Equal(t, uri, e.Subscription.WebhookURI)
		require.False(t, e.Subscription.Secret.IsZero())
		return e
	}
	type did struct{ created, uri, events bool }
	var secret string
	for i, test := range []struct {
		uri    string
		events []lending.EventName
		want   did
		calls  int
	}{
		{"https://partner.example/a", []lending.EventName{lending.EventLoanOpened, lending.EventLoanClosed}, did{created: true}, 1},
		{"https://partner.example/a", []lending.EventName{lending.EventLoanOpened, lending.EventLoanClosed}, did{}, 1},
		{"https://partner.example/a", []lending.EventName{lending.EventLoanClosed, lending.EventLoanOpened, lending.EventLoanOpened}, did{}, 1},
		{"https://partner.example/b", []lending.EventName{lending.EventLoanOpened, lending.EventLoanClosed}, did{uri: true}, 2},
		{"https://partner.example/b", []lending.EventName{lending.EventLoanOpened}, did{events: true}, 3},
		{"https://partner.example/c", nil, did{uri: true, events: true}, 4},
		{"https://partner.example/c", nil, did{}, 4},
		{"https://partner.example/c", lending.EventNames(), did{}, 4}, // all, spelled out
	} {
		e := ensure(test.uri, test.events...)
		require.Equal(t, test.want, did{e.Created, e.URIChanged, e.EventsChanged}, "step %d", i)
		require.Equal(t, test.want != did{}, e.Changed())
		require.Equal(t, test.calls, registered(), "step %d", i)
		if secret == "" {
			secret = e.Subscription.Secret.Reveal()
		}
		require.Equal(t, secret, e.Subscription.Secret.Reveal(), "the secret was changed")
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", e, e, e), secret)
	}
}

func TestEnsureRefuses(t *testing.T) {
	t.Parallel()
	_, client, registered := subscriber(t)
	var argument *lending.ArgumentError
	_, err := client.Webhooks.Ensure(t.Context(), partnerTarget(), lending.WebhookSubscription{WebhookURI: "http://partner.example"})
	require.ErrorAs(t, err, &argument)
	_, err = client.Webhooks.Ensure(t.Context(), lending.WebhookTarget{}, lending.WebhookSubscription{WebhookURI: "https://partner.example"})
	require.ErrorAs(t, err, &argument)
	_, err = client.Webhooks.Ensure(t.Context(), lending.WebhookTarget{}, lending.WebhookSubscription{WebhookURI: "http://partner.example"})
	require.ErrorAs(t, err, &argument)
	require.Len(t, argument.Fields, 2, "both at once")
	_, err = client.Webhooks.Ensure(t.Context(), partnerTarget(), lending.WebhookSubscription{WebhookURI: "https://partner.example", Webhooks: []lending.EventName{"WB_Moon_Landed"}})
	require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
	require.Equal(t, 1, registered())
}

// An http receiver is for this machine, and only of a service that is on it too.
func TestHTTPReceiversStayOnThisMachine(t *testing.T) {
	t.Parallel()
	const beside, elsewhere = "http://127.0.0.1:8080/lending", "https://service.example"
	for _, test := range []struct {
		base, uri string
		sent      bool
	}{
		{beside, "http://127.0.0.1:9090/hooks", true},
		{"http://localhost", "http://[::1]/hooks", true},
		{"https://[::1]:8443", "HTTP://LocalHost:1", true},
		{beside, "https://partner.example/hooks", true},
		{beside, "http://partner.example/hooks", false},
		{beside, "http://127.0.0.1.partner.example", false},
		{beside, "http://localhost.partner.example", false},
		{beside, "http://user@localhost", false},
		{beside, "http://", false},
		{beside, "ftp://127.0.0.1", false},
		{elsewhere, "http://127.0.0.1:9090/hooks", false},
		{elsewhere, "http://localhost", false},
		{"https://127.0.0.1.service.example", "http://localhost", false},
		{elsewhere, "https://partner.example/hooks", true},
		{elsewhere, "https://127.0.0.1/hooks", true},
	} {
		sent := 0
		service := &http.Client{Transport: memory(func(*http.Request) string {
			sent++
			return `{"id":"11111111-2222-3333-4444-555555555555","webhookUri":"` + test.uri + `","isActive":true,"secret":"whs_x"}`
		})}
		client := wire.NewClient(t, test.base, lending.WithHTTPClient(service), lending.WithTokenSource(lending.StaticToken("test-token")))
		want := lending.WebhookSubscription{WebhookURI: test.uri}
		for way, send := range map[string]func() error{
			"Register":  func() error { return client.Webhooks.Register(t.Context(), partnerTarget(), want) },
			"UpdateURI": func() error { return client.Webhooks.UpdateURI(t.Context(), partnerTarget(), test.uri) },
			"Ensure":    func() error { return second(client.Webhooks.Ensure(t.Context(), partnerTarget(), want)) },
		} {
			sent = 0
			if err := send(); test.sent {
				require.NoError(t, err, "%s %s at %s", way, test.uri, test.base)
			} else {
				require.Contains(t, catalog.Refused(t, err), "webhookUri", "%s %s at %s", way, test.uri, test.base)
			}
			require.Equal(t, test.sent, sent > 0, "%s %s at %s", way, test.uri, test.base)
		}
	}
}

// The service in process posts its events to such a receiver, if it may.
func TestHTTPReceiverFromEndToEnd(t *testing.T) {
	t.Parallel()
	arrived := make(chan []byte, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		arrived <- body
	}))
	defer receiver.Close()
	want := lending.WebhookSubscription{WebhookURI: receiver.URL}

	_, client, _ := subscriber(t)
	_, err := client.Webhooks.Ensure(t.Context(), partnerTarget(), want)
	require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err), "as the service itself refuses it")

	service, client, _ := subscriber(t, lendingtest.WithLoopbackReceivers())
	ensured, err := client.Webhooks.Ensure(t.Context(), partnerTarget(), want)
	require.NoError(t, err)
	require.NoError(t, client.Webhooks.UpdateURI(t.Context(), partnerTarget(), receiver.URL+"/hooks"))
	require.NoError(t, client.Webhooks.Simulate(t.Context(), partnerTarget(), lending.EventLoanCreated))
	require.NoError(t, service.Wait(t.Context()))
	delivery := service.Deliveries()[0]
	require.Equal(t, http.StatusOK, delivery.Status)
	require.NoError(t, lending.Verify(ensured.Subscription.Secret.Reveal(), <-arrived, delivery.Signature))
	require.ErrorContains(t, client.Webhooks.UpdateURI(t.Context(), partnerTarget(), "http://partner.example"), "webhookUri must be an https address")
}

// What the service makes of a registration is scripted here: what was there before,
// how it answers, and what it reads back.
func TestEnsureBelievesOnlyWhatReadsBack(t *testing.T) {
	t.Parallel()
	const good = `{"id":"11111111-2222-3333-4444-555555555555","webhookUri":"https://partner.example/a","isActive":true,"webhooks":[],"secret":"whs_x"}`
	for name, test := range map[string]struct {
		before  int
		answer  int
		after   string
		outcome error
	}{
		"saved":                      {204, 200, good, nil},
		"none is 404":                {404, 200, good, nil},
		"none is 400":                {400, 200, good, nil},
		"success, nothing saved":     {204, 200, ``, lending.ErrNotSaved},
		"success, another address":   {204, 200, strings.Replace(good, "/a", "/b", 1), lending.ErrNotSaved},
		"success, other events":      {204, 200, strings.Replace(good, "[]", `["WB_Loan_Opened"]`, 1), lending.ErrNotSaved},
		"success, no secret":         {204, 200, strings.Replace(good, "whs_x", "", 1), lending.ErrNotSaved},
		"success, inactive":          {204, 200, strings.Replace(good, "true", "false", 1), lending.ErrInactive},
		"unknown, but it was saved":  {204, 502, good, nil},
		"unknown, and was not saved": {204, 502, ``, lending.ErrOutcomeUnknown},
		"refused":                    {204, 403, good, lending.ErrForbidden},
		"cannot be read":             {403, 200, good, lending.ErrForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registered := false
			client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPost:
					sent, err := io.ReadAll(r.Body)
					assert.NoError(t, err)
					assert.Contains(t, string(sent), `"isActive":true`)
					registered = true
					w.WriteHeader(test.answer)
				case !registered:
					w.WriteHeader(test.before)
				case test.after == "":
					w.WriteHeader(http.StatusNoContent)
				default:
					wire.Answer(200, test.after)(w, r)
				}
			})
			e, err := client.Webhooks.Ensure(t.Context(), partnerTarget(), lending.WebhookSubscription{WebhookURI: "https://partner.example/a"})
			require.ErrorIs(t, err, test.outcome)
			if test.outcome == nil {
				require.NoError(t, err)
				require.True(t, e.Created)
			}
		})
	}
}

// What was there before, with the address and the events that are wanted, must work too.
func TestEnsureProvesWhatItLeaves(t *testing.T) {
	t.Parallel()
	const good = `{"id":"11111111-2222-3333-4444-555555555555","webhookUri":"https://partner.example/a","isActive":true,"webhooks":[],"secret":"whs_x"}`
	for body, want := range map[string]error{
		good:                                  nil,
		strings.Replace(good, "whs_x", "", 1): lending.ErrNotSaved,
		strings.Replace(good, "true", "false", 1): lending.ErrInactive,
		`{}`: lending.ErrNotSaved, // which is none, before and after
		strings.Replace(good, "11111111-2222-3333-4444-555555555555", "00000000-0000-0000-0000-000000000000", 1): lending.ErrNotSaved,
	} {
		e, err := wire.Serve(t, wire.Answer(200, body)).Webhooks.Ensure(t.Context(), partnerTarget(), lending.WebhookSubscription{WebhookURI: "https://partner.example/a"})
		require.ErrorIs(t, err, want)
		require.Equal(t, want == nil, e != nil && !e.Changed())
	}
}

// Register, read back, simulate, update the address, unregister: at the service in
// process, whose deliveries this package's receiver takes.
func TestSubscriptionFromEndToEnd(t *testing.T) {
	t.Parallel()
	secrets := make(chan lending.Secret, 1)
	var secret lending.Secret
	events := make(chan *webhook.Event, 10)
	receiver := newReceiver(t, func(*http.Request) ([]lending.Secret, error) {
		select {
		case secret = <-secrets:
		default:
		}
		return []lending.Secret{secret}, nil
	}, webhook.Once(webhook.NewMemoryDeduper(nil), func(_ context.Context, event *webhook.Event) error {
		events <- event
		return nil
	}), nil)
	service, client, _ := subscriber(t, lendingtest.WithDeliveryClient(&http.Client{Transport: inProcess{receiver}}))
	target := partnerTarget()
	ensured, err := client.Webhooks.Ensure(t.Context(), target, lending.WebhookSubscription{WebhookURI: "https://partner.example/a"})
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
	require.Equal(t, lending.EventLoanCreated, (<-events).Name)

	service.SetDeliveryMode(lendingtest.DeliveryMode{Copies: 1})
	require.NoError(t, client.Webhooks.Simulate(t.Context(), target, lending.EventApplicationCreated))
	require.Equal(t, []int{204, 204, 204}, statuses())
	require.Equal(t, lending.EventApplicationCreated, (<-events).Name)

	service.SetDeliveryMode(lendingtest.DeliveryMode{BadSignature: true})
	require.NoError(t, client.Webhooks.Simulate(t.Context(), target, lending.EventLoanCreated))
	service.SetDeliveryMode(lendingtest.DeliveryMode{NoSignature: true})
	require.NoError(t, client.Webhooks.Simulate(t.Context(), target, lending.EventLoanCreated))
	require.Equal(t, []int{204, 204, 204, 401, 401}, statuses())
	require.Empty(t, events, "a duplicate or a forgery was handled")

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

// inProcess is a transport that calls a handler.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

// The service in process has the interface's catalogue as a transcription of its own.
func TestEventNamesAreTheCatalogue(t *testing.T) {
	source, err := os.ReadFile("../lendingtest/webhook_event.go")
	require.NoError(t, err)
	catalogue, _, _ := strings.Cut(string(source), "// target")
	var want []lending.EventName
	for _, name := range regexp.MustCompile(`"(WB_\w+)"`).FindAllStringSubmatch(catalogue, -1) {
		want = append(want, lending.EventName(name[1]))
	}
	require.Len(t, want, 22)
	require.Equal(t, want, lending.EventNames())
}
