package lending

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// Call is one call of a method, for metrics and traces: see [WithCallObserver]. It
// holds no value of a parameter, nor of an answer. What follows Start is known when the
// call has ended.
type Call struct {
	Method     string // for example "POST"
	Route      string // path template, for example "/api/Loan/get-loan/{loanId}"
	Effect     Effect
	Start      time.Time
	Duration   time.Duration // waits, repetitions and a sign-in that it waited for included
	Attempts   int           // how often it was sent; 0 if it was refused before, or got no token
	StatusCode int           // of the last answer; 0 if there was none
	Outcome    Outcome       // [OutcomeDone] for success
	Err        error         // what the caller gets; nil for success

	// Idempotency says what the layer of [WithIdempotency] did with a mutation that has a
	// key: "sent", or what package idempotency lists. A read of a layer has "check", a call
	// without a key "".
	Idempotency string
}

// errPanicked is told of a call that did not return.
var errPanicked = errors.New("lending: a function of the caller panicked")

// begin tells the observers of calls of one that begins, and returns the context for it.
func (x *exchange) begin(ctx context.Context) context.Context {
	observers := x.client.settings().callObservers
	if len(observers) == 0 {
		return ctx
	}
	x.call = Call{Method: x.request.method, Route: x.request.path, Effect: x.request.effect, Start: time.Now(), Idempotency: x.call.Idempotency}
	for _, observe := range observers {
		inner, end := observe(ctx, x.call)
		if inner != nil {
			ctx = inner //nolint:fatcontext // each stands in the one before
		}
		if end != nil {
			x.ends = append(x.ends, end)
		}
	}
	return ctx
}

// end tells those who want to know of the end of the call, the last to begin first, also
// if one of them panics.
func (x *exchange) end(err error) {
	if len(x.ends) == 0 {
		return
	}
	x.call.Duration = time.Since(x.call.Start)
	x.call.Attempts, x.call.StatusCode, x.call.Err = x.sent(), x.answer.StatusCode, err
	if x.call.Outcome = OutcomeOf(err); errors.Is(err, errPanicked) {
		x.call.Outcome = x.outcome()
	}
	for _, end := range x.ends {
		defer end(x.call) //nolint:gocritic // all are called, whatever one of them does
	}
}

// Attempt is one attempt of a call to reach the service, for metrics and traces: see
// [WithObserver]. It holds no value of a parameter, nor of an answer.
type Attempt struct {
	Method      string // for example "POST"
	Route       string // path template, for example "/api/Loan/get-loan/{loanId}"
	Effect      Effect
	Number      int // 1 for the first of the call
	StatusCode  int // 0 if there was no answer
	Start       time.Time
	Duration    time.Duration // until the whole answer was read
	Outcome     Outcome       // of the call if this attempt is its last; [OutcomeDone] for success, whether it decodes or not
	Err         error         // nil for an answer that was received whole, whatever its status
	Idempotency string        // "sent" for a mutation with a key, "check" for a read of a layer; else ""
}

// observe tells the observers of an attempt that has ended.
func (x *exchange) observe(start time.Time, resp *http.Response) {
	if len(x.client.settings().observers) == 0 {
		return
	}
	a := Attempt{
		Method: x.request.method, Route: x.request.path, Effect: x.request.effect, Number: x.attempts,
		Start: start, Duration: time.Since(start), Outcome: x.outcome(), Err: hide(x.err), Idempotency: x.call.Idempotency,
	}
	if resp != nil {
		a.StatusCode = resp.StatusCode
	}
	for _, observe := range x.client.settings().observers {
		observe(x.caller, a)
	}
}

// log writes the record of an attempt.
func (a Attempt) log(ctx context.Context, logger *slog.Logger) {
	level := slog.LevelDebug
	if a.Outcome != OutcomeDone || a.Err != nil {
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
