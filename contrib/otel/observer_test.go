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
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/golden"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

// Calls that end in each way. Their spans are in testdata/spans.txt.
var endings = []struct {
	name    string
	reads   bool // else the call is a mutation by GET
	faults  []lendingtest.Fault
	answer  http.HandlerFunc
	login   lendingtest.Fault
	signsIn *lending.Credentials
	source  lending.TokenSource
	noID    bool
	http2   bool
	cancels bool // the caller leaves while the service works
	down    bool // the service
}{
	{name: "read", reads: true},
	{name: "mutation", answer: wire.Answer(200, `"11111111-2222-3333-4444-555555555555"`)},
	{name: "HTTP/2", http2: true, answer: wire.Answer(200, `"11111111-2222-3333-4444-555555555555"`)},
	{name: "resent read", reads: true, faults: []lendingtest.Fault{{Status: 503}, {Status: 401}}},
	{name: "signs in", reads: true, signsIn: as(lendingtest.AdministratorUsername, lendingtest.AdministratorPassword)},
	{name: "canceled", cancels: true},
	{name: "argument", noID: true},
	{name: "no source", source: noSource{}},
	{name: "no token", source: lending.StaticToken("")},
	{name: "no code", signsIn: as(lendingtest.Username, lendingtest.Password)},
	{
		name: "sign-in without content", login: lendingtest.Fault{Status: 204},
		signsIn: as(lendingtest.Username, lendingtest.Password),
	},
	{name: "wrong password", signsIn: as(lendingtest.Username, "wrong")},
	{name: "rejected", faults: []lendingtest.Fault{{Status: 409}}},
	{name: "server error", faults: []lendingtest.Fault{{Status: 502, Executes: true}}},
	{name: "server error, cut", faults: []lendingtest.Fault{{Status: 500, CutBody: 3}}},
	{name: "answer lost", faults: []lendingtest.Fault{{ResetAfter: true}}},
	{name: "redirect", faults: []lendingtest.Fault{{Status: 302, Header: http.Header{"Location": {"/elsewhere"}}}}},
	{name: "unreachable", down: true},
	{name: "no content", faults: []lendingtest.Fault{{Status: 204, Executes: true}}},
	{name: "undecodable", faults: []lendingtest.Fault{{Status: 200, Executes: true, Body: []byte(`{"a":1}`)}}},
	{name: "cut", faults: []lendingtest.Fault{{Status: 200, Executes: true, Body: []byte(`{"a":1}`), CutBody: 3}}},
	{name: "page of HTML", answer: wire.Plain("text/html", "<html>Sign in</html>")},
	{name: "malformed answer", answer: func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_, _ = io.WriteString(conn, "nonsense")
		_ = conn.Close()
	}},
}

func as(username, password string) *lending.Credentials {
	return &lending.Credentials{
		Username: username, Password: lending.NewSecret(password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) { return "", nil },
	}
}

// TestSpans compares the spans of calls and attempts with testdata/spans.txt.
func TestSpans(t *testing.T) {
	var all strings.Builder
	for _, test := range endings {
		t.Run(test.name, func(t *testing.T) {
			service, tel := lendingtest.New(), newTelemetry()
			defer service.Close()
			server := httptest.NewUnstartedServer(service)
			defer server.Close()
			opts := []lending.Option{tel.observe(lendingotel.WithBaseURL("https://lending.example"))}
			if server.EnableHTTP2 = test.http2; test.http2 {
				server.StartTLS()
				roots := x509.NewCertPool()
				roots.AddCert(server.Certificate())
				opts = append(opts, lending.WithTLS(&tls.Config{RootCAs: roots}))
			} else {
				server.Start()
			}
			switch {
			case test.signsIn != nil:
				opts = append(opts, lending.WithCredentials(*test.signsIn))
			case test.source == nil:
				opts = append(opts, lending.WithTokenSource(renewable{service}))
			case test.source != noSource{}:
				opts = append(opts, lending.WithTokenSource(test.source))
			}
			client := wire.NewClient(t, server.URL, opts...)
			ctx, parent := tel.tracers.Tracer("caller").Start(t.Context(), "parent")
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if test.cancels {
				test.faults = []lendingtest.Fault{{Reached: cancel, DelayBefore: time.Hour}}
			}
			route := map[bool]string{true: fake.StatusRoute, false: fake.ProcessRoute}[test.reads]
			for _, fault := range test.faults {
				service.Fail(route, fault)
			}
			service.Answer(route, test.answer)
			service.Fail(fake.LoginRoute, test.login)
			id := fake.Must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))
			if test.noID {
				id = lending.ApplicationID{}
			}
			if test.down {
				server.Close()
			}
			call := func() error { _, err := client.Applications.Process(ctx, id); return err }
			if test.reads {
				call = func() error { _, err := client.Applications.Status(ctx, id); return err }
			}
			err := call()
			lines := strings.ReplaceAll(tel.shown(t, parent), server.Listener.Addr().String(), "HOST")
			outcome := lending.OutcomeOf(err).String()
			_, ofCall, _ := strings.Cut(lines, "call "+route)
			assert.Contains(t, ofCall, "lending.outcome="+outcome, "the span and the error agree")
			fmt.Fprintf(&all, "# %s: %s\n%s\n", test.name, outcome, lines)
		})
	}
	golden.Check(t, "testdata/spans.txt", all.String())
}

type noSource struct{ lending.TokenSource }

// renewable gets another token after every refusal.
type renewable struct{ service *lendingtest.Service }

func (r renewable) Token(context.Context) (lending.Token, error) {
	return lending.Token{Value: lending.NewSecret(r.service.Token(lendingtest.Username))}, nil
}

func (renewable) Invalidate(lending.Token) {}

// TestMeasurements holds the histograms, the scope of both signals, and the attributes that a sampler sees.
func TestMeasurements(t *testing.T) {
	const schema, scope = "https://opentelemetry.io/schemas/1.43.0", "github.com/lendingapi/lending-go/contrib/otel"
	tel, sampler := newTelemetry(), &sampled{Sampler: sdktrace.AlwaysSample()}
	tel.tracers = sdktrace.NewTracerProvider(sdktrace.WithSyncer(tel.spans), sdktrace.WithSampler(sampler))
	call, attempt := lendingotel.Observer(tel.providers()...)
	c := lending.Call{Start: time.Now(), Duration: 3 * time.Second}
	observed(t.Context(), call, c)
	observed(t.Context(), attempt, c)
	want := map[string]any{"http.request.method": "", "url.template": "", "lending.effect": "mutation"}
	assert.Equal(t, want, sampler.seen)
	metrics, measuring := tel.histograms(t)
	assert.Equal(t, schema, measuring.Scope.SchemaURL)
	assert.Equal(t, scope, measuring.Scope.Name)
	assert.Equal(t, "Duration of calls, with their repetitions, waits and sign-ins.",
		metrics["lending.client.call.duration"].Description)
	bounds := []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	for i, name := range []string{"lending.client.call.duration", "http.client.request.duration"} {
		span, points := tel.spans.GetSpans()[i], pointsOf(metrics[name])
		assert.Equal(t, schema, span.InstrumentationScope.SchemaURL)
		assert.Equal(t, scope, span.InstrumentationScope.Name)
		assert.True(t, span.StartTime.Equal(c.Start))
		assert.Equal(t, c.Duration, span.EndTime.Sub(span.StartTime))
		assert.Equal(t, "s", metrics[name].Unit)
		require.Len(t, points, 1)
		assert.Equal(t, [][]float64{append(bounds, 30, 60, 120), bounds}[i], points[0].Bounds)
		assert.InDelta(t, 3, points[0].Sum, 1e-9)
		id := span.SpanContext.SpanID()
		assert.Equal(t, id[:], points[0].Exemplars[0].SpanID, "the exemplar leads to the span")
	}
}

type sampled struct {
	sdktrace.Sampler
	seen map[string]any
}

func (s *sampled) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	s.seen = values(p.Attributes)
	return s.Sampler.ShouldSample(p)
}

// Errors that are hard to bring about, wrapped as the transport does it.
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
			&tls.CertificateVerificationError{Err: errors.New("expired")}, x509.UnknownAuthorityError{}, x509.HostnameError{},
		}},
		{"timeout", []error{
			os.ErrDeadlineExceeded, context.DeadlineExceeded, dial(os.ErrDeadlineExceeded),
			dial(&net.DNSError{UnwrapErr: context.DeadlineExceeded}),
		}},
		{"connection_failed", []error{dial(syscall.ECONNREFUSED), dial(syscall.ECONNRESET)}},
		{"connection_reset", []error{
			&net.OpError{Op: "read", Err: syscall.ECONNRESET}, &net.OpError{Op: "write", Err: syscall.EPIPE},
		}},
		{"connection_closed", []error{io.EOF, io.ErrUnexpectedEOF}},
		{"answer_too_large", []error{lending.ErrTooLarge}},
		{"_OTHER", []error{errors.New("malformed HTTP status code"), &net.OpError{Op: "read", Err: errors.New("other")}}},
	} {
		t.Run(test.want, func(t *testing.T) {
			for _, err := range test.errs {
				tel := newTelemetry()
				_, attempt := lendingotel.Observer(tel.providers()...)
				observed(t.Context(), attempt, lending.Call{Err: fmt.Errorf("wrapped: %w", err)})
				assert.Equal(t, test.want, values(tel.span(t).Attributes)["error.type"], "%v", err)
			}
		})
	}
}

func TestWithBaseURL(t *testing.T) {
	for baseURL, want := range map[string]string{
		"https://lending.example":                  "server.address=lending.example,server.port=443",
		"https://lending.example/tenant-secret":    "server.address=lending.example,server.port=443",
		"http://localhost":                         "server.address=localhost,server.port=80",
		"http://[::1]:8080":                        "server.address=::1,server.port=8080",
		"https://name:secret@lending.example:8443": "server.address=lending.example,server.port=8443",
		"other://lending.example":                  "server.address=lending.example",
		"https://lending.example:99999":            "server.address=lending.example",
		"lending.example":                          "", "https://secret\x7f": "", "": "",
	} {
		t.Run(baseURL, func(t *testing.T) {
			tel := newTelemetry()
			begin, _ := lendingotel.Observer(tel.providers(lendingotel.WithBaseURL(baseURL))...)
			observed(t.Context(), begin, lending.Call{})
			server, _ := attribute.NewSetWithFiltered(tel.span(t).Attributes,
				attribute.NewAllowKeysFilter("server.address", "server.port"))
			assert.Equal(t, want, server.Encoded(attribute.DefaultEncoder()))
		})
	}
}

// The baggage of a request that the program serves can be longer than a header of the client. It must not end a call.
func TestHeaderLeavesOutLongBaggage(t *testing.T) {
	otel.SetTextMapPropagator(propagation.Baggage{})
	defer otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator())
	for length, stays := range map[int]bool{100: true, 4_000: false} {
		member := fake.Must(baggage.NewMember("key", strings.Repeat("x", length)))
		header := http.Header{}
		lendingotel.Header(baggage.ContextWithBaggage(t.Context(), fake.Must(baggage.New(member))), header)
		assert.Equal(t, stays, header.Get("baggage") != "", length)
	}
}
