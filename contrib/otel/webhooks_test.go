package lendingotel_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

// TestConventions holds every attribute of spans and metrics of the conventions, version 1.43.0. An
// attribute that an attempt has only on its span is in the column span.
func TestConventions(t *testing.T) {
	const ok = `"Open"`
	for _, test := range []struct {
		name   string
		answer []int
		http2  bool
		cancel bool
		want   map[string]any // besides those of each attempt
		span   map[string]any
		failed bool
	}{
		{name: "HTTP/1.1", answer: []int{200}, want: map[string]any{
			"http.response.status_code": int64(200), "network.protocol.version": "1.1",
		}},
		{name: "HTTP/2", http2: true, answer: []int{200}, want: map[string]any{
			"http.response.status_code": int64(200), "network.protocol.version": "2",
		}},
		{name: "rejected", answer: []int{404}, failed: true, want: map[string]any{
			"http.response.status_code": int64(404), "network.protocol.version": "1.1", "error.type": "404",
		}},
		{name: "resent", answer: []int{503, 200}, want: map[string]any{
			"http.response.status_code": int64(200), "network.protocol.version": "1.1",
		}, span: map[string]any{"http.request.resend_count": int64(1)}},
		{name: "canceled", cancel: true, answer: []int{200}, want: map[string]any{}},
		{name: "broken", answer: []int{0, 0, 0, 0, 0}, failed: true, want: map[string]any{
			"error.type": "connection_closed",
		}, span: map[string]any{"http.request.resend_count": int64(4)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tel, ctx := newTelemetry(), t.Context()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status := test.answer[0]
				test.answer = test.answer[1:]
				if test.cancel {
					cancel()
					<-r.Context().Done()
				}
				if status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = w.Write([]byte(ok))
			}))
			opts := []lending.Option{lending.WithTokenSource(lending.StaticToken("t"))}
			if server.EnableHTTP2 = test.http2; test.http2 {
				server.StartTLS()
				roots := x509.NewCertPool()
				roots.AddCert(server.Certificate())
				opts = append(opts, lending.WithTLS(&tls.Config{RootCAs: roots}))
			} else {
				server.Start()
			}
			defer server.Close()
			client, err := lending.New(server.URL, append(opts, tel.observe(lendingotel.WithBaseURL(server.URL)))...)
			require.NoError(t, err)
			defer client.Close()
			id := applicationID(t, "11111111-2222-3333-4444-555555555555")
			if test.http2 { // reads use HTTP/2 after a mutation
				test.answer = append(test.answer, 200)
				require.NoError(t, client.Applications.Cancel(ctx, id))
			}
			_, err = client.Applications.Status(ctx, id)
			assert.Equal(t, test.failed || test.cancel, err != nil)

			spans := tel.spans.GetSpans()
			span := spans[len(spans)-1]
			route := "/api/Application/application-status/{applicationId}"
			assert.Equal(t, "GET "+route, span.Name)
			assert.Equal(t, trace.SpanKindClient, span.SpanKind)
			assert.Equal(t, test.failed, span.Status.Code == codes.Error)
			test.want["http.request.method"], test.want["url.template"] = "GET", route
			test.want["server.address"], test.want["server.port"] = "127.0.0.1", portOf(t, server.URL)
			assert.Equal(t, test.want, conventional(measurementOf(t, tel, test.want)))
			maps.Copy(test.want, test.span)
			assert.Equal(t, test.want, conventional(values(span.Attributes)))
		})
	}
}

// conventional returns the attributes that the conventions define.
func conventional(attributes map[string]any) map[string]any {
	for name := range attributes {
		if strings.HasPrefix(name, "lending.") {
			delete(attributes, name)
		}
	}
	return attributes
}

// measurementOf returns the point of http.client.request.duration with the status of want.
func measurementOf(t *testing.T, tel *telemetry, want map[string]any) map[string]any {
	t.Helper()
	_, points := tel.measured(t)
	for _, point := range points {
		got := values(point.Attributes.ToSlice())
		if fmt.Sprint(got["http.response.status_code"], got["url.template"]) ==
			fmt.Sprint(want["http.response.status_code"], want["url.template"]) {
			return got
		}
	}
	t.Fatal("no measurement")
	return nil
}

// Each try has a span and a measurement, also with an error or a panic, and nothing of the error.
func TestProcess(t *testing.T) {
	event, err := webhook.Parse([]byte(delivery.Body))
	require.NoError(t, err)
	for _, test := range []struct {
		name   string
		handle func() error
		want   any
	}{
		{"done", func() error { return nil }, nil},
		{"repetition", func() error { return webhook.ErrDuplicate }, nil},
		{"failed", func() error { return fmt.Errorf("canary: %w", os.ErrNotExist) }, "_OTHER"},
		{"canceled", func() error { return context.Canceled }, "canceled"},
		{"panic", func() error { panic("canary") }, "panic"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tel := newTelemetry()
			_, handle := lendingotel.Webhooks(webhook.NewMemoryInbox(), func(context.Context, *webhook.Event) error {
				return test.handle()
			}, lendingotel.WithTracerProvider(tel.tracers), lendingotel.WithMeterProvider(tel.meters))
			if run := func() { _ = handle(t.Context(), event) }; test.name == "panic" {
				assert.Panics(t, run)
			} else {
				run()
			}
			span := tel.span(t)
			want := map[string]any{
				"messaging.system": "lending", "messaging.operation.name": "process",
				"messaging.destination.name": "WB_Application_Created",
			}
			if test.want != nil {
				want["error.type"] = test.want
			}
			_, points := tel.measuredBy(t, "messaging.process.duration")
			require.Len(t, points, 1)
			assert.Equal(t, want, values(points[0].Attributes.ToSlice()))
			want["messaging.operation.type"] = "process"
			assert.Equal(t, want, values(span.Attributes))
			assert.Equal(t, "process WB_Application_Created", span.Name)
			assert.Equal(t, trace.SpanKindConsumer, span.SpanKind)
			assert.Equal(t, test.want != nil, span.Status.Code == codes.Error)
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
	}, lendingotel.WithTracerProvider(tel.tracers), lendingotel.WithMeterProvider(tel.meters))
	accepting, _ := tel.tracers.Tracer("server").Start(ctx, "accepting")
	events := make([]*webhook.Event, 4097)
	for i := range events {
		body := fmt.Sprintf(`{"webhookEvent":"WB_Loan_Created","id":"%032x"}`, i)
		events[i], _ = webhook.Parse([]byte(body))
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

// database is a store with spans of its own, as the instrumentation of a database driver records them.
type database struct {
	store.Store
	tracer trace.Tracer
}

func (d database) Load(ctx context.Context, key string) (*store.Entry, error) {
	if strings.HasSuffix(key, "!standing") { // depends on the time since the last one
		return d.Store.Load(ctx, key)
	}
	ctx, span := d.tracer.Start(ctx, "SELECT", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	return d.Store.Load(ctx, key)
}

func (d database) Save(ctx context.Context, entry store.Entry) error {
	ctx, span := d.tracer.Start(ctx, "INSERT", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	return d.Store.Save(ctx, entry)
}

// TestTraceOfADelivery makes the picture of the package documentation: a single trace from a delivery
// to a confirmed withdrawal. Each request carries the trace and the baggage of its attempt.
func TestTraceOfADelivery(t *testing.T) {
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	defer otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator())
	tel, fake := newTelemetry(), lendingtest.New()
	defer fake.Close()
	var mu sync.Mutex
	var carried []string // by the requests
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		carried = append(carried, r.Header.Get("traceparent"))
		mu.Unlock()
		assert.Equal(t, "tenant=north", r.Header.Get("baggage"))
		fake.ServeHTTP(w, r)
	}))
	defer server.Close()
	tracer := tel.tracers.Tracer("the program's own instrumentation")
	log, err := idempotency.NewLog(lendingotel.Store(database{store.NewMemory(), tracer}), nil)
	require.NoError(t, err)
	providers := []lendingotel.Option{
		lendingotel.WithTracerProvider(tel.tracers), lendingotel.WithMeterProvider(tel.meters),
	}
	client, err := lending.New(server.URL, lending.WithIdempotency(log),
		lending.WithTokenSource(lending.StaticToken(fake.Token(lendingtest.Username))),
		lending.WithObserver(lendingotel.Observer(providers...)), lending.WithHeader(lendingotel.Header))
	require.NoError(t, err)
	defer client.Close()
	row := fake.AddLoan(lendingtest.Loan{})
	calculation := &lending.CalculationRequest{Amount: "2500.00", PercentOfIncome: "10", Terms: 6}
	ctx, stop := context.WithCancel(t.Context())
	member, _ := baggage.NewMember("tenant", "north")
	bag, _ := baggage.New(member)

	handle := func(ctx context.Context, _ *webhook.Event) error {
		defer stop()
		ctx = baggage.ContextWithBaggage(ctx, bag)
		key := func(step string) context.Context { return lending.WithIdempotencyKey(ctx, "order-42/"+step) }
		_, err := client.Calculation.Invoice(key("calculation"), applicationID(t, row.ApplicationID), calculation)
		require.NoError(t, err)
		begun, err := client.Loans.WithdrawInvoice(key("withdraw"), loanID(t, row.ID),
			lending.InvoiceWithdrawalRequest{Calculation: *calculation})
		require.NoError(t, err)
		_, err = client.Loans.ConfirmInvoiceWithdrawal(key("confirm"), *begun, lending.WithdrawInvoiceRequestData{
			DateUTC: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), OTP: lending.NewSecret(fake.OTP(row.ID)),
		})
		return err
	}
	inbox, process := lendingotel.Webhooks(webhook.NewMemoryInbox(), handle, providers...)
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
	picture := tree(spans, trace.SpanID{}, "")
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	assert.Contains(t, string(doc), picture, "the picture in doc.go is:\n%s", picture)
}

// tree draws the children of a span, in the order of their start, as lines of a doc comment.
func tree(spans tracetest.SpanStubs, parent trace.SpanID, indent string) string {
	var b strings.Builder
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	for _, span := range spans {
		if span.Parent.SpanID() != parent {
			continue
		}
		var events []string
		for _, event := range span.Events {
			operation := strings.TrimPrefix(event.Name, "lending.idempotency.")
			events = append(events, fmt.Sprint(operation, " ", values(event.Attributes)["lending.state"]))
		}
		line := indent + span.Name
		if len(events) > 0 {
			line += "  [" + strings.Join(events, ", ") + "]"
		}
		fmt.Fprintf(&b, "//\t%s\n%s", line, tree(spans, span.SpanContext.SpanID(), indent+"  "))
	}
	return b.String()
}
