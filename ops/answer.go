package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
	"github.com/lendingapi/lending-go/webhook"
)

// failure is an error with its status and, after a conflict, the present state.
type failure struct {
	Status int    `json:"-"`
	Text   string `json:"error"`
	Now    any    `json:"now,omitempty"`
}

func (f *failure) Error() string { return f.Text }

func failf(status int, format string, args ...any) *failure {
	return &failure{Status: status, Text: "lending/ops: " + fmt.Sprintf(format, args...)}
}

// asFailure gives an error its status. The texts of this module's errors show no value.
func asFailure(err error) *failure {
	var argument *lending.ArgumentError
	own, ok := errors.AsType[*failure](err)
	panicked, isPanic := errors.AsType[*lending.PanicError](err)
	switch {
	case ok:
		return own
	case isPanic:
		return failf(http.StatusServiceUnavailable, "%s; ask the engineers of the program", strings.TrimPrefix(panicked.Error(), "lending: "))
	case errors.Is(err, idempotency.ErrInProgress), errors.Is(err, idempotency.ErrInDoubt), errors.Is(err, idempotency.ErrNeedsReview), errors.Is(err, idempotency.ErrPaused), errors.Is(err, store.ErrConflict):
		return &failure{Status: http.StatusConflict, Text: err.Error()}
	case errors.As(err, &argument):
		status := http.StatusBadRequest
		if len(argument.Fields) > 0 && argument.Fields[0].Code == lending.CodeConflict {
			status = http.StatusConflict
		}
		return &failure{Status: status, Text: err.Error()}
	case errors.Is(err, webhook.ErrNoDeadLetter):
		return &failure{Status: http.StatusNotFound, Text: err.Error()}
	case errors.Is(err, idempotency.ErrStore):
		return &failure{Status: http.StatusServiceUnavailable, Text: err.Error()}
	}
	return failf(http.StatusServiceUnavailable, "the store failed: %s; check its log", redact.Describe(err))
}

// answer serves the result of read as JSON, for a request without other parameters.
func answer[T any](read func(*http.Request) (T, error), parameters ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var result T
		err := checkQuery(r.URL.RawQuery, parameters)
		if err == nil {
			result, err = read(r)
		}
		switch unwell, ok := any(result).(interface{ status() int }); {
		case err != nil:
			f := asFailure(err)
			write(w, f.Status, f)
		case ok:
			write(w, unwell.status(), result)
		default:
			write(w, http.StatusOK, result)
		}
	}
}

// inTime bounds read, which runs in a goroutine of its own: a store can panic, or ignore its context, which
// ends after timeout.
func inTime[T any](d *desk, read func(*http.Request) (T, error)) func(*http.Request) (T, error) {
	return func(r *http.Request) (result T, err error) {
		ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), firstPanic{}, new(sync.Once)), timeout)
		defer cancel()
		late := time.After(patience)
		hangs := failf(http.StatusServiceUnavailable, "a store does not answer; check the stores of the handler")
		select {
		case d.reads <- struct{}{}:
		case <-ctx.Done():
			return result, hangs
		}
		type outcome struct {
			result T
			err    error
		}
		ended := make(chan outcome, 1)
		go func() {
			defer func() { <-d.reads }()
			var o outcome
			o.err = d.contained(ctx, func() (err error) {
				o.result, err = read(r.WithContext(ctx))
				return err
			})
			ended <- o
		}()
		select {
		case o := <-ended:
			return o.result, o.err
		case <-late:
		case <-r.Context().Done():
		}
		return result, hangs
	}
}

// contained calls a function of the program, and logs the stack of a panic: once for all rows of an answer.
func (d *desk) contained(ctx context.Context, f func() error) error {
	err := safely.Call[lending.PanicError](f)
	if panicked, ok := errors.AsType[*lending.PanicError](err); ok {
		once, _ := ctx.Value(firstPanic{}).(*sync.Once)
		cmp.Or(once, new(sync.Once)).Do(func() {
			d.Logger.ErrorContext(ctx, "lending ops panic", "stack", string(panicked.Stack))
		})
	}
	return err
}

// firstPanic is the key of a context's *sync.Once.
type firstPanic struct{}

// apart calls read for a part of the handler, which can take half of the time that is left: a part that hangs leaves
// time for the next.
func apart(ctx context.Context, read func(context.Context) error) error {
	if end, ok := ctx.Deadline(); ok {
		part, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = part
	}
	return read(ctx)
}

// checkQuery refuses unknown and repeated parameters: a typo would list everything.
func checkQuery(text string, known []string) error {
	query, err := url.ParseQuery(text)
	for name, values := range query {
		if !slices.Contains(known, name) || len(values) > 1 {
			err = errors.New("a parameter is unknown or repeated")
		}
	}
	if err != nil {
		return failf(http.StatusBadRequest, "a parameter of the address is unknown or repeated; this route has %q", known)
	}
	return nil
}

func write(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) //nolint:errchkjson // an error means a closed connection
}

// maxOrder bounds the body of an action: a resolution can hold a response.
const maxOrder = 2 << 20

// order is the body of an action.
type order struct {
	Key     string          `json:"key"`
	Verdict string          `json:"verdict"` // "happened" or "not_happened"
	Answer  json.RawMessage `json:"answer"`
	Why     string          `json:"why"`
	Sends   int             `json:"sends"`   // of the key that the person has looked at
	Correct bool            `json:"correct"` // the verdict replaces an earlier verdict

	Session string `json:"session"` // its name
	Code    string `json:"code"`    // of the service, for a sign-in

	Since string `json:"since"` // the time of the copy
	For   string `json:"for"`   // of a restoration
	Claim bool   `json:"claim"` // of a restoration

	From string `json:"from"` // of an audit
	To   string `json:"to"`   // of an audit; now if empty

	ID    string   `json:"id"`  // for a single dead letter
	IDs   []string `json:"ids"` // of dead letters, or of a person and the person's applications and loans
	All   bool     `json:"all"` // every dead letter that matches
	Event string   `json:"event"`
}

// done is the result of an action.
type done struct {
	Done int `json:"done"` // number of records changed
}

// isForwarded reports whether a gateway has replaced the Host of the page's own request. No page of another
// origin can set X-Forwarded-Host.
func isForwarded(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Host"), ",")
	return err == nil && origin.Host != "" && origin.Host == strings.TrimSpace(first) && r.Header.Get("Sec-Fetch-Site") == ""
}

// action serves an action for a person who may act, within a limit, and logs it.
func (d *desk) action(limit time.Duration, act func(r *http.Request, who string, o order) (what string, n int, err error)) http.HandlerFunc {
	return answer(func(r *http.Request) (done, error) {
		who, mayAct := d.Who(r)
		media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case d.origin.Check(r) != nil && !isForwarded(r):
			return done{}, failf(http.StatusForbidden, "the request comes from the page of %.200q and has the Host %.200q: "+
				"let the gateway pass the Host of the page on (nginx: proxy_set_header Host $http_host; Apache: ProxyPreserveHost On) "+
				"or set X-Forwarded-Host; the page of another site may not act", r.Header.Get("Origin"), r.Host)
		case !mayAct || who == "":
			return done{}, failf(http.StatusForbidden, "this person may not act; ask for the right to act")
		case media != "application/json":
			return done{}, failf(http.StatusUnsupportedMediaType, "an action needs the content type application/json")
		}
		var o order
		decoder := json.NewDecoder(io.LimitReader(r.Body, maxOrder))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&o); err != nil {
			return done{}, failf(http.StatusBadRequest, "the body is not an order; see the documentation of package ops")
		}
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		var what string
		var n int
		err := d.contained(ctx, func() (err error) { // net/http would send no answer, and log the value
			what, n, err = act(r.WithContext(ctx), who, o)
			return err
		})
		attrs := []slog.Attr{slog.String("who", who), slog.String("what", what), slog.String("why", o.Why), slog.Int("records", n)}
		if err != nil {
			attrs = append(attrs, slog.String("error", asFailure(err).Text))
		}
		d.Logger.LogAttrs(r.Context(), slog.LevelInfo, "lending ops", attrs...)
		return done{n}, err
	})
}
