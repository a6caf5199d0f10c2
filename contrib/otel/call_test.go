package lendingotel_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

const callDuration = "lending.client.call.duration"

// TestCall has a read answered at its second attempt, with both observers.
func TestCall(t *testing.T) {
	service, tel, attempts := newService(t), newTelemetry(), newTelemetry()
	client := newClient(t, service, tel.observeCalls(lendingotel.WithBaseURL(service.URL)),
		lending.WithObserver(lendingotel.Observer(lendingotel.WithTracerProvider(tel.tracers),
			lendingotel.WithMeterProvider(attempts.meters))))
	loan := service.AddLoan(lendingtest.Loan{})
	service.Fail("GET "+getLoan, lendingtest.Fault{Status: http.StatusServiceUnavailable})

	before := time.Now()
	ctx, parent := tel.tracers.Tracer("caller").Start(t.Context(), "parent")
	_, err := client.Loans.Get(ctx, loanID(t, loan.ID))
	require.NoError(t, err)
	after := time.Now()

	spans := tel.spans.GetSpans()
	require.Len(t, spans, 3)
	call := spans[2]
	assert.Equal(t, "call GET "+getLoan, call.Name)
	assert.Equal(t, trace.SpanKindInternal, call.SpanKind)
	assert.Equal(t, sdktrace.Status{}, call.Status)
	assert.Equal(t, parent.SpanContext().SpanID(), call.Parent.SpanID())
	assert.False(t, call.StartTime.Before(before), "the span began before the call")
	assert.False(t, call.EndTime.After(after), "the span ended after the call")
	for _, attempt := range spans[:2] {
		assert.Equal(t, "GET "+getLoan, attempt.Name)
		assert.Equal(t, call.SpanContext.SpanID(), attempt.Parent.SpanID())
		assert.False(t, attempt.StartTime.Before(call.StartTime))
		assert.False(t, attempt.EndTime.After(call.EndTime))
	}

	want := map[string]any{
		"http.request.method": "GET", "url.template": getLoan, "lending.effect": "read", "lending.outcome": "done",
		"http.response.status_code": int64(200), "server.address": "127.0.0.1", "server.port": portOf(t, service.URL),
	}
	scope, points := tel.measuredBy(t, callDuration)
	assert.Equal(t, call.InstrumentationScope, scope.Scope)
	assert.Equal(t, "s", scope.Metrics[0].Unit)
	require.Len(t, points, 1)
	assert.Equal(t, "Duration of calls, with their repetitions, waits and sign-ins.", scope.Metrics[0].Description)
	assert.Equal(t, []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 120},
		points[0].Bounds)
	assert.Equal(t, want, values(points[0].Attributes.ToSlice()))
	assert.InDelta(t, call.EndTime.Sub(call.StartTime).Seconds(), points[0].Sum, 1e-9)
	id := call.SpanContext.SpanID()
	require.Len(t, points[0].Exemplars, 1)
	assert.Equal(t, id[:], points[0].Exemplars[0].SpanID, "the exemplar leads to the span of the call")
	want["lending.attempts"] = int64(2)
	assert.Equal(t, want, values(call.Attributes))
}

// TestCallFailures has calls end in the ways that their attempts do not tell, and in some
// that they do.
func TestCallFailures(t *testing.T) {
	process := "GET " + process
	for _, test := range []struct {
		name     string
		fault    lendingtest.Fault
		login    lendingtest.Fault
		answer   http.HandlerFunc
		options  []lending.Option
		noID     bool
		attempts int
		status   any
		outcome  string
		failure  string

		described bool
	}{
		{name: "argument", noID: true, outcome: "not sent", failure: "argument_invalid", described: true},
		{name: "no source", options: []lending.Option{}, outcome: "not sent", failure: "sign_in_required"},
		{
			name: "no token", options: []lending.Option{lending.WithTokenSource(lending.StaticToken(""))},
			outcome: "not sent",
			failure: "no_token",
		},
		{name: "no code", options: []lending.Option{lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
			TwoFactor: func(context.Context, lending.Challenge) (string, error) { return "", nil },
		})}, outcome: "not sent", failure: "no_token"},
		{
			name: "sign-in without content", login: lendingtest.Fault{Status: 204},
			options: []lending.Option{lending.WithCredentials(lending.Credentials{
				Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
			})}, outcome: "not sent", failure: "no_token",
		},
		{name: "wrong password", options: []lending.Option{lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username, Password: lending.NewSecret("wrong"),
		})}, outcome: "not sent", failure: "no_token"},
		{
			name: "rejected", fault: lendingtest.Fault{Status: 409}, attempts: 1, status: int64(409), outcome: "rejected",
			failure: "409",
		},
		{
			name: "server error", fault: lendingtest.Fault{Status: 502, Executes: true}, attempts: 1, status: int64(502),
			outcome: "unknown", failure: "502",
		},
		{
			name: "answer lost", fault: lendingtest.Fault{ResetAfter: true}, attempts: 1, outcome: "unknown",
			failure: "connection_reset", described: true,
		},
		{
			name: "no content", fault: lendingtest.Fault{Status: 204, Executes: true}, attempts: 1, status: int64(204),
			outcome: "done", failure: "no_content",
		},
		{
			name: "undecodable", fault: lendingtest.Fault{Status: 200, Executes: true, Body: []byte(`{"a":1}`)},
			attempts: 1,
			status:   int64(200), outcome: "done", failure: "answer_not_decoded",
		},
		{
			name: "cut", fault: lendingtest.Fault{Status: 200, Executes: true, Body: []byte(`{"a":1}`), CutBody: 3},
			attempts: 1, status: int64(200), outcome: "done", failure: "connection_closed",
		},
		{
			name: "page of HTML", answer: html, attempts: 1, status: int64(200), outcome: "unknown",
			failure: "unexpected_answer",
		},
		{
			name:     "malformed answer",
			answer:   func(w http.ResponseWriter, _ *http.Request) { raw(w, "nonsense") },
			attempts: 1, outcome: "unknown", failure: "_OTHER", described: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			service, tel := newService(t), newTelemetry()
			options := test.options
			if options == nil {
				options = []lending.Option{lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username)))}
			}
			client, err := lending.New(service.URL, append(options, tel.observeCalls())...)
			require.NoError(t, err)
			defer client.Close()
			service.Fail(process, test.fault)
			service.Fail("POST /api/Authenication/login", test.login)
			service.Answer(process, test.answer)
			id := applicationID(t, service.AddApplication(lendingtest.Application{}).ID)
			if test.noID {
				id = lending.ApplicationID{}
			}

			_, err = client.Applications.Process(t.Context(), id)
			require.Error(t, err)

			description := ""
			if test.described {
				description = err.Error()
			}
			spans := tel.spans.GetSpans()
			span := spans[len(spans)-1] // those before are of a sign-in
			got := values(span.Attributes)
			assert.EqualValues(t, test.attempts, got["lending.attempts"])
			assert.Equal(t, test.status, got["http.response.status_code"])
			assert.Equal(t, test.outcome, got["lending.outcome"])
			assert.Equal(t, lending.OutcomeOf(err).String(), got["lending.outcome"], "the span and the error agree")
			assert.Equal(t, test.failure, got["error.type"])
			assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: description}, span.Status)
			_, points := tel.measuredBy(t, callDuration)
			require.Len(t, points, len(spans))
			delete(got, "lending.attempts")
			var measured []map[string]any
			for _, point := range points {
				measured = append(measured, values(point.Attributes.ToSlice()))
			}
			assert.Contains(t, measured, got)
		})
	}
}

// TestIdempotency follows a mutation with a key: its call is told as what the log did with
// it, and why that did not send it, and its checks.
func TestIdempotency(t *testing.T) {
	const create, check = "POST /api/Application/create-customer", "GET /api/Customer/get-customer-by-email"
	service, entries := newService(t), store.NewMemory()
	quick := &idempotency.Options{MaxLateness: time.Nanosecond}
	user := lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
		MobileNumber: "4155550100", Password: lending.NewSecret("Analytical-Engine-1"),
	}
	key := "order-42/ada"
	for i, test := range []struct {
		action  string
		failure any
		fault   lendingtest.Fault
		entries store.Store
		options *idempotency.Options
		checks  int
		change  func()
		decide  func(context.Context) context.Context
	}{
		{action: "refused", failure: "idempotency_store_failed", entries: tornStore{}},
		{action: "sent", failure: "connection_reset", fault: lendingtest.Fault{ResetBefore: true}, checks: 1},
		{action: "refused", failure: "in_doubt", checks: 1},
		{
			action: "sent", fault: lendingtest.Fault{ResetAfter: true}, options: quick, failure: "connection_reset",
			checks: 1,
		},
		{action: "rebuilt", checks: 2},
		{change: func() { key, user.Email = "order-43/ada", "second@example.com" }, action: "sent", checks: 1},
		{action: "replayed"},
		{change: func() { user.LastName = "Byron" }, action: "refused", failure: "key_reused"},
		{
			change: func() { key, user.Email = "order-44/ada", "other@example.com" }, action: "sent",
			failure: "answer_not_decoded", fault: lendingtest.Fault{
				Status: 200, Executes: true,
				Body: []byte(`{"a":1}`),
			}, checks: 1,
		},
		{action: "rebuilt", checks: 2},
		{
			change: func() { key, user.Email = "order-45/ada", "third@example.com" }, action: "sent",
			options: &idempotency.Options{MaxAnswer: 1}, checks: 1,
		},
		{action: "rebuilt", checks: 2},
		{
			change: func() { key, user.Email = "order-46/ada", "fourth@example.com" }, action: "sent",
			fault: lendingtest.Fault{ResetBefore: true}, failure: "connection_reset", checks: 1,
		},
		{decide: func(ctx context.Context) context.Context {
			return idempotency.WithCheck(ctx, func(context.Context) (idempotency.Verdict,
				error,
			) {
				return idempotency.NeedsReview("who knows"), nil
			})
		}, action: "refused", failure: "needs_review"},
	} {
		t.Run(test.action, func(t *testing.T) {
			if test.change != nil {
				test.change()
			}
			calls, attempts := newTelemetry(), newTelemetry()
			log, err := idempotency.NewLog(cmp.Or(test.entries, entries), test.options)
			require.NoError(t, err)
			client := newClient(t, service, calls.observeCalls(), attempts.observe(), lending.WithIdempotency(log))
			service.Fail(create, test.fault)
			ctx := lending.WithIdempotencyKey(t.Context(), key)
			if test.decide != nil {
				ctx = test.decide(ctx)
			}
			_, err = client.Applications.CreateCustomer(ctx, user)
			service.ClearFaults()

			spans := calls.spans.GetSpans()
			require.Len(t, spans, test.checks+1, "%d: %v", i, err)
			got := values(spans[test.checks].Attributes)
			assert.Equal(t, test.action, got["lending.idempotency"], i)
			assert.Equal(t, test.failure, got["error.type"], "%d: %v", i, err)
			assert.Equal(t, lending.OutcomeOf(err).String(), got["lending.outcome"])
			assert.NotContains(t, fmt.Sprint(spans), "ada", "the key, or the address")
			for _, span := range spans[:test.checks] {
				assert.Equal(t, "check", values(span.Attributes)["lending.idempotency"])
				assert.Equal(t, spans[test.checks].SpanContext.SpanID(), span.Parent.SpanID(),
					"it is a part of the call")
			}
			_, points := calls.measuredBy(t, callDuration)
			var measured []any
			for _, point := range points {
				measured = append(measured, values(point.Attributes.ToSlice())["lending.idempotency"])
			}
			assert.Contains(t, measured, test.action, i)

			for _, span := range attempts.spans.GetSpans() {
				want := map[string]any{
					create: "sent", check: "check",
					"GET /api/Customer/get-customer-by-id/{customerId}": "check",
				}
				assert.Equal(t, want[span.Name], values(span.Attributes)["lending.idempotency"])
			}
		})
	}

	id, tel := applicationID(t, service.AddApplication(lendingtest.Application{}).ID), newTelemetry()
	log, err := idempotency.NewLog(entries, nil)
	require.NoError(t, err)
	client := newClient(t, service, tel.observeCalls(), lending.WithIdempotency(log))
	ctx := lending.WithIdempotencyKey(t.Context(), "order-42/cancel")
	service.Fail("POST "+cancelApp, lendingtest.Fault{Reached: func() {
		assert.ErrorIs(t, client.Applications.Cancel(ctx, id), idempotency.ErrInProgress)
		assert.Equal(t, "in_progress", values(tel.span(t).Attributes)["error.type"])
		tel.spans.Reset()
	}})
	require.NoError(t, client.Applications.Cancel(ctx, id))

	other := applicationID(t, service.AddApplication(lendingtest.Application{}).ID)
	service.Fail("POST "+cancelApp, lendingtest.Fault{ResetBefore: true})
	require.ErrorIs(t, client.Applications.Cancel(lending.WithIdempotencyKey(t.Context(), "order-43/cancel"), other),
		lending.ErrOutcomeUnknown)
	tel.spans.Reset()
	require.ErrorIs(t, client.Applications.Cancel(lending.WithIdempotencyKey(t.Context(), "order-44/cancel"), other),
		idempotency.ErrLocked)
	assert.Equal(t, "locked", values(tel.span(t).Attributes)["error.type"])
	tel.spans.Reset()
	_, err = client.Applications.Status(t.Context(), id)
	require.NoError(t, err)
	assert.NotContains(t, values(tel.span(t).Attributes), "lending.idempotency", "without a key")
}

// tornStore is a store that fails.
type tornStore struct{ store.Store }

func (tornStore) Load(context.Context, string) (*store.Entry, error) {
	return nil, errors.New("torn")
}

// TestCallPanics has a source of tokens of the caller's panic before anything is sent.
func TestCallPanics(t *testing.T) {
	tel := newTelemetry()
	client, err := lending.New("https://lending.example", tel.observeCalls(), lending.WithTokenSource(torn{}))
	require.NoError(t, err)
	defer client.Close()
	assert.Panics(t, func() { _ = client.Applications.Cancel(t.Context(), lending.ApplicationID{1}) })
	got := values(tel.span(t).Attributes)
	assert.Equal(t, "not sent", got["lending.outcome"])
	assert.Equal(t, "_OTHER", got["error.type"])
}

type torn struct{}

func (torn) Token(context.Context) (lending.Token, error) { panic("torn") }

// TestCallSignIn finds a shared sign-in in traces of its own, with its attempts.
func TestCallSignIn(t *testing.T) {
	service, tel := newService(t), newTelemetry()
	client, err := lending.New(service.URL, tel.observeCalls(), tel.observe(),
		lending.WithCredentials(lending.Credentials{
			Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
		}))
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Webhooks.AllSubscriptions(t.Context())
	require.NoError(t, err)

	traces := map[string]string{}
	for _, span := range tel.spans.GetSpans() {
		traces[span.Name] = span.SpanContext.TraceID().String()
	}
	require.Len(t, traces, 4)
	const login, list = "POST /api/Authenication/login", "GET /api/Webhook/get-all-subscriptions"
	assert.Equal(t, traces["call "+login], traces[login])
	assert.Equal(t, traces["call "+list], traces[list])
	assert.NotEqual(t, traces[login], traces[list])
}

// BenchmarkCallObserver is what a call costs with an SDK that keeps everything.
func BenchmarkCallObserver(b *testing.B) {
	begin := lendingotel.CallObserver(lendingotel.WithTracerProvider(sdktrace.NewTracerProvider()))
	c := lending.Call{Method: http.MethodGet, Route: getLoan, Effect: lending.Read, Start: time.Now()}
	b.ReportAllocs()
	for b.Loop() {
		_, end := begin(b.Context(), c)
		end(c)
	}
}
