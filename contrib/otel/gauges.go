package lendingotel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/safely"
	"github.com/lendingapi/lending-go/webhook"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Sources are the parts of a program that [Gauges] reads. A field may be nil.
type Sources struct {
	Log     *idempotency.Log
	Inboxes map[string]webhook.DeadLetters // as in ops.Options: by the value of the attribute lending.source
	// Sessions are by the value of lending.source, too: other names than those of Inboxes.
	Sessions map[string]*lending.Session
	Timeout  time.Duration // for all reads of a collection; 2 s
}

// Attributes of gauges.
const (
	sourceKey = attribute.Key("lending.source")
	stateKey  = attribute.Key("lending.state")
	kindKey   = attribute.Key("lending.kind")
)

// Gauges registers the gauges that docs/operating.md lists. The meter provider reads the
// sources at each collection, without a call to the service. If a source fails or does not
// answer within Timeout, lending.ready is 0 and its other gauges have no value.
//
// Unregister the returned registration before you close the stores.
func Gauges(sources Sources, opts ...Option) (metric.Registration, error) {
	for name := range sources.Sessions {
		if _, both := sources.Inboxes[name]; both {
			return nil, fmt.Errorf("lendingotel: Sources: %q names a session and an inbox; rename one", name)
		}
	}
	_, meter, _ := instruments(opts)
	g := gauges{timeout: sources.Timeout}
	if g.timeout <= 0 {
		g.timeout = 2 * time.Second
	}
	var failed error
	number := func(name, unit, description string) metric.Int64ObservableGauge {
		gauge, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		failed = errors.Join(failed, err)
		return gauge
	}
	seconds := func(name, description string) metric.Float64ObservableGauge {
		gauge, err := meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
		failed = errors.Join(failed, err)
		return gauge
	}
	g.ready = number("lending.ready", "", "1 if the source could be read, 0 if it failed.")
	g.mutations = number("lending.idempotency.mutations", "{mutation}", "Mutations that are not done and may have happened, at most 1,000 of a state.")
	g.mutationAge = seconds("lending.idempotency.oldest_age", "Age of the oldest mutation in a state.")
	g.differences = number("lending.idempotency.differences", "{difference}", "Differences that the last audit of the log has found.")
	g.auditAge = seconds("lending.idempotency.audit_age", "Age of the last audit of the log.")
	g.events = number("lending.inbox.events", "{event}", "Events in an inbox.")
	g.eventAge = seconds("lending.inbox.oldest_age", "Wait of the first event that is due, and age of the oldest dead letter.")
	g.tokenLife = seconds("lending.session.token_life", "Remaining life of the token, 0 without a token.")
	g.signIn = number("lending.session.sign_in_needed", "", "1 if a person has to sign in or to correct the credentials.")
	if failed != nil {
		return nil, failed
	}
	g.add(sources)
	return meter.RegisterCallback(g.observe, g.ready, g.mutations, g.mutationAge, g.differences, g.auditAge, g.events, g.eventAge, g.tokenLife, g.signIn)
}

type gauges struct {
	timeout                          time.Duration
	ready, mutations, events         metric.Int64ObservableGauge
	signIn, differences              metric.Int64ObservableGauge
	mutationAge, eventAge, tokenLife metric.Float64ObservableGauge
	auditAge                         metric.Float64ObservableGauge
	sources                          []source
}

// source reads one source and returns a function that observes the result.
type source struct {
	name    string
	read    func(ctx context.Context) (func(metric.Observer), error)
	reading chan struct{} // full during a read: a store can ignore its context
}

func (g *gauges) add(sources Sources) {
	add := func(name string, read func(ctx context.Context) (func(metric.Observer), error)) {
		g.sources = append(g.sources, source{name, read, make(chan struct{}, 1)})
	}
	if sources.Log != nil {
		add("idempotency", func(ctx context.Context) (func(metric.Observer), error) { return g.readLog(ctx, sources.Log) })
	}
	for name, inbox := range sources.Inboxes {
		add(name, func(ctx context.Context) (func(metric.Observer), error) { return g.readInbox(ctx, name, inbox) })
	}
	for name, session := range sources.Sessions {
		add(name, func(ctx context.Context) (func(metric.Observer), error) { return g.readSession(ctx, name, session) })
	}
}

// observe reads all sources at once.
func (g *gauges) observe(ctx context.Context, o metric.Observer) error {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	results := make([]chan result, len(g.sources))
	for i, s := range g.sources {
		results[i] = s.start(ctx)
	}
	var failed error
	for i, s := range g.sources {
		r := result{err: context.DeadlineExceeded}
		select {
		case r = <-results[i]:
		case <-ctx.Done():
			select {
			case r = <-results[i]: // the result came during the wait for another source
			default:
			}
		}
		ready := int64(0)
		if r.err == nil {
			ready = 1
			r.observe(o)
		} else {
			failed = errors.Join(failed, fmt.Errorf("lendingotel: gauges of %s: %w", s.name, r.err))
		}
		o.ObserveInt64(g.ready, ready, metric.WithAttributes(sourceKey.String(s.name)))
	}
	return failed
}

type result struct {
	observe func(metric.Observer)
	err     error
}

// start reads a source in the background, unless the last read has not ended.
func (s source) start(ctx context.Context) chan result {
	read := make(chan result, 1)
	select {
	case s.reading <- struct{}{}:
	default:
		read <- result{err: errors.New("its last read has not ended; check the store")}
		return read
	}
	go func() {
		defer func() { <-s.reading }()
		var r result
		r.err = safely.Call[lending.PanicError](func() (err error) {
			r.observe, err = s.read(ctx)
			return err
		})
		read <- r
	}()
	return read
}

func (g *gauges) readLog(ctx context.Context, log *idempotency.Log) (func(metric.Observer), error) {
	counts, err := log.Counts(ctx)
	audit, failed := log.Audited(ctx)
	return func(o metric.Observer) {
		if audit != nil {
			for _, kind := range []idempotency.DifferenceKind{
				idempotency.Missing, idempotency.Shared, idempotency.Unexplained, idempotency.Open, idempotency.Unread,
			} {
				o.ObserveInt64(g.differences, int64(audit.Found[kind]), metric.WithAttributes(kindKey.String(string(kind))))
			}
			o.ObserveFloat64(g.auditAge, time.Since(audit.Ended).Seconds())
		}
		for state, count := range map[string]idempotency.StateCount{
			"sent": counts.Sent, "in_doubt": counts.InDoubt, "needs_review": counts.NeedsReview,
		} {
			attributes := metric.WithAttributes(stateKey.String(state))
			o.ObserveInt64(g.mutations, int64(count.Count), attributes)
			o.ObserveFloat64(g.mutationAge, count.Oldest.Seconds(), attributes)
		}
	}, errors.Join(err, failed)
}

func (g *gauges) readInbox(ctx context.Context, name string, inbox webhook.DeadLetters) (func(metric.Observer), error) {
	counts, err := inbox.Counts(ctx)
	ages, failed := inbox.Ages(ctx)
	return func(o metric.Observer) {
		in := func(state string) metric.ObserveOption {
			return metric.WithAttributes(sourceKey.String(name), stateKey.String(state))
		}
		o.ObserveInt64(g.events, int64(counts.Waiting), in("waiting"))
		o.ObserveInt64(g.events, int64(counts.Running), in("running"))
		o.ObserveInt64(g.events, int64(counts.DeadLetters), in("dead_letter"))
		o.ObserveFloat64(g.eventAge, ages.Due.Seconds(), in("waiting"))
		o.ObserveFloat64(g.eventAge, ages.DeadLetter.Seconds(), in("dead_letter"))
	}, errors.Join(err, failed)
}

func (g *gauges) readSession(ctx context.Context, name string, session *lending.Session) (func(metric.Observer), error) {
	state, err := session.State(ctx)
	return func(o metric.Observer) {
		needed, source := int64(0), metric.WithAttributes(sourceKey.String(name))
		if state.Person {
			needed = 1
		}
		o.ObserveInt64(g.signIn, needed, source)
		if !state.SignedIn || !state.Until.IsZero() { // without Until, the end of the token is not known
			o.ObserveFloat64(g.tokenLife, max(0, time.Until(state.Until)).Seconds(), source)
		}
	}, err
}
