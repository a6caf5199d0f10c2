package lendingotel_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
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
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

// TestAttemptIsToldAfterTheEndOfItsContext cancels a call while the service works on it.
func TestAttemptIsToldAfterTheEndOfItsContext(t *testing.T) {
	service, tel := newService(t), newTelemetry()
	client := newClient(t, service, tel.observe())
	id := applicationID(t, service.AddApplication(lendingtest.Application{}).ID)
	ctx, cancel := context.WithCancel(t.Context())
	service.Fail("GET "+process, lendingtest.Fault{Reached: cancel, DelayBefore: time.Hour})
	_, err := client.Applications.Process(ctx, id)
	require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
	got := values(tel.span(t).Attributes)
	assert.NotContains(t, got, "error.type", "the conventions do not call it an error")
	assert.Equal(t, sdktrace.Status{}, tel.span(t).Status)
	assert.Equal(t, "unknown", got["lending.outcome"])
	_, points := tel.measured(t)
	require.Len(t, points, 1)
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

func TestWithBaseURL(t *testing.T) {
	for _, test := range []struct {
		baseURL, address string
		port             int64
	}{
		{"https://lending.example", "lending.example", 443},
		{"https://lending.example/tenant-secret", "lending.example", 443},
		{"http://localhost", "localhost", 80},
		{"http://[::1]:8080", "::1", 8080},
		{"https://name:secret@lending.example:8443", "lending.example", 8443},
		{"other://lending.example", "lending.example", 0},
		{"https://lending.example:99999", "lending.example", 0},
		{"lending.example", "", 0},
		{"https://secret\x7f", "", 0},
		{"", "", 0},
	} {
		t.Run(test.baseURL, func(t *testing.T) {
			tel := newTelemetry()
			begin, _ := lendingotel.Observer(lendingotel.WithTracerProvider(tel.tracers), lendingotel.WithBaseURL(test.baseURL))
			_, end := begin(t.Context(), lending.Call{})
			end(lending.Call{})
			got := values(tel.span(t).Attributes)
			maps.DeleteFunc(got, func(name string, _ any) bool { return !strings.HasPrefix(name, "server.") })
			want := map[string]any{}
			if test.address != "" {
				want["server.address"] = test.address
			}
			if test.port != 0 {
				want["server.port"] = test.port
			}
			assert.Equal(t, want, got)
		})
	}
}

// late is an observer that is older than the global providers, as in programs whose
// set-up comes late. Package otel tells old instruments of the first providers only, so
// it is made once, however often the tests run.
var late = sync.OnceValues(func() (observer, *telemetry) {
	_, attempt := lendingotel.Observer(lendingotel.WithTracerProvider(nil), lendingotel.WithMeterProvider(nil))
	tel := newTelemetry()
	otel.SetTracerProvider(tel.tracers)
	otel.SetMeterProvider(tel.meters)
	return attempt, tel
})

func observed(ctx context.Context, observe observer, c lending.Call) {
	_, end := observe(ctx, c)
	end(c)
}

func TestGlobalProviders(t *testing.T) {
	observe, tel := late()
	tel.spans.Reset()
	observed(t.Context(), observe, lending.Call{Method: http.MethodGet, Route: getLoan, Attempts: 1})
	assert.Equal(t, "GET "+getLoan, tel.span(t).Name)
	var all metricdata.ResourceMetrics
	require.NoError(t, tel.reader.Collect(t.Context(), &all))
	assert.NotEmpty(t, all.ScopeMetrics)
}

// A sampler sees the attributes that are known at the start.
func TestSampler(t *testing.T) {
	sampler := &dropReads{Sampler: sdktrace.AlwaysSample()}
	tel := newTelemetry()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(tel.spans), sdktrace.WithSampler(sampler))
	_, observe := lendingotel.Observer(lendingotel.WithTracerProvider(tracers), lendingotel.WithMeterProvider(tel.meters))

	observed(t.Context(), observe, lending.Call{Effect: lending.Read, Attempts: 1})
	assert.Empty(t, tel.spans.GetSpans())
	observed(t.Context(), observe, lending.Call{Effect: lending.Mutation, Attempts: 1})
	want := map[string]any{"http.request.method": "", "url.template": "", "lending.effect": "mutation"}
	assert.Equal(t, want, sampler.seen)
	_, points := tel.measured(t)
	assert.Len(t, points, 2, "a read without a span is measured")
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
