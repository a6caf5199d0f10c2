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

// scope names what is made here, as instrumentation scope.
const scope = "github.com/lendingapi/lending-go/contrib/otel"

// Attributes of which the conventions know nothing.
const (
	effectKey      = attribute.Key("lending.effect")
	outcomeKey     = attribute.Key("lending.outcome")
	idempotencyKey = attribute.Key("lending.idempotency")
)

// Option changes what [Observer] and [CallObserver] do.
type Option func(*settings)

type settings struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	server  []attribute.KeyValue
}

// WithTracerProvider makes the spans with provider instead of the global one.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(s *settings) { s.tracers = provider }
}

// WithMeterProvider measures with provider instead of the global one.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(s *settings) { s.meters = provider }
}

// WithBaseURL adds server.address and server.port, the host and the port of baseURL,
// and nothing else of it. It is the address given to [lending.New], which is the one to
// refuse what is no address: here it adds nothing.
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

// Observer returns a function for [lending.WithObserver] that makes a span and a
// measurement of every attempt. Without options it uses the providers of package otel,
// also those that are set later. It is safe for concurrent use.
//
// With [CallObserver] the spans are children of that of their call.
func Observer(opts ...Option) func(context.Context, lending.Attempt) {
	tracer, meter, server := instruments(opts)
	duration, err := httpconv.NewClientRequestDuration(meter)
	if err != nil {
		otel.Handle(err) // duration measures nothing then
	}
	o := &observer{tracer, duration, server}
	return o.observe
}

// instruments are what opts say to observe with, and the attributes of the server.
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

	// At its start the span has all that there is to say, so that a sampler knows it.
	attributes := set.ToSlice()
	if a.Number > 1 {
		attributes = append(attributes, semconv.HTTPRequestResendCount(a.Number-1))
	}
	ctx, span := o.tracer.Start(ctx, a.Method+" "+a.Route, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(a.Start), trace.WithAttributes(attributes...))
	if failure != "" {
		span.SetStatus(codes.Error, description(a))
	}
	o.duration.RecordSet(ctx, a.Duration.Seconds(), set) // within the span: it is the exemplar
	span.End(trace.WithTimestamp(a.Start.Add(a.Duration)))
}

// attributes are those of the span and of the measurement.
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

// description says of an error what its status code does not.
func description(a lending.Attempt) string {
	if a.Err == nil || a.StatusCode >= http.StatusMultipleChoices {
		return ""
	}
	return a.Err.Error() // names the kind of the error and quotes nothing
}

// errorType is the value of error.type: empty for success. A status other than success
// speaks for itself, whatever became of its body.
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

// unexpected is the error.type of a success that does not say that it happened.
const unexpected = "unexpected_answer"

// refused reports whether there was an answer, and it is not a success.
func refused(status int) bool { return status != 0 && (status < 200 || status >= 300) }

// kind classifies an error that kept an answer from being received.
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
