package lendingotel

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/webhook"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	"go.opentelemetry.io/otel/trace"
)

// Webhooks returns inbox and handle with a span "process" and a measurement of each try to handle an
// event. The span has a link to the span in whose context the inbox accepted the event, usually that
// of the HTTP server. Without another span in the context of handle, the accepting span is its parent
// too. Both need an inbox that accepted the event in this process, among its last 4,096 events.
//
// Pass both results to [webhook.NewConsumer], or to the receiver and [webhook.Work]. A try that
// panics has a span too.
func Webhooks(inbox webhook.Inbox, handle webhook.EventFunc, opts ...Option) (webhook.Inbox, webhook.EventFunc) {
	tracer, meter, _ := instruments(opts)
	duration, err := messagingconv.NewProcessDuration(meter)
	if err != nil {
		otel.Handle(err) // then duration measures nothing
	}
	of := &deliveries{spans: map[string]trace.SpanContext{}}
	p := &processor{tracer, duration, of, handle}
	return acceptingInbox{inbox, of}, p.process
}

type acceptingInbox struct {
	webhook.Inbox
	of *deliveries
}

func (i acceptingInbox) Put(ctx context.Context, event *webhook.Event) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		i.of.note(event.Key(), span)
	}
	return i.Inbox.Put(ctx, event)
}

const maxDeliveries = 4096

// deliveries has the spans of the last deliveries, by the key of their event.
type deliveries struct {
	mu    sync.Mutex
	spans map[string]trace.SpanContext
	keys  [maxDeliveries]string // a ring: the next place has the oldest
	next  int
}

func (d *deliveries) note(key string, span trace.SpanContext) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.spans[key]; known {
		return // a repetition, which the inbox drops
	}
	delete(d.spans, d.keys[d.next])
	d.spans[key], d.keys[d.next] = span, key
	d.next = (d.next + 1) % maxDeliveries
}

func (d *deliveries) of(key string) trace.SpanContext {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spans[key]
}

type processor struct {
	tracer     trace.Tracer
	duration   messagingconv.ProcessDuration
	deliveries *deliveries
	handle     webhook.EventFunc
}

func (p *processor) process(ctx context.Context, event *webhook.Event) (err error) {
	name := redact.Name(string(event.Name)) // the service chooses it
	attributes := []attribute.KeyValue{
		semconv.MessagingOperationName("process"), semconv.MessagingSystemKey.String("lending"),
		semconv.MessagingDestinationName(name),
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(append(attributes, semconv.MessagingOperationTypeProcess)...),
	}
	if delivery := p.deliveries.of(event.Key()); delivery.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: delivery}))
		if !trace.SpanContextFromContext(ctx).IsValid() {
			ctx = trace.ContextWithSpanContext(ctx, delivery)
		}
	}
	ctx, span := p.tracer.Start(ctx, "process "+name, options...)
	start, failure := time.Now(), "panic"
	defer func() {
		if failure != "" {
			failed := semconv.ErrorTypeKey.String(failure)
			attributes = append(attributes, failed)
			span.SetAttributes(failed)
			span.SetStatus(codes.Error, "") // the text of err can quote anything
		}
		p.duration.RecordSet(ctx, time.Since(start).Seconds(), attribute.NewSet(attributes...))
		span.End()
	}()
	err = p.handle(ctx, event)
	failure = ""
	if err != nil && !errors.Is(err, webhook.ErrDuplicate) {
		failure = cmp.Or(kind(err), "canceled")
	}
	return err
}

// Store returns entries with an event for each load and each save of a key, on the span in its
// context, usually that of the call. The events show the states of a mutation, and not the key.
func Store(entries store.Store) store.Store { return eventStore{entries} }

type eventStore struct{ store.Store }

func (s eventStore) Load(ctx context.Context, key string) (*store.Entry, error) {
	entry, err := s.Store.Load(ctx, key)
	state := store.Free
	if entry != nil {
		state = entry.State
	}
	tell(ctx, "load", key, state, err)
	return entry, err
}

func (s eventStore) Save(ctx context.Context, entry store.Entry) error {
	err := s.Store.Save(ctx, entry)
	tell(ctx, "save", entry.Key, entry.State, err)
	return err
}

func tell(ctx context.Context, operation, key string, state store.State, err error) {
	if !strings.Contains(key, ":") { // the log's own entry, without a namespace and a key
		return
	}
	attributes := []attribute.KeyValue{stateKey.String(cmp.Or(string(state), "free"))}
	if err != nil {
		attributes = append(attributes, semconv.ErrorTypeKey.String(cmp.Or(kind(err), "canceled")))
	}
	trace.SpanFromContext(ctx).AddEvent("lending.idempotency."+operation, trace.WithAttributes(attributes...))
}
