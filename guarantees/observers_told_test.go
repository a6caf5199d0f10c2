package guarantees_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// Each attempt has all its fields, and a logger writes a record with the context of the call.
func TestObserversSeeEachAttempt(t *testing.T) {
	t.Parallel()
	type key struct{}
	var seen []lending.Call
	var records []string
	logger := slog.New(recorder(func(ctx context.Context, r slog.Record) {
		var b strings.Builder
		fmt.Fprint(&b, ctx.Value(key{}), " ", r.Level, " ", r.Message)
		r.Attrs(func(a slog.Attr) bool {
			if a.Key != "duration" {
				fmt.Fprintf(&b, " %s", a)
			}
			return true
		})
		records = append(records, b.String())
	}))
	arrivals := 0
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if arrivals++; arrivals == 1 {
			wire.Answer(503, "{}")(w, r)
			return
		}
		wire.Answer(200, `"Open"`)(w, r)
	}, lending.WithLogger(logger), wire.Attempts(func(ctx context.Context, a lending.Call) {
		assert.Equal(t, "caller", ctx.Value(key{}))
		assert.NoError(t, ctx.Err())
		seen = append(seen, a)
	}))
	start := time.Now()
	ctx := context.WithValue(t.Context(), key{}, "caller")
	_, err := client.Applications.Status(ctx, catalog.Application)
	require.NoError(t, err)
	_, err = client.Applications.Process(ctx, catalog.Application)
	assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err), "its answer is no UUID")
	require.Len(t, seen, 3)
	for i, want := range []lending.Call{
		{
			Method: "GET", Route: "/api/Application/application-status/{applicationId}", Effect: lending.Read, Attempts: 1,
			StatusCode: 503, Protocol: "HTTP/1.1", Outcome: lending.OutcomeUnknown,
		},
		{
			Method: "GET", Route: "/api/Application/application-status/{applicationId}", Effect: lending.Read, Attempts: 2,
			StatusCode: 200, Protocol: "HTTP/1.1", Outcome: lending.OutcomeDone,
		},
		{
			Method: "GET", Route: "/api/Application/process-application/{applicationId}", Effect: lending.Mutation,
			Attempts: 1, StatusCode: 200, Protocol: "HTTP/1.1", Outcome: lending.OutcomeDone,
		},
	} {
		t.Run(fmt.Sprint("attempt ", want.Attempts), func(t *testing.T) {
			got := seen[i]
			assert.Positive(t, got.Duration)
			assert.WithinRange(t, got.Start, start, time.Now())
			got.Duration, got.Start = 0, time.Time{}
			assert.Equal(t, want, got)
		})
	}
	assert.Equal(t, []string{
		"caller WARN lending attempt method=GET route=/api/Application/application-status/{applicationId} " +
			"effect=read attempt=1 status=503 outcome=unknown",
		"caller DEBUG lending attempt method=GET route=/api/Application/application-status/{applicationId} " +
			"effect=read attempt=2 status=200 outcome=done",
		"caller DEBUG lending attempt method=GET route=/api/Application/process-application/{applicationId} " +
			"effect=mutation attempt=1 status=200 outcome=done",
	}, records)
}

// A read of a record that does not exist is no warning. All other rejections are.
func TestLogOfARejectionHasALevel(t *testing.T) {
	t.Parallel()
	for status, levels := range map[int][]slog.Level{
		http.StatusNotFound:   {slog.LevelDebug, slog.LevelWarn},
		http.StatusBadRequest: {slog.LevelWarn, slog.LevelWarn},
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			var got []slog.Level
			client := wire.Serve(t, wire.Answer(status, "{}"), lending.WithLogger(slog.New(recorder(
				func(_ context.Context, r slog.Record) { got = append(got, r.Level) }))))
			_, read := client.Applications.Status(t.Context(), catalog.Application)
			_, mutation := client.Applications.Process(t.Context(), catalog.Application)
			require.True(t, read != nil && mutation != nil)
			assert.Equal(t, levels, got)
		})
	}
}

// recorder is a slog.Handler.
type recorder func(context.Context, slog.Record)

func (f recorder) Enabled(context.Context, slog.Level) bool { return true }
func (f recorder) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f recorder) WithGroup(string) slog.Handler            { return f }
func (f recorder) Handle(ctx context.Context, r slog.Record) error {
	f(ctx, r)
	return nil
}

// callLog observes calls and keeps their ends.
type callLog struct{ begun, ended []lending.Call }

func (o *callLog) begin(ctx context.Context, c lending.Call) (context.Context, func(lending.Call)) {
	o.begun = append(o.begun, c)
	return ctx, func(c lending.Call) { o.ended = append(o.ended, c) }
}

// Raw and refused calls have an end for observers. TestConformance holds that of the others.
func TestCallObserversSeeEachCall(t *testing.T) {
	t.Parallel()
	const status, process = "/api/Application/application-status/{applicationId}",
		"/api/Application/process-application/{applicationId}"
	var answers []http.HandlerFunc
	var seen callLog
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		next := answers[0]
		answers = answers[1:]
		next(w, r)
	}, lending.WithObserver(seen.begin, nil))
	for _, test := range []struct {
		answers []http.HandlerFunc
		call    func() error
		want    lending.Call
	}{{
		answers: []http.HandlerFunc{wire.Answer(503, "{}"), wire.Answer(200, `"Open"`)},
		call:    func() error { _, err := client.Applications.Status(t.Context(), catalog.Application); return err },
		want: lending.Call{
			Method: "GET", Route: status, Effect: lending.Read, Attempts: 2, StatusCode: 200,
			Outcome: lending.OutcomeDone,
		},
	}, {
		call: func() error { _, err := client.Applications.Process(t.Context(), lending.ApplicationID{}); return err },
		want: lending.Call{Method: "GET", Route: process, Outcome: lending.OutcomeNotSent},
	}, {
		answers: []http.HandlerFunc{wire.Answer(204, "")},
		call: func() error {
			_, err := client.Do(t.Context(), lending.RawRequest{Method: "PUT", Path: "/api/Some/route"})
			return err
		},
		want: lending.Call{
			Method: "PUT", Route: "/api/Some/route", Attempts: 1, StatusCode: 204,
			Outcome: lending.OutcomeDone,
		},
	}, {
		call: func() error {
			_, err := client.Do(t.Context(), lending.RawRequest{Method: "PUT", Path: "/api/not a template"})
			return err
		},
		want: lending.Call{Method: "PUT", Outcome: lending.OutcomeNotSent},
	}, {
		call: func() error {
			_, err := client.Do(t.Context(), lending.RawRequest{Method: "123-45-6789", Path: "/api/Some/route"})
			assert.NotContains(t, fmt.Sprint(err), "123")
			return err
		},
		want: lending.Call{Route: "/api/Some/route", Outcome: lending.OutcomeNotSent},
	}} {
		t.Run(fmt.Sprint(test.want.Method, test.want.StatusCode, test.want.Outcome), func(t *testing.T) {
			seen, answers = callLog{}, test.answers
			start := time.Now()
			err := test.call()
			require.Len(t, seen.ended, 1)
			begun, got := seen.begun[0], seen.ended[0]
			assert.WithinRange(t, begun.Start, start, time.Now())
			assert.Equal(t, lending.Call{
				Method: test.want.Method, Route: test.want.Route, Effect: test.want.Effect,
				Start: begun.Start,
			}, begun)
			assert.Equal(t, begun.Start, got.Start)
			assert.GreaterOrEqual(t, got.Duration, time.Duration(max(0, got.Attempts-1))*100*time.Millisecond,
				"the wait for a repetition")
			assert.Positive(t, got.Duration)
			assert.LessOrEqual(t, got.Duration, time.Since(start))
			assert.Equal(t, err, got.Err, "what the caller gets")
			got.Start, got.Duration, got.Err = time.Time{}, 0, nil
			if got.StatusCode != 0 {
				test.want.Protocol = "HTTP/1.1"
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// The context of the first observer is the parent of the context of the second, the context of a call
// that of its attempts, and the last gives its values to headers, the request and the logger. The
// observers end in reverse order.
func TestObserversNest(t *testing.T) {
	type key string
	var told []string
	values := func(ctx context.Context) (seen []any) {
		for _, name := range []key{"outer call", "inner call", "outer attempt", "inner attempt"} {
			if ctx.Value(name) != nil {
				seen = append(seen, name)
			}
		}
		return seen
	}
	nest := func(name string) func(context.Context, lending.Call) (context.Context, func(lending.Call)) {
		return func(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
			told = append(told, fmt.Sprint(name, " in ", values(ctx)))
			return context.WithValue(ctx, key(name), "seen"), func(lending.Call) { told = append(told, name+" ends") }
		}
	}
	silent := func(context.Context, lending.Call) (context.Context, func(lending.Call)) { return nil, nil }
	client := wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
		told = append(told, fmt.Sprint("sent in ", values(r.Context())))
		return wire.Reply(200, `"Open"`)(r)
	}, lending.WithObserver(nest("outer call"), nest("outer attempt")),
		lending.WithObserver(silent, silent), lending.WithObserver(nest("inner call"), nest("inner attempt")),
		lending.WithHeader(func(ctx context.Context, _ http.Header) {
			told = append(told, fmt.Sprint("header in ", values(ctx)))
		}),
		lending.WithLogger(slog.New(recorder(func(ctx context.Context, _ slog.Record) {
			told = append(told, fmt.Sprint("logged in ", values(ctx)))
		}))))
	_, err := client.Applications.Status(t.Context(), catalog.Application)
	require.NoError(t, err)
	all := "[outer call inner call outer attempt inner attempt]"
	assert.Equal(t, []string{
		"outer call in []", "inner call in [outer call]",
		"outer attempt in [outer call inner call]", "inner attempt in [outer call inner call outer attempt]",
		"header in " + all, "sent in " + all, "logged in " + all,
		"inner attempt ends", "outer attempt ends", "inner call ends", "outer call ends",
	}, told)
}

// An observer that returns a context without the limits of the call, or a context that has ended,
// changes neither the limits nor the attempt.
func TestObserverCannotTakeTheLimitsAway(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{t.Context(), ended} {
		replace := func(context.Context, lending.Call) (context.Context, func(lending.Call)) { return ctx, nil }
		var arrivals int
		client := wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
			arrivals++
			_, limited := r.Context().Deadline()
			assert.True(t, limited)
			assert.NoError(t, r.Context().Err())
			trace := httptrace.ContextClientTrace(r.Context())
			for range 2 { // as a transport that repeats the request
				trace.GotConn(httptrace.GotConnInfo{})
				trace.WroteHeaderField("User-Agent", r.Header["User-Agent"])
			}
			return stalls(r)
		}, lending.WithObserver(nil, replace))
		assert.ErrorContains(t, client.Applications.Cancel(t.Context(), catalog.Application), "the request twice")
		assert.Equal(t, 1, arrivals)
	}
}

// A call that ends with a panic of a caller's function is no success, and all observers see its
// end.
func TestCallObserversSeeAPanic(t *testing.T) {
	torn := withTransport(func(r *http.Request) (*http.Response, error) {
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
		panic("torn")
	})
	for _, test := range []struct {
		want    lending.Outcome
		options []lending.Option
	}{
		{lending.OutcomeNotSent, []lending.Option{lending.WithTokenSource(tornSource{})}},
		{lending.OutcomeUnknown, []lending.Option{withToken, torn}},
	} {
		t.Run(fmt.Sprint(test.want), func(t *testing.T) {
			var seen callLog
			ends := func(ctx context.Context, c lending.Call) (context.Context, func(lending.Call)) {
				_, end := seen.begin(ctx, c)
				return ctx, func(c lending.Call) { end(c); panic("torn too") }
			}
			client := wire.NewClient(t, "https://lending.example",
				append(test.options, lending.WithObserver(seen.begin, nil), lending.WithObserver(ends, nil))...)
			assert.Panics(t, func() { _, _ = client.Applications.Process(t.Context(), catalog.Application) })
			require.Len(t, seen.ended, 2)
			for _, ended := range seen.ended {
				assert.EqualError(t, ended.Err, "lending: a function of the caller panicked")
				assert.Equal(t, test.want, ended.Outcome)
			}
		})
	}

	var seen callLog
	client := wire.NewClient(t, "https://lending.example", withToken, lending.WithObserver(seen.begin, nil),
		lending.WithObserver(func(context.Context, lending.Call) (context.Context, func(lending.Call)) {
			panic("torn")
		}, nil))
	assert.PanicsWithValue(t, "torn", func() { _, _ = client.Applications.Process(t.Context(), catalog.Application) })
	require.Len(t, seen.ended, 1, "the one that had begun")
	assert.Equal(t, lending.OutcomeNotSent, seen.ended[0].Outcome)
}

// Observers see whether a mutation with a key was sent, rebuilt, replayed or refused, and which
// reads are checks.
func TestObserversSeeIdempotency(t *testing.T) {
	const route = "POST /api/Application/create-customer"
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		var told []string
		tell := func(kind, route string, log string, more any) {
			told = append(told, fmt.Sprintf("%s %s %q %v", kind, path.Base(route), log, more))
		}
		type end = func(lending.Call)
		client := fake.SignIn(t, service, nil,
			lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))),
			lending.WithObserver(func(ctx context.Context, begun lending.Call) (context.Context, end) {
				if begun.Idempotency != idempotency.ActionCheck {
					assert.Empty(t, begun.Idempotency, "it is not known yet")
				}
				return ctx, func(c lending.Call) { tell("call", c.Route, c.Idempotency, c.Outcome) }
			}, nil),
			wire.Attempts(func(_ context.Context, a lending.Call) {
				tell("attempt", a.Route, a.Idempotency, a.Outcome)
			}),
			lending.WithLogger(slog.New(recorder(func(_ context.Context, r slog.Record) {
				attrs := map[string]string{}
				r.Attrs(func(a slog.Attr) bool { attrs[a.Key] = a.Value.String(); return true })
				assert.NotContains(t, attrs["error"], "@", "the address of the customer")
				tell(r.Message, attrs["route"], attrs["idempotency"], r.Level)
			}))))
		exchanged := func(route string, log string, outcome lending.Outcome, level slog.Level) []string {
			return []string{
				fmt.Sprintf("lending attempt %s %q %v", route, log, level),
				fmt.Sprintf("attempt %s %q %v", route, log, outcome),
				fmt.Sprintf("call %s %q %v", route, log, outcome),
			}
		}
		user, ctx := fake.Newcomer(), lending.WithIdempotencyKey(t.Context(), "order-42/customer")
		create := func(want error) []string {
			told = nil
			_, err := client.Applications.CreateCustomer(ctx, user)
			assert.ErrorIs(t, err, want)
			return told
		}
		checkOfEmail := exchanged("get-customer-by-email", idempotency.ActionCheck, lending.OutcomeDone,
			slog.LevelDebug)
		absent := append(slices.Clone(checkOfEmail[:2]), strings.Replace(checkOfEmail[2], "done", "unknown", 1))

		service.Fail(route, lendingtest.Fault{ResetAfter: true})
		assert.Equal(t, slices.Concat(
			exchanged("login", "", lending.OutcomeDone, slog.LevelDebug), // no check, although a check needs the sign-in
			exchanged("validate-two-factor", "", lending.OutcomeDone, slog.LevelDebug),
			absent,
			exchanged("create-customer", idempotency.ActionSent, lending.OutcomeUnknown, slog.LevelWarn),
		), create(lending.ErrOutcomeUnknown))

		assert.Equal(t, slices.Concat(
			checkOfEmail,
			exchanged("{customerId}", idempotency.ActionCheck, lending.OutcomeDone, slog.LevelDebug),
			[]string{`lending idempotency create-customer "rebuilt" DEBUG`, `call create-customer "rebuilt" done`},
		), create(nil))

		assert.Equal(t, []string{
			`lending idempotency create-customer "rebuilt" DEBUG`,
			`call create-customer "rebuilt" done`,
		}, create(nil))

		ctx, user.Email = lending.WithIdempotencyKey(t.Context(), "order-43/customer"), "another@example.com"
		service.Fail(route, lendingtest.Fault{ResetBefore: true})
		create(lending.ErrOutcomeUnknown)
		assert.Equal(t, slices.Concat(
			absent,
			[]string{`lending idempotency create-customer "refused" WARN`, `call create-customer "refused" unknown`},
		), create(idempotency.ErrInDoubt))

		ctx = idempotency.WithCheck(ctx, func(context.Context) (idempotency.Verdict, error) {
			return idempotency.NeedsReview("nobody knows"), nil
		})
		for _, level := range []slog.Level{slog.LevelWarn, slog.LevelWarn, slog.LevelDebug, slog.LevelDebug} { // a pass each
			want := fmt.Sprintf(`lending idempotency create-customer "refused" %v`, level)
			assert.Contains(t, create(idempotency.ErrNeedsReview), want)
			bubble.Elapse(90 * time.Second)
		}
		user.LastName = "Another"
		assert.Contains(t, create(idempotency.ErrKeyReused), `lending idempotency create-customer "refused" WARN`)

		ctx = t.Context()
		assert.Equal(t, exchanged("create-customer", "", lending.OutcomeDone, slog.LevelDebug), create(nil),
			"without a key")
		assert.Equal(t, 2, service.Executed(route))
	})
}

type tornSource struct{}

func (tornSource) Token(context.Context) (lending.Token, error) { panic("torn") }
