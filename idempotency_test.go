package lending_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

type send = func(context.Context) (*lending.Response, error)

// layer is a function as a layer, that counts its calls.
type layer struct {
	calls int
	do    func(ctx context.Context, call *lending.MutationCall, send send) (*lending.Response, error)
}

func (l *layer) Do(ctx context.Context, _ string, call *lending.MutationCall, send send) (*lending.Response, error) {
	l.calls++
	return l.do(ctx, call, send)
}

func passOn(ctx context.Context, _ *lending.MutationCall, send send) (*lending.Response, error) {
	return send(ctx)
}

func jsonResponse(body string) *lending.Response {
	return &lending.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
		Body: []byte(body),
	}
}

const customerJSON = `{"id":"c0000000-0000-4000-8000-000000000001"}`

// layered returns a client with a layer, of a service that answers with handle, and counts.
func layered(t *testing.T, l *layer, handle http.HandlerFunc) (client *lending.Client, arrived *int) {
	t.Helper()
	arrived = new(int)
	var mu sync.Mutex
	return wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		*arrived++
		mu.Unlock()
		handle(w, r)
	}, lending.WithIdempotency(l)), arrived
}

func create(ctx context.Context, client *lending.Client) (*lending.UserResponse, error) {
	return client.Applications.CreateCustomer(lending.WithIdempotencyKey(ctx, "order-1"), fake.Ada())
}

// TestLayerFailsAfterTheAnswer has a layer fail when the answer is there: the caller needs both.
func TestLayerFailsAfterTheAnswer(t *testing.T) {
	l := &layer{do: func(ctx context.Context, call *lending.MutationCall, send send) (*lending.Response, error) {
		answer, err := send(ctx)
		return answer, errors.Join(err, call.Error(errors.New("the store has gone")))
	}}
	client, arrived := layered(t, l, wire.Answer(200, customerJSON))
	customer, err := create(t.Context(), client)
	require.NotNil(t, customer)
	assert.Equal(t, catalog.Customer, customer.ID)
	require.Error(t, err)
	assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
	assert.Equal(t, 1, *arrived)
}

// TestLayerIsNotAsked holds what the client refuses before a layer sees it.
func TestLayerIsNotAsked(t *testing.T) {
	key := func(t *testing.T, name string) context.Context { return lending.WithIdempotencyKey(t.Context(), name) }
	for _, test := range []struct {
		name string
		call func(t *testing.T, c *lending.Client) error
		says string
	}{
		{"a read", func(t *testing.T, c *lending.Client) error {
			_, err := c.Loans.Get(key(t, "k"), catalog.Loan)
			return err
		}, "a read needs none"},
		{"a raw read", func(t *testing.T, c *lending.Client) error {
			_, err := c.Do(key(t, "k"), lending.RawRequest{
				Effect: lending.Read, Method: http.MethodGet,
				Path: "/api/Thing",
			})
			return err
		}, "a read needs none"},
		{"a login", func(t *testing.T, c *lending.Client) error {
			_, err := c.Auth.Login(key(t, "k"), lending.LoginRequest{Username: "u", Password: lending.NewSecret("p")})
			return err
		}, "not for a sign-in"},
		{"a second factor", func(t *testing.T, c *lending.Client) error {
			_, err := c.Auth.ValidateTwoFactor(key(t, "k"), lending.TwoFactorLoginRequest{
				Username: "u",
				Code:     lending.NewSecret("1"),
			})
			return err
		}, "not for a sign-in"},
		{"a refresh", func(t *testing.T, c *lending.Client) error {
			_, err := c.Auth.RefreshToken(key(t, "k"))
			return err
		}, "not for a sign-in"},
		{"a raw login", func(t *testing.T, c *lending.Client) error {
			_, err := c.Do(key(t, "k"), lending.RawRequest{Method: http.MethodPost, Path: "/api/authenication/Login"})
			return err
		}, "not for a sign-in"},
		{"an empty key", func(t *testing.T, c *lending.Client) error {
			return c.Applications.Cancel(key(t, ""), catalog.Application)
		}, "must not be empty"},
		{"a key of 257 bytes", func(t *testing.T, c *lending.Client) error {
			return c.Applications.Cancel(key(t, strings.Repeat("k", 257)), catalog.Application)
		}, "at most 256 bytes"},
		{"a control character", func(t *testing.T, c *lending.Client) error {
			return c.Applications.Cancel(key(t, "a\nb"), catalog.Application)
		}, "control characters"},
		{"no UTF-8", func(t *testing.T, c *lending.Client) error {
			return c.Applications.Cancel(key(t, "a\xff"), catalog.Application)
		}, "invalid UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := &layer{do: passOn}
			client, arrived := layered(t, l, wire.Answer(200, "true"))
			err := test.call(t, client)
			require.ErrorAs(t, err, new(*lending.ArgumentError))
			require.ErrorContains(t, err, test.says)
			assert.Zero(t, l.calls)
			assert.Zero(t, *arrived)
		})
	}
	l := &layer{do: passOn}
	client, arrived := layered(t, l, wire.Answer(200, "true"))
	require.NoError(t, client.Applications.Cancel(key(t, strings.Repeat("k", 256)), catalog.Application))
	require.NoError(t, client.Applications.Cancel(t.Context(), catalog.Application), "without a key")
	assert.Equal(t, 1, l.calls)
	assert.Equal(t, 2, *arrived)
	err := wire.Silent(t).Applications.Cancel(key(t, "k"), catalog.Application)
	require.ErrorContains(t, err, "needs a client with WithIdempotency")
}

func TestOneLayer(t *testing.T) {
	var none *layer
	for _, opts := range [][]lending.Option{
		{lending.WithIdempotency(nil)},
		{lending.WithIdempotency(none)},
		{lending.WithIdempotency(&layer{}), lending.WithIdempotency(&layer{})},
	} {
		_, err := lending.New("https://lending.example", opts...)
		require.ErrorAs(t, err, new(*lending.ArgumentError))
	}
}

// TestLayerSendsOnce has a layer send twice, and after its end.
func TestLayerSendsOnce(t *testing.T) {
	var kept send
	l := &layer{do: func(ctx context.Context, _ *lending.MutationCall, send send) (*lending.Response, error) {
		kept = send
		first, err := send(ctx)
		require.NoError(t, err)
		_, err = send(ctx)
		require.ErrorContains(t, err, "the idempotency layer tried to send the mutation twice")
		return first, nil
	}}
	client, arrived := layered(t, l, wire.Answer(200, customerJSON))
	customer, err := create(t.Context(), client)
	require.NoError(t, err)
	assert.Equal(t, catalog.Customer, customer.ID)
	_, err = kept(t.Context())
	require.ErrorContains(t, err, "after Do")
	assert.Equal(t, 1, *arrived)
}

// The call waits for a send that its layer has left.
func TestLayerThatLeavesItsSend(t *testing.T) {
	sending := make(chan struct{})
	l := &layer{do: func(ctx context.Context, call *lending.MutationCall, send send) (*lending.Response, error) {
		go func() { _, _ = send(ctx) }()
		<-sending
		return nil, call.Error(errors.New("left"))
	}}
	client, arrived := layered(t, l, func(w http.ResponseWriter, r *http.Request) {
		close(sending)
		wire.Answer(200, customerJSON)(w, r)
	})
	_, err := create(t.Context(), client)
	require.Error(t, err)
	assert.Equal(t, 1, *arrived)
}

// TestLayerReturnsNoAnswer has a layer return what is no success and no error.
func TestLayerReturnsNoAnswer(t *testing.T) {
	for _, answer := range []*lending.Response{nil, {}, {StatusCode: 199}, {StatusCode: 302}, {StatusCode: 500}} {
		for _, sends := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, sends: %t", answer, sends), func(t *testing.T) {
				l := &layer{do: func(ctx context.Context, _ *lending.MutationCall, send send) (*lending.Response,
					error,
				) {
					if sends {
						_, _ = send(ctx)
					}
					return answer, nil
				}}
				client, _ := layered(t, l, wire.Answer(200, customerJSON))
				customer, err := create(t.Context(), client)
				assert.Nil(t, customer)
				require.ErrorContains(t, err, "neither an error nor a response")
				if sends {
					assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err), "its answer was seen")
				} else {
					require.ErrorIs(t, err, lending.ErrOutcomeUnknown, "an earlier call may have sent it")
				}
			})
		}
	}
}

// TestErrorsOfALayer holds which outcome an error of a layer has, and no text of its own is shown.
func TestErrorsOfALayer(t *testing.T) {
	torn := errors.New("ada@example.com is torn")
	for _, test := range []struct {
		name string
		do   func(ctx context.Context, call *lending.MutationCall, send func() error) error
		want lending.Outcome
	}{
		{"foreign", func(context.Context, *lending.MutationCall, func() error) error {
			return torn
		}, lending.OutcomeUnknown},
		{"foreign, after a refusal", func(_ context.Context, _ *lending.MutationCall, send func() error) error {
			_ = send()
			return torn
		}, lending.OutcomeUnknown},
		{"of the call", func(_ context.Context, call *lending.MutationCall, _ func() error) error {
			return call.Error(torn)
		}, lending.OutcomeNotSent},
		{"of the call, decided", func(_ context.Context, call *lending.MutationCall, _ func() error) error {
			e := call.Error(torn)
			e.Outcome = lending.OutcomeRejected
			return e
		}, lending.OutcomeRejected},
		{"of send", func(_ context.Context, _ *lending.MutationCall, send func() error) error {
			return send()
		}, lending.OutcomeRejected},
		{"of send, wrapped", func(_ context.Context, _ *lending.MutationCall, send func() error) error {
			return fmt.Errorf("%w: %w", torn, send())
		}, lending.OutcomeRejected},
		{"of its own read", func(ctx context.Context, call *lending.MutationCall, _ func() error) error {
			return refusedRead(ctx, call)
		}, lending.OutcomeUnknown},
		{"of its own read, wrapped", func(ctx context.Context, call *lending.MutationCall, _ func() error) error {
			return fmt.Errorf("%w: %w", torn, refusedRead(ctx, call))
		}, lending.OutcomeUnknown},
		{"of its own read and of send", func(ctx context.Context, call *lending.MutationCall, send func() error) error {
			return errors.Join(refusedRead(ctx, call), send())
		}, lending.OutcomeRejected},
		{"of another key of the route", func(_ context.Context, call *lending.MutationCall, _ func() error) error {
			e := call.Error(torn)
			e.Outcome, e.IdempotencyKey = lending.OutcomeRejected, "another"
			return e
		}, lending.OutcomeUnknown},
		{"an argument of its own read", func(ctx context.Context, call *lending.MutationCall, _ func() error) error {
			_, err := call.Client().Loans.Get(ctx, lending.LoanID{})
			return err
		}, lending.OutcomeUnknown},
		{"an argument", func(context.Context, *lending.MutationCall, func() error) error {
			return &lending.ArgumentError{Fields: []lending.FieldError{{Field: "key", Message: "is taken"}}}
		}, lending.OutcomeNotSent},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := &layer{do: func(ctx context.Context, call *lending.MutationCall, send send) (*lending.Response, error) {
				return nil, test.do(ctx, call, func() error { return errorOf(send(ctx)) })
			}}
			client, _ := layered(t, l, wire.Answer(400, `{"title":"No","errors":[{"field":"email"}]}`))
			_, err := create(t.Context(), client)
			require.Error(t, err)
			assert.Equal(t, test.want, lending.OutcomeOf(err))
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s", err, err, err, errors.Unwrap(err)), "ada@")
		})
	}
}

func refusedRead(ctx context.Context, call *lending.MutationCall) error {
	_, err := call.Client().Loans.Get(ctx, catalog.Loan)
	return err
}

// TestLayerLearnsWhatTheMethodAccepts: a response in doubt is no record to keep.
func TestLayerLearnsWhatTheMethodAccepts(t *testing.T) {
	for _, test := range []struct {
		body string
		want bool
	}{
		{customerJSON, true},
		{`{"id":"c0000000-0000-4000-8000-000000000001","success":false}`, false},
		{`{"id":"c0000000-0000-4000-8000-000000000001","name":"Failsafe Ltd"}`, true},
		{`{"name":"x"}`, false},
		{`[]`, false},
		{``, false},
	} {
		t.Run(test.body, func(t *testing.T) {
			client, _ := layered(t, &layer{do: func(_ context.Context, call *lending.MutationCall, _ send) (
				*lending.Response, error,
			) {
				assert.Equal(t, test.want, call.Accepts(jsonResponse(test.body)))
				return jsonResponse(customerJSON), nil
			}}, wire.Answer(500, ""))
			_, err := create(t.Context(), client)
			require.NoError(t, err)
		})
	}
}

// A recorded answer is decoded and checked as one that has just come.
func TestRecordedAnswerIsChecked(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer *lending.Response
		want   error
	}{
		{"a success", jsonResponse(customerJSON), nil},
		{"HTML", &lending.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"text/html"}},
			Body: []byte("<p>"),
		}, lending.ErrOutcomeUnknown},
		{"a failure", jsonResponse(`{"success":false}`), lending.ErrOutcomeUnknown},
		{"another shape", jsonResponse(`[]`), lending.ErrMayHaveHappened},
		{"nothing", jsonResponse(``), lending.ErrNoContent},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := &layer{do: func(context.Context, *lending.MutationCall, send) (*lending.Response,
				error,
			) {
				return test.answer, nil
			}}
			client, arrived := layered(t, l, wire.Answer(500, ""))
			var seen lending.Response
			customer, err := create(lending.CaptureResponse(t.Context(), &seen), client)
			require.ErrorIs(t, err, test.want)
			if test.want == nil {
				assert.Equal(t, catalog.Customer, customer.ID)
			}
			assert.Equal(t, *test.answer, seen)
			assert.Zero(t, *arrived)
		})
	}
	l := &layer{do: func(_ context.Context, call *lending.MutationCall, _ send) (*lending.Response, error) {
		assert.False(t, call.NeedsAnswer())
		return &lending.Response{StatusCode: 200}, nil
	}}
	client, arrived := layered(t, l, wire.Answer(500, ""))
	ctx := lending.WithIdempotencyKey(t.Context(), "k")
	require.NoError(t, client.Applications.Cancel(ctx, catalog.Application))
	document := lending.Document{Name: "a.pdf", Content: strings.NewReader("content")}
	require.NoError(t, client.Applications.SubmitBankStatement(ctx, catalog.Application, document), "an upload")
	assert.Zero(t, *arrived)
}

// A layer gets the request without its secrets, and prints nothing of it.
func TestWhatALayerSees(t *testing.T) {
	l := &layer{do: func(ctx context.Context, call *lending.MutationCall, send send) (*lending.Response, error) {
		assert.Empty(t, lending.IdempotencyKeyOf(ctx), "the reads of a layer have no key")
		assert.Equal(t, "POST", call.Method())
		assert.Equal(t, "/api/Application/create-customer", call.Route())
		assert.Equal(t, "Customers.GetByEmail", call.CheckWith())
		assert.JSONEq(t, `{"firstName":"Ada","lastName":"Lovelace","email":"ada@example.com",`+
			`"password":"[redacted]","mobileNumber":"(415) 555-0100"}`, string(call.Body()))
		assert.Empty(t, call.Args())
		assert.Empty(t, call.Query())
		assert.True(t, call.NeedsAnswer())
		assert.False(t, call.IsRaw())
		var printed strings.Builder
		slog.New(slog.NewTextHandler(&printed, nil)).Info("", "call", call)
		_, _ = fmt.Fprintf(&printed, "%v %+v %#v", call, call, *call)
		assert.NotContains(t, printed.String(), "ada@")
		return send(ctx)
	}}
	client, _ := layered(t, l, wire.Answer(200, customerJSON))
	_, err := create(t.Context(), client)
	require.NoError(t, err)

	l.do = func(_ context.Context, call *lending.MutationCall, _ send) (*lending.Response, error) {
		assert.Equal(t, "GET", call.Method())
		assert.Equal(t, []string{catalog.Application.String()}, call.Args())
		assert.Equal(t, "Ada", call.Query().Get("firstname"))
		assert.False(t, call.Query().Has("ssn"))
		assert.Nil(t, call.Body())
		return jsonResponse("true"), nil
	}
	_, err = client.Applications.UpdateCustomerData(lending.WithIdempotencyKey(t.Context(), "k"), catalog.Application,
		lending.CustomerData{
			FirstName: "Ada", LastName: "Lovelace", Address: "1 Main St", State: "CA", City: "Oakland",
			Mobile: "4155550100",
			SSN:    lending.NewSecret("123-45-6789"), DateOfBirth: catalog.Born,
		})
	require.NoError(t, err)

	l.do = func(_ context.Context, call *lending.MutationCall, _ send) (*lending.Response, error) {
		assert.True(t, call.IsRaw())
		assert.JSONEq(t, `{"pin":"[redacted]"}`, string(call.Body()))
		assert.Empty(t, call.CheckWith())
		return jsonResponse(`{"a":1}`), nil
	}
	record, err := client.Do(lending.WithIdempotencyKey(t.Context(), "k"), lending.RawRequest{
		Method: http.MethodPost, Path: "/api/Thing/make", Body: map[string]any{"pin": lending.NewSecret("1234")},
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{"a":1}`, string(record.Raw()))
}
