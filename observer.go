package lending

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// Call is a call of a method, or an attempt of a call, for metrics and traces: see [WithObserver].
// A Call holds no value of a request or a response. The fields after Attempts are set at the end.
type Call struct {
	Method string // for example "POST"
	Route  string // path template, for example "/api/Loan/get-loan/{loanId}"
	Effect Effect
	Start  time.Time

	// Attempts is the number of sends of a call at its end: 0 for an invalid request or without a
	// token. Attempts is the number of an attempt from its start: 1 for the first.
	Attempts int

	Duration   time.Duration // of a call with waits, retries and a sign-in; of an attempt until the whole response was read
	StatusCode int           // of the last response, or of the attempt's; 0 if there was none
	Protocol   string        // of that response, for example "HTTP/2.0"

	// Outcome is [OutcomeDone] for success. The outcome of an attempt is that of the call if no
	// attempt follows, and OutcomeDone for a 2xx response, decoded or not.
	Outcome Outcome

	// Err is the error of the method, nil for success. For an attempt Err is nil if a whole
	// response of any status was read.
	Err error

	// Idempotency is the action of the layer of [WithIdempotency] for a mutation with a key:
	// "sent", or another action that package idempotency lists. A read of a layer has "check", a
	// call without a key "". An attempt has "sent", "check" or "".
	Idempotency string
}

// Values of [Call].Idempotency that this package sets.
const (
	idempotencyCheck = "check" // a read that a layer makes
	idempotencySent  = "sent"  // a mutation with a key that a layer sends
)

// errPanicked is the error that observers see of a call that did not return.
var errPanicked = errors.New("lending: a function of the caller panicked")

type observer = func(context.Context, Call) (context.Context, func(Call))

// begin tells each observer of the start of c, with the context of the observer before, and adds the
// functions for the end to ends.
func begin(ctx context.Context, observers []observer, c Call, ends *[]func(Call)) context.Context {
	for _, observe := range observers {
		inner, end := observe(ctx, c)
		if inner != nil {
			ctx = inner //nolint:fatcontext // each derives from the previous
		}
		if end != nil {
			*ends = append(*ends, end)
		}
	}
	return ctx
}

// end calls ends in reverse order, even if one panics.
func end(ends []func(Call), c Call) {
	if last := len(ends) - 1; last >= 0 {
		defer end(ends[:last], c)
		ends[last](c)
	}
}

// attemptContext is the context of an attempt with the values of the observers' context. Their
// context cannot extend the attempt.
type attemptContext struct {
	context.Context //nolint:containedctx // the attempt's

	values context.Context //nolint:containedctx // of the observers
}

func (c attemptContext) Value(key any) any { return c.values.Value(key) }

// foundNothing reports whether a read was told that the service has no such record. Most checks of
// a layer find nothing. The service also says so with 400.
func (a Call) foundNothing() bool {
	missing := a.StatusCode == http.StatusNotFound || a.StatusCode == http.StatusBadRequest && a.Idempotency == idempotencyCheck
	return a.Effect == Read && a.Err == nil && missing
}

// log writes the record of an attempt.
func (a Call) log(ctx context.Context, logger *slog.Logger) {
	level := slog.LevelDebug
	if (a.Outcome != OutcomeDone || a.Err != nil) && !a.foundNothing() {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("method", a.Method), slog.String("route", a.Route), slog.String("effect", a.Effect.String()),
		slog.Int("attempt", a.Attempts), slog.Int("status", a.StatusCode),
		slog.Duration("duration", a.Duration), slog.String("outcome", a.Outcome.String()),
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("error", a.Err.Error()))
	}
	if a.Idempotency != "" {
		attrs = append(attrs, slog.String("idempotency", a.Idempotency))
	}
	logger.LogAttrs(ctx, level, "lending attempt", attrs...)
}
