package lendingotel_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

// A read with a 503 at first has two spans of attempts, inside the span of the call.
func Example() {
	service := lendingtest.NewServer()
	defer service.Close()
	exporter := tracetest.NewInMemoryExporter() // use the exporter of your collector instead
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))

	client, err := lending.New(service.URL,
		lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.AdministratorUsername))),
		lending.WithObserver(lendingotel.Observer(lendingotel.WithTracerProvider(provider))),
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()

	service.Fail("GET /api/Webhook/get-all-subscriptions", lendingtest.Fault{Status: http.StatusServiceUnavailable})
	if _, err := client.Webhooks.AllSubscriptions(context.Background()); err != nil {
		panic(err)
	}

	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name)
		for _, attribute := range span.Attributes {
			fmt.Printf("  %s = %s\n", attribute.Key, attribute.Value.String())
		}
	}
	// Output:
	// GET /api/Webhook/get-all-subscriptions
	//   http.request.method = GET
	//   url.template = /api/Webhook/get-all-subscriptions
	//   lending.effect = read
	//   lending.outcome = unknown
	//   http.response.status_code = 503
	//   network.protocol.version = 1.1
	//   error.type = 503
	// GET /api/Webhook/get-all-subscriptions
	//   http.request.method = GET
	//   url.template = /api/Webhook/get-all-subscriptions
	//   lending.effect = read
	//   http.request.resend_count = 1
	//   lending.outcome = done
	//   http.response.status_code = 200
	//   network.protocol.version = 1.1
	// call GET /api/Webhook/get-all-subscriptions
	//   http.request.method = GET
	//   url.template = /api/Webhook/get-all-subscriptions
	//   lending.effect = read
	//   lending.outcome = done
	//   http.response.status_code = 200
	//   network.protocol.version = 1.1
	//   lending.attempts = 2
}

// The operator needs an alert for mutations whose outcome is unknown. Here the connection breaks
// after the service has executed the mutation.
func ExampleObserver() {
	service := lendingtest.NewServer()
	defer service.Close()
	reader := metric.NewManualReader() // use a periodic reader or Prometheus instead
	provider := metric.NewMeterProvider(metric.WithReader(reader))

	client, err := lending.New(service.URL,
		lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))),
		lending.WithObserver(lendingotel.Observer(lendingotel.WithMeterProvider(provider))),
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()

	application, err := lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID)
	if err != nil {
		panic(err)
	}
	service.Fail("POST /api/Application/cancel-application/{applicationId}", lendingtest.Fault{ResetAfter: true})
	if err := client.Applications.Cancel(context.Background(), application); err == nil {
		panic("the answer should be lost")
	}

	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &metrics); err != nil {
		panic(err)
	}
	duration := metrics.ScopeMetrics[0].Metrics[1] // the first is of attempts
	for _, point := range duration.Data.(metricdata.Histogram[float64]).DataPoints {
		effect, _ := point.Attributes.Value("lending.effect")
		outcome, _ := point.Attributes.Value("lending.outcome")
		fmt.Printf("%s: %d of effect %s, outcome %s\n", duration.Name, point.Count, effect.AsString(), outcome.AsString())
	}
	// Output:
	// lending.client.call.duration: 1 of effect mutation, outcome unknown
}

// The observer is a function, so another function can filter the attempts. This filter leaves out
// sign-ins, and the calls that are marked as probes.
func ExampleObserver_filtered() {
	type probe struct{}
	exporter := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	_, attempt := lendingotel.Observer(lendingotel.WithTracerProvider(provider))

	service := lendingtest.NewServer()
	defer service.Close()
	client, err := lending.New(service.URL,
		lending.WithCredentials(lending.Credentials{
			Username: lendingtest.AdministratorUsername,
			Password: lending.NewSecret(lendingtest.AdministratorPassword),
		}),
		lending.WithObserver(nil, func(ctx context.Context, a lending.Call) (context.Context, func(lending.Call)) {
			if a.Route == "/api/Authenication/login" || ctx.Value(probe{}) != nil {
				return ctx, nil
			}
			return attempt(ctx, a)
		}),
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()

	ctx := context.Background()
	_, _ = client.Customers.GetByEmail(context.WithValue(ctx, probe{}, true), "probe@example.com")
	_, _ = client.Webhooks.AllSubscriptions(ctx)
	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name)
	}
	// Output:
	// GET /api/Webhook/get-all-subscriptions
}
