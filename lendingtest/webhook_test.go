package lendingtest_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// receiver takes deliveries.
type receiver struct {
	*httptest.Server
	t *testing.T

	mu   sync.Mutex
	got  []delivered
	code int
}

type delivered struct {
	body      []byte
	signature string
	header    http.Header
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, code: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, delivered{body, req.Header.Get("abp-webhook-signature"), req.Header})
		w.WriteHeader(r.code)
	}))
	t.Cleanup(r.Close)
	return r
}

// answer sets the status of the later responses.
func (r *receiver) answer(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.code = code
}

func (r *receiver) all() []delivered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]delivered{}, r.got...)
}

type envelope struct {
	ID, WebhookEvent, CreationTimeUtc string
	Data                              map[string]any
}

func (r *receiver) events() (names []string) {
	for _, d := range r.all() {
		var e envelope
		require.NoError(r.t, json.Unmarshal(d.body, &e))
		names = append(names, e.WebhookEvent)
	}
	return names
}

// verified wants every signature to be right, computed here in a way of its own.
func (r *receiver) verified(secret string) (bodies [][]byte) {
	for _, d := range r.all() {
		require.Equal(r.t, signature(secret, d.body), d.signature)
		bodies = append(bodies, d.body)
	}
	require.NotEmpty(r.t, bodies)
	return bodies
}

func signature(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + strings.ReplaceAll(fmt.Sprintf("% X", mac.Sum(nil)), " ", "-")
}

// subscribed is a rig whose partner is subscribed to a receiver.
func subscribed(t *testing.T, events ...string) (*rig, *receiver, lendingtest.Subscription) {
	t.Helper()
	receiver := newReceiver(t)
	r := newRig(t, lendingtest.WithLoopbackReceivers())
	sub := r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL, Webhooks: events})
	return r, receiver, sub
}

func (r *rig) wait() { r.t.Helper(); require.NoError(r.t, r.Wait(r.t.Context())) }

func TestDeliveryIsSigned(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "sha256=5C-4D-AA-5E-98-5F-0A-A0-45-95-10-72-3C-45-E1-5E-"+
		"DF-56-58-44-A0-43-51-77-49-5D-00-F8-03-E7-F0-2A",
		signature("whs_0123456789abcdef0123456789abcdef", []byte(`{"x":1}`)), "the reference vector")

	r, receiver, sub := subscribed(t, "WB_Application_Created")
	id := r.application()
	r.wait()
	body := receiver.verified(sub.Secret)[0]
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	var e envelope
	require.NoError(t, d.Decode(&e))
	assert.Equal(t, "WB_Application_Created", e.WebhookEvent)
	assert.Equal(t, id, e.Data["applicationId"])
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z$`, e.CreationTimeUtc)
	assert.Equal(t, "application/json; charset=utf-8", receiver.all()[0].header.Get("Content-Type"))
	requests := r.Deliveries()
	require.Len(t, requests, 1)
	assert.Equal(t, http.StatusOK, requests[0].Status)
	assert.Equal(t, body, requests[0].Body)
	assert.Equal(t, signature(sub.Secret, body), requests[0].Signature)
}

func TestDeliveriesMisbehaveOnDemand(t *testing.T) {
	t.Parallel()
	r, receiver, sub := subscribed(t, "WB_Communication_Sent")
	id := r.application()
	say := func(text string) { r.post("/api/Communication/post-messages/"+id, `{"message":"`+text+`"}`).ok() }
	said := func() (texts []string) {
		for _, d := range receiver.all() {
			var e envelope
			require.NoError(t, json.Unmarshal(d.body, &e))
			texts = append(texts, e.Data["message"].(string))
		}
		return texts
	}

	r.SetDeliveryMode(lendingtest.DeliveryMode{Hold: true})
	say("1")
	say("2")
	say("3")
	r.wait()
	assert.Empty(t, said(), "held")
	r.SetDeliveryMode(lendingtest.DeliveryMode{Reverse: true})
	r.wait()
	assert.Equal(t, []string{"3", "2", "1"}, said())

	r.SetDeliveryMode(lendingtest.DeliveryMode{Copies: 1})
	say("4")
	r.wait()
	all := receiver.all()
	require.Len(t, all, 5)
	assert.Equal(t, all[3], all[4], "byte for byte")
	receiver.verified(sub.Secret)

	r.SetDeliveryMode(lendingtest.DeliveryMode{Secret: "guess"})
	say("5")
	r.wait()
	last := receiver.all()[5]
	assert.NotEqual(t, signature(sub.Secret, last.body), last.signature)
	assert.Len(t, last.signature, 7+95)

	r.SetDeliveryMode(lendingtest.DeliveryMode{Delay: time.Millisecond})
	r.UpdateSubscription(sub.ID, func(s *lendingtest.Subscription) { s.Secret = "whs_new" })
	say("6")
	r.wait()
	last = receiver.all()[6]
	assert.Equal(t, signature("whs_new", last.body), last.signature, "a rotation")

	r.SetDeliveryMode(lendingtest.DeliveryMode{})
	r.UpdateSubscription(sub.ID, func(s *lendingtest.Subscription) { s.IsActive = false })
	say("7")
	r.wait()
	assert.Len(t, receiver.all(), 7, "an inactive subscription gets nothing")

	r.SetDeliveryMode(lendingtest.DeliveryMode{Delay: time.Hour})
	r.UpdateSubscription(sub.ID, func(s *lendingtest.Subscription) { s.IsActive = true })
	say("8")
	r.Close() // does not wait for an hour
}

// A receiver that never answers delays no other one, and each gets its events in order.
func TestSlowReceiverDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, lendingtest.WithLoopbackReceivers())
	reached, release, arrived := make(chan struct{}, 3), make(chan struct{}), make(chan string, 6)
	note := func(name string, req *http.Request) {
		var e envelope
		assert.NoError(t, json.NewDecoder(req.Body).Decode(&e))
		arrived <- name + " " + e.WebhookEvent
	}
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		reached <- struct{}{}
		<-release
		note("slow", req)
	}))
	defer slow.Close()
	prompt := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { note("prompt", req) }))
	defer prompt.Close()
	customer := r.AddCustomer(lendingtest.Customer{}).ID
	r.AddSubscription(lendingtest.Subscription{WebhookURI: slow.URL, CustomerID: customer})
	r.AddSubscription(lendingtest.Subscription{WebhookURI: prompt.URL, PartnerID: lendingtest.PartnerID})
	names := []string{"WB_Application_Created", "WB_Loan_Created", "WB_Communication_Sent"}
	for _, name := range names {
		for _, target := range []string{"customerId=" + customer, "partnerId=" + lendingtest.PartnerID} {
			r.post("/api/Webhook/generate-simulated-webhook?eventName="+name+"&"+target, "").ok()
		}
	}
	<-reached
	for _, name := range names {
		assert.Equal(t, "prompt "+name, <-arrived)
	}
	close(release)
	for _, name := range names {
		assert.Equal(t, "slow "+name, <-arrived)
	}
	r.wait()
	assert.Len(t, r.Deliveries(), 6)
}

func TestResetForgetsADeliveryInProgress(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 1)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		reached <- struct{}{}
		<-r.Context().Done()
	}))
	defer slow.Close()
	r := newRig(t, lendingtest.WithLoopbackReceivers())
	r.AddSubscription(lendingtest.Subscription{WebhookURI: slow.URL})
	r.application()
	<-reached
	r.Reset()
	r.wait()
	assert.Empty(t, r.Deliveries())
}

// What the receiver answers is noted, and never retried.
func TestDeliveryAnswers(t *testing.T) {
	t.Parallel()
	r, receiver, sub := subscribed(t, "WB_Application_Created")
	receiver.code = http.StatusInternalServerError
	r.application()
	r.wait()
	r.UpdateSubscription(sub.ID, func(s *lendingtest.Subscription) { s.WebhookURI = "http://127.0.0.1:1/" })
	r.application()
	r.wait()
	all := r.Deliveries()
	require.Len(t, all, 2)
	assert.Equal(t, 500, all[0].Status)
	assert.Zero(t, all[1].Status)
	assert.Contains(t, all[1].Err, "refused")
	assert.Len(t, receiver.all(), 1)
}

// Events of a customer's reach the customer's subscription, and nobody else's.
func TestDeliveryTargets(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	r := newRig(t, lendingtest.WithLoopbackReceivers())
	mineToo, other := r.AddCustomer(lendingtest.Customer{}).ID, r.AddCustomer(lendingtest.Customer{}).ID
	r.post("/api/Webhook/register?customerId="+mineToo, `{"webhookUri":"`+receiver.URL+
		`","webhooks":["WB_Application_Created"]}`).ok()
	r.post("/api/Application/create-application", `{"customerId":"`+other+`"}`).ok()
	id := r.post("/api/Application/create-application", `{"customerId":"`+mineToo+`"}`).text()
	r.wait()
	require.Len(t, receiver.all(), 1)
	assert.Contains(t, string(receiver.all()[0].body), id)
}
