package lendingotel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

// telemetry collects spans and metrics.
type telemetry struct {
	tracers *sdktrace.TracerProvider
	meters  *metric.MeterProvider
	spans   *tracetest.InMemoryExporter
	reader  *metric.ManualReader
}

func newTelemetry() *telemetry {
	spans, reader := tracetest.NewInMemoryExporter(), metric.NewManualReader()
	return &telemetry{ // nothing in it runs or waits, so there is nothing to shut down
		sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
		metric.NewMeterProvider(metric.WithReader(reader)),
		spans, reader,
	}
}

func (tel *telemetry) providers(opts ...lendingotel.Option) []lendingotel.Option {
	return append(opts, lendingotel.WithTracerProvider(tel.tracers), lendingotel.WithMeterProvider(tel.meters))
}

// observe is the option to report calls and attempts to tel.
func (tel *telemetry) observe(opts ...lendingotel.Option) lending.Option {
	return lending.WithObserver(lendingotel.Observer(tel.providers(opts...)...))
}

// histograms returns the measurements by the name of their histogram, and their scope.
func (tel *telemetry) histograms(t *testing.T) (map[string]metricdata.Metrics, metricdata.ScopeMetrics) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, tel.reader.Collect(t.Context(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	named := map[string]metricdata.Metrics{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		named[m.Name] = m
	}
	return named, all.ScopeMetrics[0]
}

func pointsOf(m metricdata.Metrics) []metricdata.HistogramDataPoint[float64] {
	return m.Data.(metricdata.Histogram[float64]).DataPoints
}

// span returns the only span.
func (tel *telemetry) span(t *testing.T) tracetest.SpanStub {
	t.Helper()
	spans := tel.spans.GetSpans()
	require.Len(t, spans, 1)
	return spans[0]
}

// tree returns the children of a span, in the order of their start, as lines with their events.
func tree(
	spans tracetest.SpanStubs, parent trace.SpanID, indent string, show func(tracetest.SpanStub) string,
) string {
	var b strings.Builder
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	for _, span := range spans {
		if span.Parent.SpanID() != parent {
			continue
		}
		b.WriteString(indent + show(span))
		for i, event := range span.Events {
			name := strings.TrimPrefix(event.Name, "lending.idempotency.")
			fmt.Fprint(&b, []string{"  [", ", "}[min(i, 1)], name, " ", values(event.Attributes)["lending.state"])
		}
		if len(span.Events) > 0 {
			b.WriteByte(']')
		}
		b.WriteString("\n" + tree(spans, span.SpanContext.SpanID(), indent+"  ", show))
	}
	return b.String()
}

// shown returns the spans since the last call, the sign-ins after the children of parent. Each has a
// measurement with its attributes, and is an error if it has an error.type.
func (tel *telemetry) shown(t *testing.T, parent trace.Span) string {
	t.Helper()
	measured, _ := tel.histograms(t)
	show := func(span tracetest.SpanStub) string {
		set, _ := attribute.NewSetWithFiltered(span.Attributes,
			attribute.NewDenyKeysFilter("lending.attempts", "http.request.resend_count"))
		name := "http.client.request.duration"
		if span.SpanKind == trace.SpanKindInternal {
			name = "lending.client.call.duration"
		}
		assert.True(t, slices.ContainsFunc(pointsOf(measured[name]), func(p metricdata.HistogramDataPoint[float64]) bool {
			return p.Attributes.Equals(&set)
		}), "no measurement of %v", set)
		line := fmt.Sprint(span.Name, " ", span.SpanKind)
		if set.HasValue("error.type") {
			line += fmt.Sprintf(" %s %q", span.Status.Code, span.Status.Description)
		} else {
			assert.Equal(t, sdktrace.Status{}, span.Status)
		}
		all := attribute.NewSet(span.Attributes...)
		for _, kv := range all.ToSlice() {
			if kv.Key != "url.template" && !strings.HasPrefix(string(kv.Key), "server.") { // the same for all
				line += fmt.Sprintf(" %s=%s", kv.Key, kv.Value.String())
			}
		}
		return line
	}
	spans := tel.spans.GetSpans()
	tel.spans.Reset()
	return tree(spans, parent.SpanContext().SpanID(), "", show) + tree(spans, trace.SpanID{}, "another trace: ", show)
}

// values are attributes, by name.
func values(attributes []attribute.KeyValue) map[string]any {
	m := make(map[string]any, len(attributes))
	for _, kv := range attributes {
		m[string(kv.Key)] = kv.Value.AsInterface()
	}
	return m
}

func observed(
	ctx context.Context, observe func(context.Context, lending.Call) (context.Context, func(lending.Call)), c lending.Call,
) {
	_, end := observe(ctx, c)
	end(c)
}
