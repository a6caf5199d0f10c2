package lendingotel_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

// The routes of the tests.
const (
	getLoan   = "/api/Loan/get-loan/{loanId}"
	process   = "/api/Application/process-application/{applicationId}"
	cancelApp = "/api/Application/cancel-application/{applicationId}"
)

// telemetry collects the spans and metrics of an observer.
type telemetry struct {
	tracers *trace.TracerProvider
	meters  *metric.MeterProvider
	spans   *tracetest.InMemoryExporter
	reader  *metric.ManualReader
}

func newTelemetry() *telemetry {
	spans, reader := tracetest.NewInMemoryExporter(), metric.NewManualReader()
	return &telemetry{ // nothing in it runs or waits, so there is nothing to shut down
		trace.NewTracerProvider(trace.WithSyncer(spans)),
		metric.NewMeterProvider(metric.WithReader(reader)),
		spans, reader,
	}
}

type observer = func(context.Context, lending.Call) (context.Context, func(lending.Call))

func (tel *telemetry) observer(opts ...lendingotel.Option) (call, attempt observer) {
	return lendingotel.Observer(append(opts,
		lendingotel.WithTracerProvider(tel.tracers), lendingotel.WithMeterProvider(tel.meters))...)
}

// observe is the option to report attempts to tel.
func (tel *telemetry) observe(opts ...lendingotel.Option) lending.Option {
	_, attempt := tel.observer(opts...)
	return lending.WithObserver(nil, attempt)
}

// observeCalls is the option to report calls to tel.
func (tel *telemetry) observeCalls(opts ...lendingotel.Option) lending.Option {
	call, _ := tel.observer(opts...)
	return lending.WithObserver(call, nil)
}

// measured returns the scope and the points of the metric of attempts, which is the only one.
func (tel *telemetry) measured(t *testing.T) (metricdata.ScopeMetrics, []metricdata.HistogramDataPoint[float64]) {
	t.Helper()
	return tel.measuredBy(t, "http.client.request.duration")
}

// measuredBy returns the scope and the points of the metric called name, and fails on
// any other.
func (tel *telemetry) measuredBy(t *testing.T, name string) (metricdata.ScopeMetrics,
	[]metricdata.HistogramDataPoint[float64],
) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, tel.reader.Collect(t.Context(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	require.Len(t, all.ScopeMetrics[0].Metrics, 1)
	require.Equal(t, name, all.ScopeMetrics[0].Metrics[0].Name)
	histogram, ok := all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Histogram[float64])
	require.True(t, ok)
	return all.ScopeMetrics[0], histogram.DataPoints
}

// span returns the only span.
func (tel *telemetry) span(t *testing.T) tracetest.SpanStub {
	t.Helper()
	spans := tel.spans.GetSpans()
	require.Len(t, spans, 1)
	return spans[0]
}

// values are attributes, by name.
func values(attributes []attribute.KeyValue) map[string]any {
	m := make(map[string]any, len(attributes))
	for _, kv := range attributes {
		m[string(kv.Key)] = kv.Value.AsInterface()
	}
	return m
}

// html answers with a page.
func html(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<html>Sign in</html>")
}

func newService(t *testing.T, opts ...lendingtest.Option) *lendingtest.Server {
	t.Helper()
	service := lendingtest.NewServer(opts...)
	t.Cleanup(service.Close)
	return service
}

// account is a source of which a log knows the service only: each client has a token of its own.
type account struct{ lending.TokenSource }

// newClient returns a client with a token of service.
func newClient(t *testing.T, service *lendingtest.Server, opts ...lending.Option) *lending.Client {
	t.Helper()
	token := account{lending.StaticToken(service.Token(lendingtest.Username))}
	client, err := lending.New(service.URL, append(opts, lending.WithTokenSource(token))...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func loanID(t *testing.T, s string) lending.LoanID {
	t.Helper()
	id, err := lending.ParseLoanID(s)
	require.NoError(t, err)
	return id
}

func applicationID(t *testing.T, s string) lending.ApplicationID {
	t.Helper()
	id, err := lending.ParseApplicationID(s)
	require.NoError(t, err)
	return id
}

func portOf(t *testing.T, address string) int64 {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	port, err := strconv.ParseInt(u.Port(), 10, 64)
	require.NoError(t, err)
	return port
}
