package lending

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// Attempt is one attempt of a call to reach the service, for metrics and traces. It
// holds no value of a parameter, nor of an answer.
type Attempt struct {
	Method     string // for example "POST"
	Route      string // path template, for example "/api/Loan/get-loan/{loanId}"
	Effect     Effect
	Number     int // 1 for the first of the call
	StatusCode int // 0 if there was no answer
	Start      time.Time
	Duration   time.Duration // until the whole answer was read
	Outcome    Outcome       // of the call if this attempt is its last; [OutcomeDone] for success
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
