package lending

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
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
}

// errPanicked is told of a call that did not return.
var errPanicked = errors.New("lending: a function of the caller panicked")

// begin tells the observers of calls of one that begins. It returns the context for the
// call, and the function that tells them of its end.
func (x *exchange) begin(ctx context.Context) (context.Context, func(error)) {
	observers := x.client.settings.callObservers
	if len(observers) == 0 {
		return ctx, func(error) {}
	}
	call := Call{Method: x.request.method, Route: x.request.path, Effect: x.request.effect, Start: time.Now()}
	var ends []func(Call)
	for _, observe := range observers {
		var end func(Call)
		if ctx, end = observe(ctx, call); end != nil {
			ends = append(ends, end)
		}
	}
	return ctx, func(err error) {
		call.Duration = time.Since(call.Start)
		call.Attempts, call.StatusCode, call.Err = x.attempts, x.answer.StatusCode, err
		if call.Outcome = OutcomeDone; err != nil {
			call.Outcome = OutcomeOf(err)
		}
		for _, end := range slices.Backward(ends) {
			end(call)
		}
	}
}

// Attempt is one attempt of a call to reach the service, for metrics and traces: see
// [WithObserver]. It holds no value of a parameter, nor of an answer.
type Attempt struct {
	Method     string // for example "POST"
	Route      string // path template, for example "/api/Loan/get-loan/{loanId}"
	Effect     Effect
	Number     int // 1 for the first of the call
	StatusCode int // 0 if there was no answer
	Start      time.Time
	Duration   time.Duration // until the whole answer was read
	Outcome    Outcome       // of the call if this attempt is its last; [OutcomeDone] for success, whether it decodes or not
	Err        error         // nil for an answer that was received whole, whatever its status
}

// observe tells the observers of an attempt that has ended.
func (x *exchange) observe(start time.Time, resp *http.Response) {
	if len(x.client.settings.observers) == 0 {
		return
	}
	a := Attempt{
		Method: x.request.method, Route: x.request.path, Effect: x.request.effect, Number: x.attempts,
		Start: start, Duration: time.Since(start), Outcome: x.outcome(), Err: hide(x.err),
	}
	if resp != nil {
		a.StatusCode = resp.StatusCode
	}
	for _, observe := range x.client.settings.observers {
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
	logger.LogAttrs(ctx, level, "lending attempt", attrs...)
}
