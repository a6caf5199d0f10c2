package lending

import (
	"context"
	"errors"
	"log/slog"
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
