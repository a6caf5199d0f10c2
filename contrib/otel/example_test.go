package lendingotel_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

// A read with a 503 at first has two spans of attempts, inside the span of the call. The observer is a
// function, so another function can filter: this filter leaves out the attempts of sign-ins.
func Example() {
	service := lendingtest.NewServer()
	defer service.Close()
	exporter := tracetest.NewInMemoryExporter() // use the exporter of your collector instead
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))

	call, attempt := lendingotel.Observer(lendingotel.WithTracerProvider(provider))
	filtered := func(ctx context.Context, a lending.Call) (context.Context, func(lending.Call)) {
		if a.Route == "/api/Authenication/login" {
			return ctx, nil
		}
		return attempt(ctx, a)
	}
	client, err := lending.New(service.URL, lending.WithCredentials(credentials), lending.WithObserver(call, filtered))
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
	}
	for _, attribute := range exporter.GetSpans()[1].Attributes {
		fmt.Printf("  %s = %s\n", attribute.Key, attribute.Value.String())
	}
	// Output:
	// call POST /api/Authenication/login
	// GET /api/Webhook/get-all-subscriptions
	// GET /api/Webhook/get-all-subscriptions
	// call GET /api/Webhook/get-all-subscriptions
	//   http.request.method = GET
	//   url.template = /api/Webhook/get-all-subscriptions
	//   lending.effect = read
	//   lending.outcome = unknown
	//   http.response.status_code = 503
	//   network.protocol.version = 1.1
	//   error.type = 503
}
