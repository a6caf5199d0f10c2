package lendingotel_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

func TestSuccess(t *testing.T) {
	service, tel := newService(t, lendingtest.WithBasePath("/tenant")), newTelemetry()
	client := newClient(t, service, tel.observe(lendingotel.WithBaseURL(service.URL)))
	loan := service.AddLoan(lendingtest.Loan{})

	before := time.Now()
	ctx, parent := tel.tracers.Tracer("caller").Start(t.Context(), "parent")
	_, err := client.Loans.Get(ctx, loanID(t, loan.ID))
	require.NoError(t, err)
	parent.End()
	after := time.Now()

	spans := tel.spans.GetSpans()
	require.Len(t, spans, 2)
	span := spans[0]
	want := map[string]any{
		"http.request.method":       "GET",
		"url.template":              getLoan,
		"http.response.status_code": int64(http.StatusOK),
		"server.address":            "127.0.0.1",
		"server.port":               portOf(t, service.URL),
		"lending.effect":            "read",
		"lending.outcome":           "done",
	}
	assert.Equal(t, "GET "+getLoan, span.Name)
	assert.Equal(t, trace.SpanKindClient, span.SpanKind)
	assert.Equal(t, sdktrace.Status{Code: codes.Unset}, span.Status)
	assert.Equal(t, parent.SpanContext().SpanID(), span.Parent.SpanID())
	assert.Equal(t, want, values(span.Attributes))
	assert.Empty(t, span.Events)
	assert.Empty(t, span.Links)
	assert.Equal(t, "github.com/lendingapi/lending-go/contrib/otel", span.InstrumentationScope.Name)
	assert.Equal(t, "https://opentelemetry.io/schemas/1.43.0", span.InstrumentationScope.SchemaURL)
	assert.False(t, span.StartTime.Before(before), "the span began before the call")
	assert.False(t, span.EndTime.After(after), "the span ended after the call")

	scope, points := tel.measured(t)
	assert.Equal(t, span.InstrumentationScope, scope.Scope)
	assert.Equal(t, "s", scope.Metrics[0].Unit)
	require.Len(t, points, 1)
	assert.Equal(t, want, values(points[0].Attributes.ToSlice()))
	assert.Equal(t, []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10},
		points[0].Bounds)
	assert.EqualValues(t, 1, points[0].Count)
	assert.InDelta(t, span.EndTime.Sub(span.StartTime).Seconds(), points[0].Sum, 1e-9)
	require.Len(t, points[0].Exemplars, 1)
	id := span.SpanContext.SpanID()
	assert.Equal(t, id[:], points[0].Exemplars[0].SpanID, "the exemplar leads to the span of the attempt")
}

func TestTimes(t *testing.T) {
	tel := newTelemetry()
	observe := lendingotel.Observer(lendingotel.WithTracerProvider(tel.tracers),
		lendingotel.WithMeterProvider(tel.meters))
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	observe(t.Context(), lending.Attempt{
		Method: http.MethodPost, Route: cancelApp, Number: 1, StatusCode: http.StatusOK,
		Start: start, Duration: 1500 * time.Millisecond, Outcome: lending.OutcomeDone,
	})

	span := tel.span(t)
	assert.Equal(t, start, span.StartTime)
	assert.Equal(t, start.Add(1500*time.Millisecond), span.EndTime)
	assert.Equal(t, "mutation", values(span.Attributes)["lending.effect"])
	_, points := tel.measured(t)
	require.Len(t, points, 1)
	assert.InDelta(t, 1.5, points[0].Sum, 0)
}

// TestRepeated has a read answered at its third attempt: after a 503, and after a 401,
// for which the client gets another token.
func TestRepeated(t *testing.T) {
	service, tel := newService(t), newTelemetry()
	client, err := lending.New(service.URL, tel.observe(), lending.WithTokenSource(renewable{service}))
	require.NoError(t, err)
	defer client.Close()
	loan := service.AddLoan(lendingtest.Loan{})
	service.Fail("GET "+getLoan, lendingtest.Fault{Status: http.StatusServiceUnavailable})
	service.Fail("GET "+getLoan, lendingtest.Fault{Status: http.StatusUnauthorized})

	ctx, parent := tel.tracers.Tracer("caller").Start(t.Context(), "parent")
	_, err = client.Loans.Get(ctx, loanID(t, loan.ID))
	require.NoError(t, err)

	spans := tel.spans.GetSpans()
	require.Len(t, spans, 3)
	for i, want := range []struct {
		status  int
		resend  any
		failure any
		outcome string
		code    codes.Code
	}{
		{503, nil, "503", "unknown", codes.Error},
		{401, int64(1), "401", "rejected", codes.Error},
		{200, int64(2), nil, "done", codes.Unset},
	} {
		t.Run(want.outcome, func(t *testing.T) {
			got := values(spans[i].Attributes)
			assert.EqualValues(t, want.status, got["http.response.status_code"])
			assert.Equal(t, want.resend, got["http.request.resend_count"])
			assert.Equal(t, want.failure, got["error.type"])
			assert.Equal(t, want.outcome, got["lending.outcome"])
			assert.Equal(t, sdktrace.Status{Code: want.code}, spans[i].Status,
				"the status code says it, no description")
			assert.Equal(t, parent.SpanContext().SpanID(), spans[i].Parent.SpanID())
		})
	}
	_, points := tel.measured(t)
	require.Len(t, points, 3)
	for _, point := range points {
		assert.NotContains(t, values(point.Attributes.ToSlice()), "http.request.resend_count")
	}
}

// renewable gets another token after every refusal.
type renewable struct{ service *lendingtest.Server }

func (r renewable) Token(context.Context) (lending.Token, error) {
	return lending.Token{Value: lending.NewSecret(r.service.Token(lendingtest.Username))}, nil
}

func (renewable) Invalidate(lending.Token) {}

// TestFailures has a command end in each way that there is. None is repeated.
func TestFailures(t *testing.T) {
	const route = "POST " + cancelApp
	for _, test := range []struct {
		name    string
		fault   lendingtest.Fault
		answer  http.HandlerFunc
		down    bool // the service
		status  any
		outcome string
		failure string
		text    string // of the span's status
	}{
		{
			name:   "rejected",
			fault:  lendingtest.Fault{Status: http.StatusConflict},
			status: int64(409), outcome: "rejected", failure: "409",
		},
		{
			name:   "server error",
			fault:  lendingtest.Fault{Status: http.StatusBadGateway, Executes: true},
			status: int64(502), outcome: "unknown", failure: "502",
		},
		{
			name:   "server error, cut",
			fault:  lendingtest.Fault{Status: http.StatusInternalServerError, CutBody: 3},
			status: int64(500), outcome: "unknown", failure: "500",
		},
		{
			name:   "redirect",
			fault:  lendingtest.Fault{Status: http.StatusFound, Header: http.Header{"Location": {"/elsewhere"}}},
			status: int64(302), outcome: "unknown", failure: "302",
		},
		{
			name:   "answer lost",
			fault:  lendingtest.Fault{ResetAfter: true},
			status: nil, outcome: "unknown", failure: "connection_reset", text: "connection reset",
		},
		{
			name:   "success, cut",
			fault:  lendingtest.Fault{Status: http.StatusOK, Executes: true, Body: []byte(`{"a":1}`), CutBody: 3},
			status: int64(200), outcome: "done", failure: "connection_closed",
			text: "connection closed before the answer was complete",
		},
		{
			name:   "success with a page of HTML",
			answer: html,
			status: int64(200), outcome: "unknown", failure: "unexpected_answer",
		},
		{
			name:   "unreachable",
			down:   true,
			status: nil, outcome: "not sent", failure: "connection_failed", text: "cannot connect to ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			service, tel := newService(t), newTelemetry()
			client := newClient(t, service, tel.observe())
			id := applicationID(t, service.AddApplication(lendingtest.Application{}).ID)
			service.Fail(route, test.fault)
			service.Answer(route, test.answer)
			if test.down {
				test.text += strings.TrimPrefix(service.URL, "http://")
				service.Close()
			}

			err := client.Applications.Cancel(t.Context(), id)
			require.Error(t, err)

			span := tel.span(t)
			got := values(span.Attributes)
			assert.Equal(t, test.status, got["http.response.status_code"])
			assert.Equal(t, test.failure, got["error.type"])
			assert.Equal(t, test.outcome, got["lending.outcome"])
			assert.Equal(t, lending.OutcomeOf(err).String(), got["lending.outcome"], "the span and the error agree")
			assert.Equal(t, "mutation", got["lending.effect"])
			assert.NotContains(t, got, "http.request.resend_count")
			assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: test.text}, span.Status)
			assert.Empty(t, span.Events)
			_, points := tel.measured(t)
			require.Len(t, points, 1)
			assert.Equal(t, got, values(points[0].Attributes.ToSlice()))
		})
	}
}

// TestEndOfContext ends the call while the service works on it: the attempt is told
// although the context has ended.
func TestEndOfContext(t *testing.T) {
	for _, test := range []struct {
		failure string
		ended   func(context.Context, <-chan struct{}) (context.Context, context.CancelFunc)
	}{
		{"canceled", func(ctx context.Context, reached <-chan struct{}) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			go func() { <-reached; cancel() }()
			return ctx, cancel
		}},
		{"timeout", func(ctx context.Context, _ <-chan struct{}) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 200*time.Millisecond)
		}},
	} {
		t.Run(test.failure, func(t *testing.T) {
			service, tel := newService(t), newTelemetry()
			client := newClient(t, service, tel.observe())
			id := applicationID(t, service.AddApplication(lendingtest.Application{}).ID)
			reached := make(chan struct{})
			service.Fail("GET "+process, lendingtest.Fault{
				Reached: func() { close(reached) },
				Until:   make(chan struct{}),
			})

			ctx, cancel := test.ended(t.Context(), reached)
			defer cancel()
			_, err := client.Applications.Process(ctx, id)
			require.ErrorIs(t, err, lending.ErrOutcomeUnknown)

			span := tel.span(t)
			got := values(span.Attributes)
			assert.Equal(t, "GET "+process, span.Name)
			assert.Equal(t, test.failure, got["error.type"])
			assert.Equal(t, "unknown", got["lending.outcome"])
			assert.Equal(t, "mutation", got["lending.effect"], "a GET that changes state")
			_, points := tel.measured(t)
			require.Len(t, points, 1)
			assert.EqualValues(t, 1, points[0].Count)
		})
	}
}

// TestErrorTypes looks at the errors that are hard to bring about. They are wrapped as
// the transport does it.
func TestErrorTypes(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, test := range []struct {
		want string
		errs []error
	}{
		{"host_not_found", []error{
			dial(&net.DNSError{Err: "no such host", Name: "lending.example", IsNotFound: true}),
			dial(&net.DNSError{Err: "i/o timeout", Name: "lending.example", IsTimeout: true}),
		}},
		{"certificate_invalid", []error{
			&tls.CertificateVerificationError{Err: errors.New("expired")},
			x509.UnknownAuthorityError{},
			x509.HostnameError{},
		}},
		{"timeout", []error{
			os.ErrDeadlineExceeded, context.DeadlineExceeded, dial(os.ErrDeadlineExceeded),
			dial(&net.DNSError{UnwrapErr: context.DeadlineExceeded}),
		}},
		{"canceled", []error{context.Canceled, dial(context.Canceled)}},
		{"connection_failed", []error{dial(syscall.ECONNREFUSED), dial(syscall.ECONNRESET)}},
		{"connection_reset", []error{
			&net.OpError{Op: "read", Err: syscall.ECONNRESET},
			&net.OpError{Op: "write", Err: syscall.EPIPE},
		}},
		{"connection_closed", []error{io.EOF, io.ErrUnexpectedEOF}},
		{"answer_too_large", []error{lending.ErrTooLarge}},
		{"_OTHER", []error{
			errors.New("malformed HTTP status code"),
			&net.OpError{Op: "read", Err: errors.New("other")},
		}},
	} {
		t.Run(test.want, func(t *testing.T) {
			for _, err := range test.errs {
				tel := newTelemetry()
				transport := roundTripper(func(*http.Request) (*http.Response, error) {
					return nil,
						fmt.Errorf("wrapped: %w", err)
				})
				client, newErr := lending.New("https://lending.example",
					lending.WithTokenSource(lending.StaticToken("t")),
					lending.WithHTTPClient(&http.Client{Transport: transport}), tel.observe())
				require.NoError(t, newErr)
				require.Error(t, client.Applications.Cancel(t.Context(), lending.ApplicationID{1}))
				assert.Equal(t, test.want, values(tel.span(t).Attributes)["error.type"], "%v", err)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestNothingSent makes calls that end before their first attempt.
func TestNothingSent(t *testing.T) {
	service, tel := newService(t), newTelemetry()
	client, err := lending.New(service.URL, tel.observe())
	require.NoError(t, err)
	defer client.Close()

	_, err = client.Loans.Get(t.Context(), lending.LoanID{})
	require.ErrorAs(t, err, new(*lending.ArgumentError))
	_, err = client.Loans.Get(t.Context(), lending.LoanID{1})
	require.ErrorIs(t, err, lending.ErrSignInRequired)
	assert.Empty(t, tel.spans.GetSpans())
	assert.Empty(t, service.Requests())
}

// TestSignIn finds the spans of a shared sign-in in traces of their own.
func TestSignIn(t *testing.T) {
	service, tel := newService(t), newTelemetry()
	client, err := lending.New(service.URL, tel.observe(), lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			return service.TwoFactorCode(lendingtest.Username), nil
		},
	}))
	require.NoError(t, err)
	defer client.Close()
	loan := service.AddLoan(lendingtest.Loan{})

	ctx, parent := tel.tracers.Tracer("caller").Start(t.Context(), "parent")
	_, err = client.Loans.Get(ctx, loanID(t, loan.ID))
	require.NoError(t, err)

	spans := tel.spans.GetSpans()
	require.Len(t, spans, 3)
	for i, name := range []string{
		"POST /api/Authenication/login", "POST /api/Authenication/validate-two-factor",
		"GET " + getLoan,
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, name, spans[i].Name)
			assert.Equal(t, i == 2, spans[i].Parent.Equal(parent.SpanContext()), name)
			assert.Equal(t, i != 2, !spans[i].Parent.IsValid(), name)
		})
	}
}

func TestWithBaseURL(t *testing.T) {
	for _, test := range []struct {
		baseURL string
		want    map[string]any
	}{
		{"https://lending.example", map[string]any{"server.address": "lending.example", "server.port": int64(443)}},
		{"https://lending.example/tenant-secret", map[string]any{
			"server.address": "lending.example",
			"server.port":    int64(443),
		}},
		{"http://localhost", map[string]any{"server.address": "localhost", "server.port": int64(80)}},
		{"http://[::1]:8080", map[string]any{"server.address": "::1", "server.port": int64(8080)}},
		{"https://name:secret@lending.example:8443", map[string]any{
			"server.address": "lending.example",
			"server.port":    int64(8443),
		}},
		{"other://lending.example", map[string]any{"server.address": "lending.example"}},
		{"https://lending.example:99999", map[string]any{"server.address": "lending.example"}},
		{"lending.example", map[string]any{}},
		{"https://secret\x7f", map[string]any{}},
		{"", map[string]any{}},
	} {
		t.Run(test.baseURL, func(t *testing.T) {
			tel := newTelemetry()
			lendingotel.Observer(lendingotel.WithTracerProvider(tel.tracers),
				lendingotel.WithBaseURL(test.baseURL))(t.Context(),
				lending.Attempt{})
			got := values(tel.span(t).Attributes)
			for _, always := range []string{
				"http.request.method", "url.template", "lending.effect", "lending.outcome",
				"error.type",
			} {
				delete(got, always)
			}
			assert.Equal(t, test.want, got, "%q", test.baseURL)
		})
	}
}

// late is an observer that is older than the global providers, as in programs whose
// set-up comes late. Package otel tells old instruments of the first providers only, so
// it is made once, however often the tests run.
var late = sync.OnceValues(func() (func(context.Context, lending.Attempt), *telemetry) {
	observe := lendingotel.Observer(lendingotel.WithTracerProvider(nil), lendingotel.WithMeterProvider(nil))
	tel := newTelemetry()
	otel.SetTracerProvider(tel.tracers)
	otel.SetMeterProvider(tel.meters)
	return observe, tel
})

func TestGlobalProviders(t *testing.T) {
	observe, tel := late()
	tel.spans.Reset()
	observe(t.Context(), lending.Attempt{Method: http.MethodGet, Route: getLoan, Number: 1})
	assert.Equal(t, "GET "+getLoan, tel.span(t).Name)
	var all metricdata.ResourceMetrics
	require.NoError(t, tel.reader.Collect(t.Context(), &all))
	assert.NotEmpty(t, all.ScopeMetrics)
}

// TestSampler checks that a sampler sees all attributes.
func TestSampler(t *testing.T) {
	sampler := &dropReads{Sampler: sdktrace.AlwaysSample()}
	tel := newTelemetry()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(tel.spans), sdktrace.WithSampler(sampler))
	observe := lendingotel.Observer(lendingotel.WithTracerProvider(tracers), lendingotel.WithMeterProvider(tel.meters))

	observe(t.Context(), lending.Attempt{Effect: lending.Read, Number: 2})
	assert.Empty(t, tel.spans.GetSpans())
	observe(t.Context(), lending.Attempt{Effect: lending.Mutation, Number: 2})
	assert.Equal(t, values(tel.span(t).Attributes), sampler.seen)
	_, points := tel.measured(t)
	assert.Len(t, points, 2, "what is not sampled is measured all the same")
}

type dropReads struct {
	sdktrace.Sampler
	seen map[string]any
}

func (d *dropReads) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if d.seen = values(p.Attributes); d.seen["lending.effect"] == "read" {
		return sdktrace.SamplingResult{Decision: sdktrace.Drop}
	}
	return d.Sampler.ShouldSample(p)
}

// TestCardinality calls a route for many loans concurrently: there is a single time series.
func TestCardinality(t *testing.T) {
	const loans = 32
	service, tel := newService(t), newTelemetry()
	client := newClient(t, service, tel.observe(lendingotel.WithBaseURL(service.URL)))
	var calls sync.WaitGroup
	for range loans {
		id := loanID(t, service.AddLoan(lendingtest.Loan{}).ID)
		calls.Go(func() {
			_, err := client.Loans.Get(t.Context(), id)
			assert.NoError(t, err)
		})
	}
	calls.Wait()

	assert.Len(t, tel.spans.GetSpans(), loans)
	_, points := tel.measured(t)
	require.Len(t, points, 1)
	assert.EqualValues(t, loans, points[0].Count)
}

// BenchmarkObserver measures the cost of an attempt with an SDK that keeps everything.
func BenchmarkObserver(b *testing.B) {
	tracers := sdktrace.NewTracerProvider()
	observe := lendingotel.Observer(lendingotel.WithTracerProvider(tracers),
		lendingotel.WithBaseURL("https://lending.example"))
	a := lending.Attempt{
		Method: http.MethodGet, Route: getLoan, Effect: lending.Read, Number: 1, StatusCode: 200,
		Start: time.Now(), Duration: time.Second, Outcome: lending.OutcomeDone,
	}
	b.ReportAllocs()
	for b.Loop() {
		observe(b.Context(), a)
	}
}
