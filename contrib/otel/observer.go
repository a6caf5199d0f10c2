package lendingotel

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

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

const scope = "github.com/lendingapi/lending-go/contrib/otel"

// Attributes that the conventions do not define.
const (
	effectKey      = attribute.Key("lending.effect")
	outcomeKey     = attribute.Key("lending.outcome")
	idempotencyKey = attribute.Key("lending.idempotency")
	attemptsKey    = attribute.Key("lending.attempts")
)

// versions are the values of network.protocol.version.
var versions = map[string]string{"HTTP/1.0": "1.0", "HTTP/1.1": "1.1", "HTTP/2.0": "2", "HTTP/3.0": "3"}

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
	attempts := &observer{tracer, duration.Float64Histogram, server, false, errorType, description}
	calls := &observer{tracer, callDuration(meter), server, true, callErrorType, callDescription}
	return calls.begin, attempts.begin
}

func callDuration(meter metric.Meter) metric.Float64Histogram {
	duration, err := meter.Float64Histogram("lending.client.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of calls, with their repetitions, waits and sign-ins."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 120))
	if err != nil {
		otel.Handle(err) // then duration measures nothing
	}
	return duration
}

// Header is a function for [lending.WithHeader]: it adds the headers of the global propagator of
// package otel, usually traceparent and baggage. Without Header no request carries a trace. Baggage
// goes to the lending service, so keep personal data out of it. Header leaves out a header above 4,000
// bytes, for example a long baggage of a request to the program: the client would not send the call.
func Header(ctx context.Context, header http.Header) {
	injected := http.Header{}
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(injected))
	for name, values := range injected {
		if len(values[0]) <= 4000 {
			header[name] = values
		}
	}
}

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

// observer records the spans and the durations of calls, or of attempts.
type observer struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram
	server   []attribute.KeyValue
	isCall   bool

	errorType, description func(lending.Call) string
}

func (o *observer) begin(ctx context.Context, c lending.Call) (context.Context, func(lending.Call)) {
	known := append([]attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(c.Method), semconv.URLTemplate(c.Route), effectKey.String(c.Effect.String()),
	}, o.server...)
	name, kind := c.Method+" "+c.Route, trace.SpanKindClient
	switch {
	case o.isCall: // the log tells its idempotency at the end
		name, kind = "call "+name, trace.SpanKindInternal
	case c.Idempotency != "":
		known = append(known, idempotencyKey.String(c.Idempotency))
	}
	ctx, span := o.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(known...), trace.WithTimestamp(c.Start))
	return ctx, func(c lending.Call) { o.end(ctx, span, known, c) }
}

// end ends a span. The measurement has the attributes of the span, without the numbers of attempts.
func (o *observer) end(ctx context.Context, span trace.Span, known []attribute.KeyValue, c lending.Call) {
	attributes := []attribute.KeyValue{outcomeKey.String(c.Outcome.String())}
	if c.StatusCode != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(c.StatusCode))
	}
	if version, ok := versions[c.Protocol]; ok {
		attributes = append(attributes, semconv.NetworkProtocolVersion(version))
	}
	if failure := o.errorType(c); failure != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(failure))
		span.SetStatus(codes.Error, o.description(c))
	}
	if c.Idempotency != "" {
		attributes = append(attributes, idempotencyKey.String(c.Idempotency))
	}
	o.duration.Record(ctx, c.Duration.Seconds(), metric.WithAttributes(slices.Concat(known, attributes)...)) // its exemplar is the span
	switch {
	case o.isCall:
		attributes = append(attributes, attemptsKey.Int(c.Attempts))
	case c.Attempts > 1:
		attributes = append(attributes, semconv.HTTPRequestResendCount(c.Attempts-1))
	}
	span.SetAttributes(attributes...)
	span.End(trace.WithTimestamp(c.Start.Add(c.Duration)))
}
