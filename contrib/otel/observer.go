package lendingotel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"

	"github.com/lendingapi/lending-go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation scope of all spans and metrics.
const scope = "github.com/lendingapi/lending-go/contrib/otel"

// Attributes that the conventions do not define.
const (
	effectKey      = attribute.Key("lending.effect")
	outcomeKey     = attribute.Key("lending.outcome")
	idempotencyKey = attribute.Key("lending.idempotency")
)

// Option configures [Observer], [Webhooks] and [Gauges].
type Option func(*settings)

type settings struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	server  []attribute.KeyValue
}

// WithTracerProvider records spans with provider instead of the global provider.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(s *settings) { s.tracers = provider }
}

// WithMeterProvider records measurements with provider instead of the global provider.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(s *settings) { s.meters = provider }
}

// WithBaseURL adds server.address and server.port, the host and the port of baseURL, and nothing
// else. Pass the address of [lending.New]. WithBaseURL ignores an invalid address, which
// [lending.New] rejects.
func WithBaseURL(baseURL string) Option {
	return func(s *settings) { s.server = serverOf(baseURL) }
}

func serverOf(baseURL string) []attribute.KeyValue {
	u, err := url.Parse(baseURL)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	server := []attribute.KeyValue{semconv.ServerAddress(u.Hostname())}
	if number, err := strconv.ParseUint(port, 10, 16); err == nil {
		server = append(server, semconv.ServerPort(int(number)))
	}
	return server
}

// Observer returns the two functions for [lending.WithObserver], which record a span and a measurement
// of every call and of every attempt. Without options, Observer uses the global providers of package
// otel, even if they are set later. The functions are safe for concurrent use.
func Observer(opts ...Option) (call, attempt func(context.Context, lending.Call) (context.Context, func(lending.Call))) {
	tracer, meter, server := instruments(opts)
	duration, err := httpconv.NewClientRequestDuration(meter)
	if err != nil {
		otel.Handle(err) // then duration measures nothing
	}
	attempts := &attemptObserver{tracer, duration, server}
	return newCallObserver(tracer, meter, server).begin, attempts.begin
}

// Header is a function for [lending.WithHeader]: it adds the headers of the global propagator of
// package otel, usually traceparent and baggage. Without Header no request carries a trace. Baggage
// goes to the lending service, so keep personal data out of it.
func Header(ctx context.Context, header http.Header) {
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(header))
}

// instruments returns the tracer, the meter and the server's attributes for opts.
func instruments(opts []Option) (trace.Tracer, metric.Meter, []attribute.KeyValue) {
	var s settings
	for _, opt := range opts {
		opt(&s)
	}
	if s.tracers == nil {
		s.tracers = otel.GetTracerProvider()
	}
	if s.meters == nil {
		s.meters = otel.GetMeterProvider()
	}
	schema := semconv.SchemaURL
	return s.tracers.Tracer(scope, trace.WithSchemaURL(schema)), s.meters.Meter(scope, metric.WithSchemaURL(schema)), s.server
}

type attemptObserver struct {
	tracer   trace.Tracer
	duration httpconv.ClientRequestDuration
	server   []attribute.KeyValue
}

func (o *attemptObserver) begin(ctx context.Context, a lending.Call) (context.Context, func(lending.Call)) {
	known := known(a, o.server)
	if a.Idempotency != "" {
		known = append(known, idempotencyKey.String(a.Idempotency))
	}
	ctx, span := o.tracer.Start(ctx, a.Method+" "+a.Route, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(a.Start), trace.WithAttributes(known...))
	if a.Attempts > 1 {
		span.SetAttributes(semconv.HTTPRequestResendCount(a.Attempts - 1))
	}
	return ctx, func(a lending.Call) {
		failure := errorType(a)
		became := became(a, failure)
		// The measurement is in the context of the span, which is its exemplar.
		o.duration.RecordSet(ctx, a.Duration.Seconds(), attribute.NewSet(append(known, became...)...))
		end(span, a, failure, description(a), became)
	}
}

// known returns the attributes at the start of a call or an attempt.
func known(c lending.Call, server []attribute.KeyValue) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, 0, 12) // room for those at the end
	return append(append(attributes,
		semconv.HTTPRequestMethodKey.String(c.Method),
		semconv.URLTemplate(c.Route),
		effectKey.String(c.Effect.String())), server...)
}

// became returns the attributes at the end.
func became(c lending.Call, failure string) []attribute.KeyValue {
	attributes := append(make([]attribute.KeyValue, 0, 6), outcomeKey.String(c.Outcome.String()))
	if c.StatusCode != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(c.StatusCode))
	}
	if major, minor, ok := http.ParseHTTPVersion(c.Protocol); ok {
		version := strconv.Itoa(major)
		if major < 2 {
			version += "." + strconv.Itoa(minor)
		}
		attributes = append(attributes, semconv.NetworkProtocolVersion(version))
	}
	if failure != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(failure))
	}
	return attributes
}

// end ends a span. A call that its caller canceled is no error.
func end(span trace.Span, c lending.Call, failure, description string, attributes []attribute.KeyValue) {
	if failure != "" {
		span.SetStatus(codes.Error, description)
	}
	span.SetAttributes(attributes...)
	span.End(trace.WithTimestamp(c.Start.Add(c.Duration)))
}

// description returns the text of an error, or "" if the status code is enough.
func description(a lending.Call) string {
	if a.Err == nil || a.StatusCode >= http.StatusMultipleChoices {
		return ""
	}
	return a.Err.Error() // the text quotes no value
}

// errorType returns error.type, which is empty for success and for an attempt that the caller canceled.
// After a status other than success the body does not matter.
func errorType(a lending.Call) string {
	switch {
	case refused(a.StatusCode):
		return strconv.Itoa(a.StatusCode)
	case a.Err != nil:
		return kind(a.Err)
	case a.Outcome != lending.OutcomeDone:
		return unexpected
	}
	return ""
}

// unexpected is the error.type of a 2xx whose body does not prove the success.
const unexpected = "unexpected_answer"

// refused reports whether there was a response without success.
func refused(status int) bool { return status != 0 && (status < 200 || status >= 300) }

// kind classifies an error that prevented a response.
func kind(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	var network *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return "" // the conventions: no error
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &dns):
		return "host_not_found"
	case isCertificate(err):
		return "certificate_invalid"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &network) && network.Op == "dial":
		return "connection_failed"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection_reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection_closed"
	case errors.Is(err, lending.ErrTooLarge):
		return "answer_too_large"
	}
	return semconv.ErrorTypeOther.Value.AsString()
}

func isCertificate(err error) bool {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	return errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &hostname)
}
