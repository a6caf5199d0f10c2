package lendingotel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	// Sessions are by the value of lending.source, too: other names than those of Inboxes. The Log is "idempotency".
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
	if err := errors.Join(failed, g.add(sources)); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(g.observe, g.ready, g.mutations, g.mutationAge, g.differences, g.auditAge, g.events, g.eventAge, g.tokenLife, g.signIn)
}

type gauges struct {
	timeout                          time.Duration
	ready, mutations, events         metric.Int64ObservableGauge
	signIn, differences              metric.Int64ObservableGauge
	mutationAge, eventAge, tokenLife metric.Float64ObservableGauge
	auditAge                         metric.Float64ObservableGauge
	sources                          []*source
}

// source is read by a single goroutine at a time, which serves all collections meanwhile: a store can
// ignore its context.
type source struct {
	name string
	read func(ctx context.Context) (func(metric.Observer), error)

	mu      sync.Mutex
	current *result // nil if nothing reads
}

// result is the result of a read, once ended is closed.
type result struct {
	ended   chan struct{}
	observe func(metric.Observer)
	err     error
}

func (g *gauges) add(sources Sources) (failed error) {
	add := func(name string, read func(ctx context.Context) (func(metric.Observer), error)) {
		if slices.ContainsFunc(g.sources, func(s *source) bool { return s.name == name }) {
			failed = fmt.Errorf("lendingotel: Sources: two sources have the name %q; rename one", name)
		}
		g.sources = append(g.sources, &source{name: name, read: read})
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
	return failed
}

// observe reads all sources at once.
func (g *gauges) observe(ctx context.Context, o metric.Observer) error {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	results := make([]*result, len(g.sources))
	for i, s := range g.sources {
		results[i] = s.start(ctx, g.timeout)
	}
	var failed error
	for i, s := range g.sources {
		err := errLate
		select {
		case <-results[i].ended:
			err = results[i].err
		case <-ctx.Done():
			select {
			case <-results[i].ended: // during the wait for another source
				err = results[i].err
			default:
			}
		}
		ready := int64(0)
		if err == nil {
			ready = 1
			results[i].observe(o)
		} else {
			failed = errors.Join(failed, fmt.Errorf("lendingotel: gauges of %s: %w", s.name, err))
		}
		o.ObserveInt64(g.ready, ready, metric.WithAttributes(sourceKey.String(s.name)))
	}
	return failed
}

var errLate = errors.New("the read has not ended; check the store")

// start reads a source in the background, unless a read is in progress.
func (s *source) start(ctx context.Context, timeout time.Duration) *result {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return s.current
	}
	r := &result{ended: make(chan struct{})}
	s.current = r
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout) // another collection may wait, too
		defer cancel()
		r.err = safely.Call[lending.PanicError](func() (err error) {
			r.observe, err = s.read(ctx)
			return err
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current = nil
		close(r.ended)
	}()
	return r
}

func (g *gauges) readLog(ctx context.Context, log *idempotency.Log) (func(metric.Observer), error) {
	counts, err := log.Counts(ctx)
	audit, failed := log.Audited(ctx)
	return func(o metric.Observer) {
		if audit != nil {
			audit := cmp.Or(audit.Daily, audit)
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
