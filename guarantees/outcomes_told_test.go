package guarantees_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestProblemDetails(t *testing.T) {
	full := &lending.ProblemDetails{
		Status: 400, Title: "Bad", Detail: "d", Instance: "/api", TraceID: "t-1", CorrelationID: "c-1", ErrorCode: "E1",
		Errors: []lending.FieldError{{Field: "email", Message: "m", Code: "invalid"}},
	}
	for _, test := range []struct {
		name, contentType, body string
		want                    *lending.ProblemDetails
	}{
		{
			"array", "application/json", `{"status":400,"title":"Bad","detail":"d","instance":"/api","traceId":"t-1",` +
				`"correlationId":"c-1","errorCode":"E1","errors":[{"field":"email","message":"m","code":"invalid"}]}`,
			full,
		},
		{
			"problem+json in PascalCase, with a BOM", "application/problem+json; charset=utf-8",
			"\uFEFF" + `{"Status":400,"Title":"Bad","Detail":"d","Instance":"/api","TraceId":"t-1",` +
				`"CorrelationId":"c-1","ErrorCode":"E1","Errors":[{"Field":"email","Message":"m","Code":"invalid"}]}`,
			full,
		},
		{
			"dictionary", "application/problem+json",
			`{"status":400,"errors":{"Email":["m1","m2"],"$.customerId":["m3"],"":"m4",` +
				`"[1].Lender.DateUTC":["m5"],"OTP":["m6"],"r":["m7\nline"]}}`,
			&lending.ProblemDetails{Status: 400, Errors: []lending.FieldError{
				{Field: "", Message: "m4"},
				{Field: "customerId", Message: "m3"},
				{Field: "email", Message: "m1"},
				{Field: "email", Message: "m2"},
				{Field: "otp", Message: "m6"},
				{Field: "[1].lender.dateUTC", Message: "m5"},
				{Field: "r", Message: "m7\nline"},
			}},
		},
		{
			"members of other types", "application/json",
			`{"status":"400","title":7,"errorCode":"E1","errors":[{"field":1,"code":"c"},"text",null]}`,
			&lending.ProblemDetails{ErrorCode: "E1", Errors: []lending.FieldError{{Code: "c"}, {}, {}}},
		},
		{"labelled as text", "text/plain", `{"errorCode":"E1"}`, &lending.ProblemDetails{ErrorCode: "E1"}},
		{"html", "text/html", "<html>secret</html>", nil},
		{"empty", "", "", nil},
		{"broken", "application/json", `{"errorCode":"E1"`, nil},
		{"a string", "application/json", `"secret"`, nil},
		{"null", "application/json", `null`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := wire.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.contentType)
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(test.body))
			})
			err := client.Applications.Cancel(t.Context(), catalog.OtherApplication)
			var failed *lending.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, 400, failed.StatusCode)
			assert.Equal(t, lending.OutcomeRejected, failed.Outcome)
			assert.Equal(t, "POST", failed.Method)
			assert.Equal(t, "/api/Application/cancel-application/{applicationId}", failed.Route)
			assert.Equal(t, test.body, string(failed.Response().Body))
			assert.NotContains(t, err.Error(), "secret")
			if failed.Problem != nil {
				failed.Problem.Raw = nil
			}
			assert.Equal(t, test.want, failed.Problem)
		})
	}
}

// TestErrorText has values of a problem record that look like a name or a code, and values that do not.
func TestErrorText(t *testing.T) {
	client := wire.Serve(t, wire.Answer(400,
		`{"title":"hush","detail":"hush","instance":"/hush","traceId":"00-ab-01","correlationId":"of hush","errorCode":"E1",
		"errors":[{"field":"email","message":"The value 'hush' is wrong","code":"invalid"},
			{"field":"the value hush","message":"","code":""},{"field":"zip","code":"hush?"}]}`))
	err := client.Applications.Cancel(t.Context(), catalog.OtherApplication)
	const want = "lending: POST /api/Application/cancel-application/{applicationId}: 400 Bad Request" +
		": errorCode E1: trace 00-ab-01: correlation [redacted]: field email invalid: field [redacted]" +
		": field zip [redacted]: rejected"
	var failed *lending.Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, want, err.Error())

	var text, structured bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "err", err, "problem", failed.Problem)
	slog.New(slog.NewJSONHandler(&structured, nil)).Info("x", "err", err, "problem", failed.Problem)
	asJSON, marshalErr := json.Marshal(err)
	require.NoError(t, marshalErr)
	all := text.String() + structured.String() + string(asJSON)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		all += fmt.Sprintf(verb, err) + fmt.Sprintf(verb, failed.Problem) + fmt.Sprintf(verb, []error{err})
	}
	assert.NotContains(t, all, "hush")
	assert.Contains(t, structured.String(), `"outcome":"rejected"`)
	assert.Equal(t, "hush", failed.Problem.Detail)
}

// TestErrorsIsAndAsFindTheCause finds the cause by value, as a net.Error, as an error of
// certificates, as a type of the caller, and as the reason why no connection was made.
func TestErrorsIsAndAsFindTheCause(t *testing.T) {
	mine := &myError{"mine"}
	host := x509.HostnameError{Certificate: &x509.Certificate{}, Host: "lending.example"}
	dialed := &net.OpError{
		Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1},
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}
	_, err := wire.InMemory(t, func(*http.Request) (*http.Response, error) {
		return nil, errors.Join(mine, os.ErrDeadlineExceeded, net.ErrClosed,
			&tls.CertificateVerificationError{Err: host}, &net.OpError{Op: "proxyconnect", Err: dialed},
			&net.DNSError{Err: "c4n4ry", Name: "lending.example", Server: "c4n4ry", IsNotFound: true})
	}).Applications.Status(t.Context(), catalog.Application)
	for _, target := range []error{mine, net.ErrClosed, syscall.ECONNREFUSED, os.ErrDeadlineExceeded} {
		require.ErrorIs(t, err, target)
	}
	var network net.Error
	require.ErrorAs(t, errors.Unwrap(err), &network)
	assert.Equal(t, errors.Unwrap(err), network)
	var certificate *tls.CertificateVerificationError
	require.ErrorAs(t, err, &certificate)
	var hostname x509.HostnameError
	require.ErrorAs(t, err, &hostname)
	var own *myError
	require.ErrorAs(t, err, &own)
	var operation *net.OpError
	require.ErrorAs(t, err, &operation)
	assert.EqualError(t, operation, "dial tcp 127.0.0.1:1: connection refused")
	var dns *net.DNSError
	require.ErrorAs(t, err, &dns)
	assert.EqualError(t, dns, "lookup lending.example: not found")
	assert.True(t, dns.IsNotFound)
}

type myError struct{ text string }

func (e *myError) Error() string { return e.text }

func TestOutcomeOf(t *testing.T) {
	assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(nil))
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(errors.New("other")))
	assert.Equal(t, lending.OutcomeUnknown, lending.Outcome(0))
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(fmt.Errorf("wrapped: %w", &lending.ArgumentError{})))
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(&lending.TwoFactorRequiredError{}))
	assert.Equal(t, lending.OutcomeRejected,
		lending.OutcomeOf(errors.Join(&lending.Error{Outcome: lending.OutcomeRejected})))
	for _, outcome := range []lending.Outcome{
		lending.OutcomeUnknown, lending.OutcomeNotSent, lending.OutcomeRejected,
		lending.OutcomeDone,
	} {
		t.Run(fmt.Sprint(outcome), func(t *testing.T) {
			err := &lending.Error{Effect: lending.Mutation, Outcome: outcome}
			lost := fmt.Errorf("wrapped: %v", err) //nolint:errorlint // the subject of this case
			assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(lost),
				"an error that lost its %%w may have happened")
			assert.NotErrorIs(t, lost, lending.ErrMayHaveHappened, "which errors.Is cannot know")
			kept := fmt.Errorf("wrapped: %w", err)
			assert.Equal(t, outcome, lending.OutcomeOf(kept))
			assert.Equal(t, outcome == lending.OutcomeUnknown || outcome == lending.OutcomeDone,
				errors.Is(kept, lending.ErrMayHaveHappened))
		})
	}
	words := fmt.Sprint(lending.OutcomeUnknown, ", ", lending.OutcomeNotSent, ", ", lending.OutcomeRejected, ", ",
		lending.OutcomeDone)
	assert.Equal(t, "unknown, not sent, rejected, done", words)
}

// The trace sees one of two transports fail. The other may have sent the request.
func TestOutcomeBesideASecondTransportIsUnknown(t *testing.T) {
	var delivered atomic.Int32
	traced := &http.Transport{}
	transport := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if resp, err := traced.RoundTrip(r.Clone(r.Context())); err == nil {
			return resp, nil
		}
		delivered.Add(1)
		return nil, io.EOF
	})
	client := benchmarkClient(t, "http://127.0.0.1:1", &http.Client{Transport: transport})
	require.ErrorIs(t, client.Applications.Cancel(t.Context(), catalog.Application), lending.ErrOutcomeUnknown)
	assert.EqualValues(t, 1, delivered.Load())
}

// The client trusts its own transport that there was no connection, and no other transport.
func TestOutcomeOfAStalledHandshake(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nobody answers
	require.NoError(t, err)
	defer listener.Close()
	transport := &http.Transport{}
	for _, test := range []struct {
		want        lending.Outcome
		hc          *http.Client
		times, wait int // in ms
	}{{lending.OutcomeNotSent, nil, 30, 5}, {lending.OutcomeUnknown, &http.Client{Transport: transport}, 1, 500}} {
		t.Run(fmt.Sprint(test.want), func(t *testing.T) {
			client := benchmarkClient(t, "https://"+listener.Addr().String(), test.hc)
			for range test.times {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(test.wait)*time.Millisecond)
				err := client.Applications.Cancel(ctx, catalog.Application)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorContains(t, err, ": deadline exceeded: ", "the context has ended: no timeout of the network")
				assert.Equal(t, test.want, lending.OutcomeOf(err))
			}
		})
	}
}

// The last error is a refused connection, but net/http has sent the read before.
func TestReadRepeatedByNetHTTPIsNotNotSent(t *testing.T) {
	t.Parallel() // five attempts
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	arrivals, address := 0, listener.Addr().String()
	var service sync.WaitGroup
	service.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for reader := bufio.NewReader(conn); arrivals < 2; arrivals++ {
			if _, err := http.ReadRequest(reader); err != nil {
				return
			}
			if arrivals == 1 {
				_ = listener.Close()
				continue
			}
			_, _ = io.WriteString(conn, wire.RawReply(200, nil, `"Open"`))
		}
	})
	client := wire.NewClient(t, "http://"+address, withToken)
	_, err = client.Applications.Status(t.Context(), catalog.Application)
	require.NoError(t, err)
	_, err = client.Applications.Status(t.Context(), catalog.Application)
	service.Wait()
	assert.Equal(t, 2, arrivals)
	require.ErrorContains(t, err, "cannot connect")
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
	require.NotErrorIs(t, err, lending.ErrOutcomeUnknown)
	require.NotErrorIs(t, err, lending.ErrMayHaveHappened)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.Applications.Status(ctx, catalog.Application)
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
}

// Only a failed dial proves that nothing was sent.
func TestTransportWithoutTraceProvesNothing(t *testing.T) {
	registered := &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	registered.RegisterProtocol("https",
		wire.RoundTripper(func(*http.Request) (*http.Response, error) { return nil, io.EOF }))
	fails := func(err error) http.RoundTripper {
		return wire.RoundTripper(func(*http.Request) (*http.Response, error) { return nil, err })
	}
	for _, test := range []struct {
		name      string
		transport http.RoundTripper
		want      lending.Outcome
	}{
		{"any error", fails(io.EOF), lending.OutcomeUnknown},
		{"read", fails(&net.OpError{Op: "read", Err: io.EOF}), lending.OutcomeUnknown},
		{"dial", fails(&net.OpError{Op: "dial", Err: io.EOF}), lending.OutcomeNotSent},
		{"DNS", fails(&net.DNSError{Err: "no such host"}), lending.OutcomeNotSent},
		{"handshake", fails(tls.RecordHeaderError{Conn: &net.TCPConn{}}), lending.OutcomeNotSent},
		{"TLS after it", fails(tls.RecordHeaderError{}), lending.OutcomeUnknown},
		{"nothing", fails(nil), lending.OutcomeUnknown},
		{"registered protocol", registered, lending.OutcomeUnknown},
		{"answer without body", wire.RoundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusBadRequest}, nil
		}), lending.OutcomeRejected},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := wire.InMemory(t, test.transport.RoundTrip).Applications.Cancel(t.Context(), catalog.Application)
			assert.Equal(t, test.want, lending.OutcomeOf(err), "%s: %v", test.name, err)
		})
	}
}

// A call without a token was never sent. Of the error of the sign-in, the call's own error shows
// only the time to wait.
func TestSignInDoesNotSpeakForTheCall(t *testing.T) {
	for _, test := range []struct {
		status int
		want   error
	}{
		{401, lending.ErrUnauthorized},
		{403, lending.ErrForbidden},
		{404, lending.ErrNotFound},
		{413, lending.ErrTooLarge},
		{429, lending.ErrRateLimited},
		{500, lending.ErrOutcomeUnknown},
	} {
		t.Run(fmt.Sprint(test.status), func(t *testing.T) {
			signIn := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "7")
				wire.Answer(test.status, "{}")(w, r)
			})
			_, inner := signIn.Auth.Login(t.Context(),
				lending.LoginRequest{Username: "u", Password: lending.NewSecret("p")})
			require.ErrorIs(t, inner, test.want)
			client := wire.NewClient(t, "https://lending.example", lending.WithTokenSource(failing{inner}))
			_, err := client.Customers.GetByEmail(t.Context(), "a@example.com")
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
			assert.NotErrorIs(t, err, test.want)
			var failed, nested *lending.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, 7*time.Second, failed.RetryAfter)
			assert.Zero(t, failed.StatusCode)
			require.ErrorAs(t, failed.Unwrap(), &nested)
			assert.Equal(t, test.status, nested.StatusCode)
		})
	}
}

// TestPausedSignInSaysHowLong fails during the pause after a rejected sign-in.
func TestPausedSignInSaysHowLong(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		service.Fail(fake.LoginRoute, lendingtest.Fault{Status: 429, RetryAfter: time.Minute, Times: -1})
		client := fake.SignIn(t, service, nil)
		for _, passed := range []time.Duration{0, 20 * time.Second} {
			bubble.Elapse(passed)
			_, err := client.Applications.CreateCustomer(t.Context(), fake.Ada())
			var failed *lending.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, time.Minute-passed, failed.RetryAfter)
			require.NotErrorIs(t, err, lending.ErrRateLimited)
			assert.Equal(t, lending.OutcomeNotSent, failed.Outcome)
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// A 401 of a route without a token does not make the source renew its token.
func TestAnonymousRefusalCostsNoToken(t *testing.T) {
	source := &wire.Renewing{}
	client := wire.NewClient(t, wire.Listen(t, wire.Answer(401, "{}")), lending.WithTokenSource(source))
	_, err := client.Auth.Login(t.Context(), lending.LoginRequest{Username: "u", Password: lending.NewSecret("p")})
	require.ErrorIs(t, err, lending.ErrUnauthorized)
	assert.Zero(t, source.Refused.Load())
	require.ErrorIs(t, client.Applications.Cancel(t.Context(), catalog.Application), lending.ErrUnauthorized)
	assert.EqualValues(t, 1, source.Refused.Load())
}

type failing struct{ err error }

func (f failing) Token(context.Context) (lending.Token, error) { return lending.Token{}, f.err }

// problemIn returns the problem record of a 400 with this body.
func problemIn(t *testing.T, body []byte) *lending.ProblemDetails {
	t.Helper()
	client := wire.InMemory(t, wire.Reply(http.StatusBadRequest, string(body)))
	var failed *lending.Error
	require.ErrorAs(t, client.Applications.Cancel(t.Context(), catalog.Application), &failed)
	return failed.Problem
}
