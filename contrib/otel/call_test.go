package lendingotel_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otelmetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

const callDuration = "lending.client.call.duration"

// TestCall has a read with three attempts: after a 503, and after a 401 with another token.
func TestCall(t *testing.T) {
	service, tel, attempts := newService(t, lendingtest.WithBasePath("/tenant")), newTelemetry(), newTelemetry()
	base := lendingotel.WithBaseURL(service.URL)
	_, attempt := lendingotel.Observer(base, lendingotel.WithTracerProvider(tel.tracers),
		lendingotel.WithMeterProvider(attempts.meters))
	client, err := lending.New(service.URL, tel.observeCalls(base), lending.WithTokenSource(renewable{service}),
		lending.WithObserver(nil, attempt))
	require.NoError(t, err)
	defer client.Close()
	loan := service.AddLoan(lendingtest.Loan{})
	service.Fail("GET "+getLoan, lendingtest.Fault{Status: http.StatusServiceUnavailable})
	service.Fail("GET "+getLoan, lendingtest.Fault{Status: http.StatusUnauthorized})

	before := time.Now()
	ctx, parent := tel.tracers.Tracer("caller").Start(t.Context(), "parent")
	_, err = client.Loans.Get(ctx, loanID(t, loan.ID))
	require.NoError(t, err)
	after := time.Now()

	spans := tel.spans.GetSpans()
	require.Len(t, spans, 4)
	call := spans[3]
	assert.Equal(t, "call GET "+getLoan, call.Name)
	assert.Equal(t, trace.SpanKindInternal, call.SpanKind)
	assert.Equal(t, sdktrace.Status{}, call.Status)
	assert.Equal(t, parent.SpanContext().SpanID(), call.Parent.SpanID())
	assert.False(t, call.StartTime.Before(before), "the span began before the call")
	assert.False(t, call.EndTime.After(after), "the span ended after the call")
	assert.Equal(t, "github.com/lendingapi/lending-go/contrib/otel", call.InstrumentationScope.Name)
	assert.Equal(t, "https://opentelemetry.io/schemas/1.43.0", call.InstrumentationScope.SchemaURL)
	want := map[string]any{
		"http.request.method": "GET", "url.template": getLoan, "lending.effect": "read", "lending.outcome": "done",
		"http.response.status_code": int64(200), "network.protocol.version": "1.1",
		"server.address": "127.0.0.1", "server.port": portOf(t, service.URL),
	}
	bounds := []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	scope, points := attempts.measured(t)
	assertMeasured(t, scope, points, bounds, 3)
	assert.Contains(t, measurements(points), want)
	scope, points = tel.measuredBy(t, callDuration)
	assertMeasured(t, scope, points, append(bounds, 30, 60, 120), 1)
	assert.Equal(t, "Duration of calls, with their repetitions, waits and sign-ins.", scope.Metrics[0].Description)
	assert.Equal(t, want, values(points[0].Attributes.ToSlice()))
	assert.InDelta(t, call.EndTime.Sub(call.StartTime).Seconds(), points[0].Sum, 1e-9)
	id := call.SpanContext.SpanID()
	assert.Equal(t, id[:], points[0].Exemplars[0].SpanID, "the exemplar leads to the span of the call")

	want["lending.attempts"] = int64(3)
	assert.Equal(t, want, values(call.Attributes))
	delete(want, "lending.attempts")
	for i, attempt := range spans[:3] {
		assert.Equal(t, "GET "+getLoan, attempt.Name)
		assert.Equal(t, trace.SpanKindClient, attempt.SpanKind)
		assert.Equal(t, call.SpanContext.SpanID(), attempt.Parent.SpanID())
		assert.False(t, attempt.StartTime.Before(call.StartTime))
		assert.False(t, attempt.EndTime.After(call.EndTime))
		want["lending.outcome"] = []string{"unknown", "rejected", "done"}[i]
		want["http.response.status_code"] = []int64{503, 401, 200}[i]
		code := codes.Unset
		if delete(want, "error.type"); i < 2 {
			want["error.type"], code = []string{"503", "401"}[i], codes.Error
		}
		if i > 0 {
			want["http.request.resend_count"] = int64(i)
		}
		assert.Equal(t, want, values(attempt.Attributes))
		assert.Equal(t, sdktrace.Status{Code: code}, attempt.Status, "the status code needs no description")
	}
}

// assertMeasured holds that a histogram has the bounds, and an exemplar for each of n points.
func assertMeasured(t *testing.T, scope metricdata.ScopeMetrics, points []metricdata.HistogramDataPoint[float64],
	bounds []float64, n int,
) {
	t.Helper()
	assert.Equal(t, "s", scope.Metrics[0].Unit)
	assert.Equal(t, "https://opentelemetry.io/schemas/1.43.0", scope.Scope.SchemaURL)
	require.Len(t, points, n)
	for _, point := range points {
		assert.Equal(t, bounds, point.Bounds)
		assert.EqualValues(t, 1, point.Count)
		assert.Len(t, point.Exemplars, 1)
	}
}

// measurements are the attributes of points, by name.
func measurements(points []metricdata.HistogramDataPoint[float64]) (all []map[string]any) {
	for _, point := range points {
		all = append(all, values(point.Attributes.ToSlice()))
	}
	return all
}

// renewable gets another token after every refusal.
type renewable struct{ service *lendingtest.Server }

func (r renewable) Token(context.Context) (lending.Token, error) {
	return lending.Token{Value: lending.NewSecret(r.service.Token(lendingtest.Username))}, nil
}

func (renewable) Invalidate(lending.Token) {}

// TestCallFailures has a mutation fail in each way, and holds the error of the call and of its
// attempt.
func TestCallFailures(t *testing.T) {
	process := "GET " + process
	for _, test := range []struct {
		name     string
		fault    lendingtest.Fault
		login    lendingtest.Fault
		answer   http.HandlerFunc
		options  []lending.Option
		noID     bool
		down     bool // the service
		attempts int
		status   any
		outcome  string
		failure  string
		attempt  any    // error.type of the attempt, if it differs; "none" for no error
		text     string // of the attempt's status

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
			failure: "connection_reset", described: true, text: "connection reset",
		},
		{
			name: "server error, cut", fault: lendingtest.Fault{Status: 500, CutBody: 3}, attempts: 1, status: int64(500),
			outcome: "unknown", failure: "500",
		},
		{
			name:     "redirect",
			fault:    lendingtest.Fault{Status: http.StatusFound, Header: http.Header{"Location": {"/elsewhere"}}},
			attempts: 1, status: int64(302), outcome: "unknown", failure: "302",
		},
		{
			name: "unreachable", down: true, attempts: 1, outcome: "not sent", failure: "connection_failed",
			described: true, text: "cannot connect to ",
		},
		{
			name: "no content", fault: lendingtest.Fault{Status: 204, Executes: true}, attempts: 1, status: int64(204),
			outcome: "done", failure: "no_content", attempt: "none",
		},
		{
			name: "undecodable", fault: lendingtest.Fault{Status: 200, Executes: true, Body: []byte(`{"a":1}`)},
			attempts: 1,
			status:   int64(200), outcome: "done", failure: "answer_not_decoded", attempt: "none",
		},
		{
			name: "cut", fault: lendingtest.Fault{Status: 200, Executes: true, Body: []byte(`{"a":1}`), CutBody: 3},
			attempts: 1, status: int64(200), outcome: "done", failure: "connection_closed",
			text: "connection closed before the answer was complete",
		},
		{
			name: "page of HTML", answer: html, attempts: 1, status: int64(200), outcome: "unknown",
			failure: "unexpected_answer",
		},
		{
			name:     "malformed answer",
			answer:   func(w http.ResponseWriter, _ *http.Request) { raw(w, "nonsense") },
			attempts: 1, outcome: "unknown", failure: "_OTHER", described: true, text: "failed (",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			service, tel, attempts := newService(t), newTelemetry(), newTelemetry()
			options := test.options
			if options == nil {
				options = []lending.Option{lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username)))}
			}
			client, err := lending.New(service.URL, append(options, tel.observeCalls(), attempts.observe())...)
			require.NoError(t, err)
			defer client.Close()
			service.Fail(process, test.fault)
			service.Fail("POST /api/Authenication/login", test.login)
			service.Answer(process, test.answer)
			id := applicationID(t, service.AddApplication(lendingtest.Application{}).ID)
			if test.noID {
				id = lending.ApplicationID{}
			}
			if test.down {
				service.Close()
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
			assert.Contains(t, measurements(points), got)

			sent := 0
			for _, attempt := range attempts.spans.GetSpans() {
				if attempt.Name != process {
					continue // of a sign-in
				}
				sent++
				got := values(attempt.Attributes)
				want := map[any]any{nil: test.failure, "none": nil}
				assert.Equal(t, want[test.attempt], got["error.type"])
				assert.Equal(t, test.status, got["http.response.status_code"])
				assert.Equal(t, test.outcome, got["lending.outcome"])
				assert.Equal(t, "mutation", got["lending.effect"], "a GET that changes state")
				assert.Equal(t, got["error.type"] != nil, attempt.Status.Code == codes.Error)
				assert.True(t, strings.HasPrefix(attempt.Status.Description, test.text), attempt.Status.Description)
				assert.Equal(t, test.text != "", attempt.Status.Description != "")
				_, points := attempts.measured(t)
				assert.Contains(t, measurements(points), got)
			}
			assert.Equal(t, test.attempts, sent)
		})
	}
}

// The span of a mutation with a key tells how the log treated it, and the reason if the log did not
// send it. Checks have spans of their own.
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
	by := idempotency.Decision{By: "dora", Why: "an incident"}
	require.NoError(t, log.Pause(t.Context(), by))
	tel.spans.Reset()
	require.ErrorIs(t, client.Applications.Cancel(lending.WithIdempotencyKey(t.Context(), "order-45/cancel"), id),
		idempotency.ErrPaused)
	assert.Equal(t, "paused", values(tel.span(t).Attributes)["error.type"])
	require.NoError(t, log.Resume(t.Context()))

	log, err = idempotency.NewLog(entries, quick)
	require.NoError(t, err)
	_, err = log.Erase(t.Context(), by, id.String())
	require.NoError(t, err)
	tel.spans.Reset()
	require.ErrorIs(t, client.Applications.Cancel(ctx, id), idempotency.ErrErased)
	assert.Equal(t, "erased", values(tel.span(t).Attributes)["error.type"])
	tel.spans.Reset()
	_, err = client.Applications.Status(t.Context(), id)
	require.NoError(t, err)
	assert.NotContains(t, values(tel.span(t).Attributes), "lending.idempotency", "without a key")
}

// tornStore is a failing store.
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

// The spans of a shared sign-in are not those of a caller.
func TestSignInIsATraceOfItsOwn(t *testing.T) {
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

// BenchmarkCall measures reads over loopback without and with the observers and a header with its trace,
// and what the SDK takes for the same spans and measurements by itself: the floor.
func BenchmarkCall(b *testing.B) {
	const turn = 200
	service := lendingtest.NewServer()
	defer service.Close()
	id, err := lending.ParseLoanID(service.AddLoan(lendingtest.Loan{}).ID)
	require.NoError(b, err)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	tracers := sdktrace.NewTracerProvider()
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	reads := func(opts ...lending.Option) func() {
		client, err := lending.New(service.URL, append(opts,
			lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))...)
		require.NoError(b, err)
		b.Cleanup(client.Close)
		return func() {
			for range turn {
				if _, err := client.Loans.Get(b.Context(), id); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	observed := reads(lending.WithHeader(lendingotel.Header), lending.WithObserver(lendingotel.Observer(
		lendingotel.WithTracerProvider(tracers), lendingotel.WithMeterProvider(meters))))
	bare := reads()
	sdk := sdkAlone(b, tracers.Tracer("sdk"), meters.Meter("sdk"), turn)
	took, ratio := webhooktest.InTurns(b, bare, observed)
	floor, floorRatio := webhooktest.InTurns(b, bare, func() { bare(); sdk() })
	allocated := func(f func()) float64 { return testing.AllocsPerRun(5, f) / turn }
	b.ReportMetric(float64(took[0].Nanoseconds())/turn, "ns/bare")
	b.ReportMetric(float64((took[1]-took[0]).Nanoseconds())/turn, "ns-more/observed")
	b.ReportMetric(float64((floor[1]-floor[0]).Nanoseconds())/turn, "ns-more/sdk")
	b.ReportMetric(ratio, "of-bare/observed")
	b.ReportMetric(floorRatio, "of-bare/sdk")
	b.ReportMetric(allocated(observed)-allocated(bare), "allocs/observed")
	b.ReportMetric(allocated(sdk), "allocs/sdk")
}

// sdkAlone makes the spans, the header and the measurements of some calls, with attributes that are
// made once.
func sdkAlone(b *testing.B, tracer trace.Tracer, meter otelmetric.Meter, calls int) func() {
	b.Helper()
	duration, err := meter.Float64Histogram("sdk")
	require.NoError(b, err)
	attributes := []attribute.KeyValue{
		attribute.String("a", "a"), attribute.String("b", "b"), attribute.String("c", "c"),
		attribute.String("d", "d"), attribute.Int("e", 200), attribute.String("f", "f"),
	}
	first, then := trace.WithAttributes(attributes[:3]...), attributes[3:]
	measured := []otelmetric.RecordOption{
		otelmetric.WithAttributeSet(attribute.NewSet(slices.Clone(attributes)...)),
	}
	return func() {
		for range calls {
			ctx, call := tracer.Start(b.Context(), "call", first)
			inner, attempt := tracer.Start(ctx, "attempt", first)
			lendingotel.Header(inner, http.Header{})
			for _, span := range []trace.Span{attempt, call} {
				duration.Record(ctx, 1, measured...)
				span.SetAttributes(then...)
				span.End()
			}
		}
	}
}
