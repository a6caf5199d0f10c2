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

// Option configures [Observer], [CallObserver] and [Gauges].
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

// Observer returns a function for [lending.WithObserver] that records a span and a measurement
// of every attempt. Without options, Observer uses the global providers of package otel, even if
// they are set later. The function is safe for concurrent use.
//
// With [CallObserver], the spans are children of the span of their call.
func Observer(opts ...Option) func(context.Context, lending.Attempt) {
	tracer, meter, server := instruments(opts)
	duration, err := httpconv.NewClientRequestDuration(meter)
	if err != nil {
		otel.Handle(err) // then duration measures nothing
	}
	o := &observer{tracer, duration, server}
	return o.observe
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

type observer struct {
	tracer   trace.Tracer
	duration httpconv.ClientRequestDuration
	server   []attribute.KeyValue
}

func (o *observer) observe(ctx context.Context, a lending.Attempt) {
	failure := errorType(a)
	set := attribute.NewSet(o.attributes(a, failure)...)

	// The span has all attributes at its start, so that a sampler can use them.
	attributes := set.ToSlice()
	if a.Number > 1 {
		attributes = append(attributes, semconv.HTTPRequestResendCount(a.Number-1))
	}
	ctx, span := o.tracer.Start(ctx, a.Method+" "+a.Route, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(a.Start), trace.WithAttributes(attributes...))
	if failure != "" {
		span.SetStatus(codes.Error, description(a))
	}
	o.duration.RecordSet(ctx, a.Duration.Seconds(), set) // in the context of the span, which is the exemplar
	span.End(trace.WithTimestamp(a.Start.Add(a.Duration)))
}

// attributes returns the attributes of the span and of the measurement.
func (o *observer) attributes(a lending.Attempt, failure string) []attribute.KeyValue {
	attributes := append([]attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(a.Method),
		semconv.URLTemplate(a.Route),
		effectKey.String(a.Effect.String()),
		outcomeKey.String(a.Outcome.String()),
	}, o.server...)
	if a.Idempotency != "" {
		attributes = append(attributes, idempotencyKey.String(a.Idempotency))
	}
	if a.StatusCode != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(a.StatusCode))
	}
	if failure != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(failure))
	}
	return attributes
}

// description returns the text of an error, or "" if the status code is enough.
func description(a lending.Attempt) string {
	if a.Err == nil || a.StatusCode >= http.StatusMultipleChoices {
		return ""
	}
	return a.Err.Error() // the text quotes no value
}

// errorType returns error.type, which is empty for success. After a status other than success
// the body does not matter.
func errorType(a lending.Attempt) string {
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
		return "canceled"
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
