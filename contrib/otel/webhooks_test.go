package lendingotel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

// Each try has a span and a measurement, also with an error or a panic, and nothing of the error.
func TestProcess(t *testing.T) {
	event, err := webhook.Parse([]byte(delivery.Body))
	require.NoError(t, err)
	for _, test := range []struct {
		name   string
		handle func() error
		want   string
	}{
		{"done", func() error { return nil }, ""},
		{"repetition", func() error { return webhook.ErrDuplicate }, ""},
		{"failed", func() error { return fmt.Errorf("canary: %w", os.ErrNotExist) }, "_OTHER"},
		{"canceled", func() error { return context.Canceled }, "canceled"},
		{"panic", func() error { panic("canary") }, "panic"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tel := newTelemetry()
			_, handle := lendingotel.Webhooks(webhook.NewMemoryInbox(), func(context.Context, *webhook.Event) error {
				return test.handle()
			}, tel.providers()...)
			if run := func() { _ = handle(t.Context(), event) }; test.name == "panic" {
				assert.Panics(t, run)
			} else {
				run()
			}
			span := tel.span(t)
			want := "messaging.destination.name=WB_Application_Created,messaging.operation.name=process," +
				"messaging.system=lending"
			if test.want != "" {
				want = "error.type=" + test.want + "," + want
			}
			metrics, _ := tel.histograms(t)
			points := pointsOf(metrics["messaging.process.duration"])
			require.Len(t, points, 1)
			assert.Equal(t, want, points[0].Attributes.Encoded(attribute.DefaultEncoder()))
			set := attribute.NewSet(span.Attributes...)
			want = strings.Replace(want, ",messaging.system", ",messaging.operation.type=process,messaging.system", 1)
			assert.Equal(t, want, set.Encoded(attribute.DefaultEncoder()))
			assert.Equal(t, "process WB_Application_Created", span.Name)
			assert.Equal(t, trace.SpanKindConsumer, span.SpanKind)
			assert.Equal(t, test.want != "", span.Status.Code == codes.Error)
			assert.NotContains(t, fmt.Sprintf("%+v", span), "canary")
			assert.Empty(t, span.Links)
		})
	}
}

// The inbox links a process span to the last deliveries only, so its memory has a bound.
func TestLinksAreForgotten(t *testing.T) {
	tel, ctx := newTelemetry(), t.Context()
	inbox, handle := lendingotel.Webhooks(webhook.NewMemoryInbox(), func(context.Context, *webhook.Event) error {
		return nil
	}, tel.providers()...)
	accepting, _ := tel.tracers.Tracer("server").Start(ctx, "accepting")
	events := make([]*webhook.Event, 4097)
	for i := range events {
		events[i], _ = webhook.Parse(fmt.Appendf(nil, `{"webhookEvent":"WB_Loan_Created","id":"%032x"}`, i))
		require.NoError(t, inbox.Put(accepting, events[i]))
	}
	for i, want := range map[int]int{0: 0, 1: 1, 4096: 1} {
		tel.spans.Reset()
		require.NoError(t, handle(ctx, events[i]))
		assert.Len(t, tel.span(t).Links, want, i)
		assert.Equal(t, want == 1, tel.span(t).Parent.IsValid())
	}
	tel.spans.Reset()
	around, parent := tel.tracers.Tracer("job").Start(ctx, "around")
	require.NoError(t, handle(around, events[1]))
	assert.Equal(t, parent.SpanContext().SpanID(), tel.span(t).Parent.SpanID(), "a span around it stays its parent")
	assert.Len(t, tel.span(t).Links, 1)
}

// TestTraceOfADelivery makes the picture of the package documentation: a single trace from a delivery
// to a withdrawal. Each request carries the trace and the baggage of its attempt.
func TestTraceOfADelivery(t *testing.T) {
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	defer otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator())
	tel, service := newTelemetry(), lendingtest.New()
	defer service.Close()
	var mu sync.Mutex
	var carried []string // by the requests
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		carried = append(carried, r.Header.Get("traceparent"))
		mu.Unlock()
		assert.Equal(t, "tenant=north", r.Header.Get("baggage"))
		service.ServeHTTP(w, r)
	}))
	defer server.Close()
	tracer := tel.tracers.Tracer("the program's own instrumentation")
	log := fake.Must(idempotency.NewLog(lendingotel.Store(store.NewMemory()), nil))
	client := wire.NewClient(t, server.URL, lending.WithIdempotency(log), tel.observe(),
		lending.WithHeader(lendingotel.Header),
		lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
	loan := service.AddLoan(lendingtest.Loan{})
	application := fake.Must(lending.ParseApplicationID(loan.ApplicationID))
	_, err := fake.SignIn(t, service, nil).Calculation.Invoice(t.Context(), application, fake.Invoice())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	member, _ := baggage.NewMember("tenant", "north")
	bag, _ := baggage.New(member)

	handle := func(ctx context.Context, _ *webhook.Event) error {
		defer stop()
		ctx = lending.WithIdempotencyKey(baggage.ContextWithBaggage(ctx, bag), "order-42/withdraw")
		_, err := client.Loans.WithdrawInvoice(ctx, fake.Must(lending.ParseLoanID(loan.ID)),
			lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()})
		assert.NoError(t, err)
		return err
	}
	inbox, process := lendingotel.Webhooks(webhook.NewMemoryInbox(), handle, tel.providers()...)
	receiver, err := webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(delivery.Secret)), inbox.Put, nil)
	require.NoError(t, err)
	status := delivery.Post(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Start(r.Context(), "POST /webhooks", trace.WithSpanKind(trace.SpanKindServer)) // as otelhttp does
		defer span.End()
		receiver.ServeHTTP(w, r.WithContext(ctx))
	}), strings.Replace(delivery.Body, "WB_Application_Created", "WB_Loan_Created", 1))
	require.Equal(t, http.StatusNoContent, status)
	webhook.Work(ctx, inbox, process, nil)

	spans := tel.spans.GetSpans()
	for _, span := range spans {
		assert.Equal(t, spans[0].SpanContext.TraceID(), span.SpanContext.TraceID(), span.Name)
		if strings.HasPrefix(span.Name, "process") {
			require.Len(t, span.Links, 1)
			assert.Equal(t, spans[0].SpanContext.SpanID(), span.Links[0].SpanContext.SpanID())
		}
		if span.SpanKind == trace.SpanKindClient && strings.Contains(span.Name, "/api/") {
			id := span.SpanContext
			assert.Contains(t, carried, fmt.Sprintf("00-%s-%s-01", id.TraceID(), id.SpanID()), span.Name)
		}
	}
	picture := tree(spans, trace.SpanID{}, "//\t", func(span tracetest.SpanStub) string { return span.Name })
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	assert.Contains(t, string(doc), picture, "the picture in doc.go is:\n%s", picture)
}
