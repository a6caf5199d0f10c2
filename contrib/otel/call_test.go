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
		lending.WithObserver(lendingotel.Observer(lendingotel.WithTracerProvider(tel.tracers), lendingotel.WithMeterProvider(attempts.meters))))
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
	assert.Equal(t, []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 120}, points[0].Bounds)
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
	for name, test := range map[string]struct {
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
		"argument":  {noID: true, outcome: "not sent", failure: "argument_invalid", described: true},
		"no source": {options: []lending.Option{}, outcome: "not sent", failure: "sign_in_required"},
		"no token":  {options: []lending.Option{lending.WithTokenSource(lending.StaticToken(""))}, outcome: "not sent", failure: "no_token"},
		"no code": {options: []lending.Option{lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
			TwoFactor: func(context.Context, lending.Challenge) (string, error) { return "", nil },
		})}, outcome: "not sent", failure: "no_token"},
		"sign-in without content": {login: lendingtest.Fault{Status: 204}, options: []lending.Option{lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
		})}, outcome: "not sent", failure: "no_token"},
		"wrong password": {options: []lending.Option{lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username, Password: lending.NewSecret("wrong"),
		})}, outcome: "not sent", failure: "no_token"},
		"rejected":     {fault: lendingtest.Fault{Status: 409}, attempts: 1, status: int64(409), outcome: "rejected", failure: "409"},
		"server error": {fault: lendingtest.Fault{Status: 502, Executes: true}, attempts: 1, status: int64(502), outcome: "unknown", failure: "502"},
		"answer lost":  {fault: lendingtest.Fault{ResetAfter: true}, attempts: 1, outcome: "unknown", failure: "connection_reset", described: true},
		"no content":   {fault: lendingtest.Fault{Status: 204, Executes: true}, attempts: 1, status: int64(204), outcome: "done", failure: "no_content"},
		"undecodable":  {fault: lendingtest.Fault{Status: 200, Executes: true, Body: []byte(`{"a":1}`)}, attempts: 1, status: int64(200), outcome: "done", failure: "answer_not_decoded"},
		"cut":          {fault: lendingtest.Fault{Status: 200, Executes: true, Body: []byte(`{"a":1}`), CutBody: 3}, attempts: 1, status: int64(200), outcome: "done", failure: "connection_closed"},
		"page of HTML": {answer: html, attempts: 1, status: int64(200), outcome: "unknown", failure: "unexpected_answer"},
		"malformed answer": {
			answer:   func(w http.ResponseWriter, _ *http.Request) { raw(w, "nonsense") },
			attempts: 1, outcome: "unknown", failure: "_OTHER", described: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
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

// TestJournal follows a command with a key: its call is told as what the journal did with
// it, and why that did not send it, and the reads that settle it as looks.
func TestJournal(t *testing.T) {
	const create, look = "POST /api/Application/create-customer", "GET /api/Customer/get-customer-by-email"
	service, store := newService(t), lending.NewMemoryJournalStore()
	quick := &lending.JournalOptions{Quiet: time.Nanosecond}
	user := lending.UserRequest{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", MobileNumber: "4155550100", Password: lending.NewSecret("Analytical-Engine-1")}
	key := "order-42/ada"
	for i, test := range []struct {
		journal string
		failure any
		fault   lendingtest.Fault
		store   lending.JournalStore
		options *lending.JournalOptions
		looks   int
		change  func()
		decide  lending.KeyOption
	}{
		{journal: "refused", failure: "journal_failed", store: tornJournal{}},
		{journal: "sent", failure: "connection_reset", fault: lendingtest.Fault{ResetBefore: true}, looks: 1},
		{journal: "refused", failure: "unsettled", looks: 1},
		{journal: "sent", fault: lendingtest.Fault{ResetAfter: true}, options: quick, failure: "connection_reset", looks: 1},
		{journal: "settled", looks: 2},
		{change: func() { key, user.Email = "order-43/ada", "second@example.com" }, journal: "sent", looks: 1},
		{journal: "replayed"},
		{change: func() { user.LastName = "Byron" }, journal: "refused", failure: "argument_invalid"},
		{change: func() { key, user.Email = "order-44/ada", "other@example.com" }, journal: "sent", failure: "answer_not_decoded", fault: lendingtest.Fault{Status: 200, Executes: true, Body: []byte(`{"a":1}`)}, looks: 1},
		{journal: "replayed", failure: "answer_not_decoded"},
		{change: func() { key, user.Email = "order-45/ada", "third@example.com" }, journal: "sent", options: &lending.JournalOptions{MaxAnswer: 1}, looks: 1},
		{journal: "refused", failure: "answer_lost"},
		{change: func() { key, user.Email = "order-46/ada", "fourth@example.com" }, journal: "sent", fault: lendingtest.Fault{ResetBefore: true}, failure: "connection_reset", looks: 1},
		{decide: lending.SettleWith(func(context.Context) (lending.Verdict, error) { return lending.Undecided("who knows"), nil }), journal: "refused", failure: "undecided"},
	} {
		if test.change != nil {
			test.change()
		}
		calls, attempts := newTelemetry(), newTelemetry()
		client := newClient(t, service, calls.observeCalls(), attempts.observe(), lending.WithJournal(lending.NewJournal(cmp.Or(test.store, store), test.options)))
		service.Fail(create, test.fault)
		_, err := client.Applications.CreateCustomer(lending.WithKey(t.Context(), key, test.decide), user)
		service.ClearFaults()

		spans := calls.spans.GetSpans()
		require.Len(t, spans, test.looks+1, "%d: %v", i, err)
		got := values(spans[test.looks].Attributes)
		assert.Equal(t, test.journal, got["lending.journal"], i)
		assert.Equal(t, test.failure, got["error.type"], "%d: %v", i, err)
		assert.Equal(t, lending.OutcomeOf(err).String(), got["lending.outcome"])
		assert.NotContains(t, fmt.Sprint(spans), "ada", "the key, or the address")
		for _, span := range spans[:test.looks] {
			assert.Equal(t, "look", values(span.Attributes)["lending.journal"])
			assert.Equal(t, spans[test.looks].SpanContext.SpanID(), span.Parent.SpanID(), "it is a part of the call")
		}
		_, points := calls.measuredBy(t, callDuration)
		var measured []any
		for _, point := range points {
			measured = append(measured, values(point.Attributes.ToSlice())["lending.journal"])
		}
		assert.Contains(t, measured, test.journal, i)

		for _, span := range attempts.spans.GetSpans() {
			want := map[string]any{create: "sent", look: "look", "GET /api/Customer/get-customer-by-id/{customerId}": "look"}
			assert.Equal(t, want[span.Name], values(span.Attributes)["lending.journal"])
		}
	}

	id, tel := applicationID(t, service.AddApplication(lendingtest.Application{}).ID), newTelemetry()
	client := newClient(t, service, tel.observeCalls(), lending.WithJournal(lending.NewJournal(store, nil)))
	ctx := lending.WithKey(t.Context(), "order-42/cancel")
	service.Fail("POST "+cancelApp, lendingtest.Fault{Reached: func() {
		assert.ErrorIs(t, client.Applications.Cancel(ctx, id), lending.ErrInProgress)
		assert.Equal(t, "in_progress", values(tel.span(t).Attributes)["error.type"])
		tel.spans.Reset()
	}})
	require.NoError(t, client.Applications.Cancel(ctx, id))

	other := applicationID(t, service.AddApplication(lendingtest.Application{}).ID)
	service.Fail("POST "+cancelApp, lendingtest.Fault{ResetBefore: true})
	require.ErrorIs(t, client.Applications.Cancel(lending.WithKey(t.Context(), "order-43/cancel"), other), lending.ErrOutcomeUnknown)
	tel.spans.Reset()
	require.ErrorIs(t, client.Applications.Cancel(lending.WithKey(t.Context(), "order-44/cancel"), other), lending.ErrScopeHeld)
	assert.Equal(t, "scope_held", values(tel.span(t).Attributes)["error.type"])
	tel.spans.Reset()
	_, err := client.Applications.Status(t.Context(), id)
	require.NoError(t, err)
	assert.NotContains(t, values(tel.span(t).Attributes), "lending.journal", "without a key")
}

// tornJournal is a store that fails.
type tornJournal struct{ lending.JournalStore }

func (tornJournal) Load(context.Context, string) (*lending.JournalEntry, error) {
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
	client, err := lending.New(service.URL, tel.observeCalls(), tel.observe(), lending.WithCredentials(lending.Credentials{
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
