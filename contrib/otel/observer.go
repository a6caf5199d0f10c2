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
	"slices"
	"strconv"
	"sync"
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
	attempts := &observer{
		tracer: tracer, duration: duration.Float64Histogram, server: server,
		kind: trace.WithSpanKind(trace.SpanKindClient), errorType: errorType, description: description,
	}
	calls := &observer{
		tracer: tracer, duration: callDuration(meter), server: server, isCall: true,
		prefix: "call ", kind: trace.WithSpanKind(trace.SpanKindInternal), errorType: callErrorType, description: callDescription,
	}
	return calls.begin, attempts.begin
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

// observer records the spans and the durations of calls, or of attempts. Calls of a route differ in few
// attributes, which are made once.
type observer struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram
	server   []attribute.KeyValue
	isCall   bool
	prefix   string // of a span's name
	kind     trace.SpanStartOption

	errorType, description func(lending.Call) string

	starts cache[startKey, *start]
	ends   cache[endKey, *ended]
}

type startKey struct {
	method, route, idempotency string
	effect                     lending.Effect
}

// start is what a span has at its start.
type start struct {
	name       string
	known      []attribute.KeyValue
	attributes trace.SpanStartOption
}

type endKey struct {
	start                          *start
	outcome                        lending.Outcome
	status, attempts               int
	protocol, idempotency, failure string
}

// ended is what a span and a measurement have at the end.
type ended struct {
	attributes []attribute.KeyValue
	record     []metric.RecordOption
}

func (o *observer) begin(ctx context.Context, c lending.Call) (context.Context, func(lending.Call)) {
	key := startKey{method: c.Method, route: c.Route, effect: c.Effect}
	if !o.isCall { // a call has its own at the end
		key.idempotency = c.Idempotency
	}
	start := o.starts.of(key, o.start)
	ctx, span := o.tracer.Start(ctx, start.name, o.kind, start.attributes, trace.WithTimestamp(c.Start))
	if !o.isCall && c.Attempts > 1 {
		span.SetAttributes(semconv.HTTPRequestResendCount(c.Attempts - 1))
	}
	return ctx, func(c lending.Call) { o.end(ctx, span, start, c) }
}

// start returns the attributes at the start of a call or an attempt.
func (o *observer) start(key startKey) *start {
	known := append([]attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(key.method),
		semconv.URLTemplate(key.route),
		effectKey.String(key.effect.String()),
	}, o.server...)
	if key.idempotency != "" {
		known = append(known, idempotencyKey.String(key.idempotency))
	}
	return &start{o.prefix + key.method + " " + key.route, known, trace.WithAttributes(known...)}
}

// end ends a span. A call that its caller canceled is no error.
func (o *observer) end(ctx context.Context, span trace.Span, start *start, c lending.Call) {
	key := endKey{start: start, outcome: c.Outcome, status: c.StatusCode, protocol: c.Protocol, failure: o.errorType(c)}
	if o.isCall {
		key.attempts, key.idempotency = c.Attempts, c.Idempotency
	}
	ended := o.ends.of(key, o.ended)
	o.duration.Record(ctx, c.Duration.Seconds(), ended.record...) // its exemplar is the span
	if key.failure != "" {
		span.SetStatus(codes.Error, o.description(c))
	}
	span.SetAttributes(ended.attributes...)
	span.End(trace.WithTimestamp(c.Start.Add(c.Duration)))
}

func (o *observer) ended(key endKey) *ended {
	attributes := became(key)
	set := attribute.NewSet(slices.Concat(key.start.known, attributes)...)
	if o.isCall {
		attributes = append(attributes, attemptsKey.Int(key.attempts))
	}
	return &ended{attributes, []metric.RecordOption{metric.WithAttributeSet(set)}}
}

// cache keeps the first values that were made. A program may call [lending.Client.Do] with any number
// of routes.
type cache[K comparable, V any] struct {
	mu     sync.RWMutex
	values map[K]V
}

const maxCached = 2000

func (c *cache[K, V]) of(key K, value func(K) V) V {
	c.mu.RLock()
	made, ok := c.values[key]
	c.mu.RUnlock()
	if ok {
		return made
	}
	made = value(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.values == nil {
		c.values = map[K]V{}
	}
	if len(c.values) < maxCached {
		c.values[key] = made
	}
	return made
}

// became returns the attributes that are known at the end.
func became(key endKey) []attribute.KeyValue {
	attributes := []attribute.KeyValue{outcomeKey.String(key.outcome.String())}
	if key.status != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(key.status))
	}
	if major, minor, ok := http.ParseHTTPVersion(key.protocol); ok {
		version := strconv.Itoa(major)
		if major < 2 {
			version += "." + strconv.Itoa(minor)
		}
		attributes = append(attributes, semconv.NetworkProtocolVersion(version))
	}
	if key.failure != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(key.failure))
	}
	if key.idempotency != "" {
		attributes = append(attributes, idempotencyKey.String(key.idempotency))
	}
	return attributes
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
