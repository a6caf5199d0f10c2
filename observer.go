package lending

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// Call is a call of a method, for metrics and traces: see [WithCallObserver]. A Call holds no
// value of a request or a response. The fields after Start are set when the call ends.
type Call struct {
	Method     string // for example "POST"
	Route      string // path template, for example "/api/Loan/get-loan/{loanId}"
	Effect     Effect
	Start      time.Time
	Duration   time.Duration // including waits, retries and a sign-in
	Attempts   int           // number of sends; 0 for an invalid request or without a token
	StatusCode int           // of the last response; 0 if there was none
	Outcome    Outcome       // [OutcomeDone] for success
	Err        error         // the error of the method; nil for success

	// Idempotency is the action of the layer of [WithIdempotency] for a mutation with a key:
	// "sent", or another action that package idempotency lists. A read of a layer has "check", a
	// call without a key "".
	Idempotency string
}

// Values of [Call].Idempotency that this package sets.
const (
	idempotencyCheck = "check" // a read that a layer makes
	idempotencySent  = "sent"  // a mutation with a key that a layer sends
)

// errPanicked is the error that observers see of a call that did not return.
var errPanicked = errors.New("lending: a function of the caller panicked")

// Attempt is an attempt of a call, for metrics and traces: see [WithObserver]. An Attempt holds
// no value of a request or a response.
type Attempt struct {
	Method      string // for example "POST"
	Route       string // path template, for example "/api/Loan/get-loan/{loanId}"
	Effect      Effect
	Number      int // 1 for the call's first attempt
	StatusCode  int // 0 without a response
	Start       time.Time
	Duration    time.Duration // until the whole response was read
	Outcome     Outcome       // of the call if this attempt is the last; [OutcomeDone] for a 2xx response, decoded or not
	Err         error         // nil for a whole response of any status
	Idempotency string        // "sent" for a mutation with a key, "check" for a read of a layer; else ""
}

// foundNothing reports whether a read was told that the service has no such record. Most checks of
// a layer find nothing. The service also says so with 400.
func (a Attempt) foundNothing() bool {
	missing := a.StatusCode == http.StatusNotFound || a.StatusCode == http.StatusBadRequest && a.Idempotency == idempotencyCheck
	return a.Effect == Read && a.Err == nil && missing
}

// log writes the record of an attempt.
func (a Attempt) log(ctx context.Context, logger *slog.Logger) {
	level := slog.LevelDebug
	if (a.Outcome != OutcomeDone || a.Err != nil) && !a.foundNothing() {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("method", a.Method), slog.String("route", a.Route), slog.String("effect", a.Effect.String()),
		slog.Int("attempt", a.Number), slog.Int("status", a.StatusCode),
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
